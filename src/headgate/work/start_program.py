"""Starts the program of a job, with the wire beside it if its requests are to be seen."""

import os

from headgate.core.agents.agent_watch import fit_to_show
from headgate.core.agents.meters import Meter
from headgate.core.agents.run_limits import RunLimits
from headgate.core.jobs.job import AttemptOutcome, End, Spec, exit_text
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import seconds
from headgate.gate import Gate
from headgate.gate.worker_jobs import Taken
from headgate.runner.child import Child
from headgate.wire.beside import put_beside
from headgate.wire.plan_meter import plan_for, queue_timeout
from headgate.wire.point_agent import VARIABLE, WirePlan
from headgate.wire.supervise import Wire


class RunningProgram(NamedTuple):
    """A program that was started."""

    child: Child
    wire: Wire | None

    def over(self) -> None:
        """Nothing of it is left."""
        if self.wire is not None:
            self.child.on_other_end = None
            self.wire.end()


def start_program(
    gate: Gate, taken: Taken, spec: Spec, argv: list[str], limits: RunLimits
) -> RunningProgram | End:
    """Start it in its folder; how the attempt has ended if that cannot be."""
    job, lease = taken
    about = {
        "HEADGATE_JOB": str(job.id),
        "HEADGATE_ATTEMPT": str(job.attempts),
        "HEADGATE_STORE": gate.url,
    }
    environment = {**os.environ, **spec.env, **lease.environment, **about}
    wire = None
    try:
        os.chdir(spec.cwd)
        said = spec.env.get(VARIABLE)
        plan = plan_for(gate, argv, job.key, said=said, environment=environment, cwd=spec.cwd)
        if plan.meter is Meter.AGENT and spec.env.get(VARIABLE) == Meter.REQUESTS and not job.key:
            return _not_metered(plan)
        wired = put_beside(
            gate,
            lease,
            plan,
            argv,
            key=job.key,
            priority=-job.urgency,
            patience=seconds(limits.patience),
            queue_timeout=queue_timeout(None, environment),
            task_given=job.task != f"{job.label}-{job.id}",
            parks=limits.park,
        )
        wire, environment = wired.wire, {**environment, **wired.environment}
        child = Child(wired.argv, environment, gate.life_fd, environment.get("PATH"))
    except OSError as error:
        if wire is not None:
            wire.end()
        what = argv[0] if error.filename != spec.cwd else f"in {spec.cwd}"
        where = _searched(argv[0], spec) if isinstance(error, FileNotFoundError) else ""
        text = fit_to_show(f"cannot start {what}: {error.strerror}{where}")
        code = 127 if isinstance(error, FileNotFoundError) else 126
        return End(AttemptOutcome.FAILED, "cannot_start", text, exit_text(code, 0))
    if wire is not None:
        child.on_other_end = wire.ended
    return RunningProgram(child, wire)


def _searched(program: str, spec: Spec) -> str:
    """Whose PATH was searched for a program that is not there."""
    if "/" in program or not os.path.isdir(spec.cwd):  # noqa: PTH112 - any text
        return ""
    if "PATH" in spec.env:
        return " on the PATH that it was submitted with"
    return " on the PATH of the worker (submit --path gives it the one of your shell)"


def _not_metered(plan: WirePlan) -> End:
    """A job that was let in for its requests to be counted, where they cannot be seen."""
    text = f"its requests were to be counted, but cannot be seen here: {plan.choice.why}"
    return End(AttemptOutcome.FAILED, "cannot_start", fit_to_show(text), exit_text(126, 0))
