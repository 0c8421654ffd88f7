"""When `run` ends its program, whatever that does."""

from argparse import Namespace

from headgate.cli.shared.open_gate import say
from headgate.core.agents.meters import Meter
from headgate.core.agents.run_limits import RunLimits, warnings
from headgate.core.table_fields import read_options
from headgate.errors import UsageError
from headgate.wire.point_agent import WirePlan
from headgate.work import job_fields

OPTIONS = (
    "stale_after",
    "message_stale_after",
    "max_runtime",
    "max_tool_calls",
    "same_tool_calls",
)
_OF_TIME = {"max_runtime"}
"""Those for which nobody has to see what the program does."""


def read_run_limits(args: Namespace, plan: WirePlan) -> RunLimits:
    """What was said; an error if it cannot be seen whether it is kept."""
    given = {name: said for name in OPTIONS if (said := getattr(args, name)) is not None}
    wrong: list[str] = []
    found = read_options(given, job_fields.RUN_LIMITS, wrong)
    if wrong:
        raise UsageError("\n".join(wrong))
    unseen = next((name for name, limit in found.items() if limit and name not in _OF_TIME), None)
    if unseen is not None and plan.meter is Meter.AGENT:
        option = unseen.replace("_", "-")
        why = f": {plan.choice.why}" if plan.choice.why else ""
        raise UsageError(
            f"bad --{option}: what it prints goes to you, and its requests are not seen here{why}; "
            "give --meter wire, or hand it in with headgate submit"
        )
    limits = RunLimits(same_tool_calls=None, park=False)._replace(**found)
    if not args.quiet:
        for warning in warnings(limits):
            say(f"warning: {warning}")
    return limits
