"""How the agents that are installed here would be counted and watched, and why so."""

from collections.abc import Iterator
from contextlib import closing

from headgate.config.error_text import label
from headgate.core.agents.meters import Meter
from headgate.core.key_patterns import matches
from headgate.core.urls import split_url
from headgate.core.wire.apis import provider_of
from headgate.doctor.facts import Facts, FixedConfig
from headgate.doctor.finding import Finding, note, ok, problem, warning
from headgate.errors import HeadgateError, UsageError
from headgate.gate import Gate
from headgate.gate.liveness.process_marks import carriers
from headgate.store import open_store
from headgate.store.memory import MemoryStore
from headgate.wire.order import read_order
from headgate.wire.plan_meter import plan_installed
from headgate.wire.point_agent import WirePlan

_PROXIES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


def check(facts: Facts) -> list[Finding]:
    """Every agent on the PATH, where its requests go, and what ended ones have left behind."""
    try:
        with closing(_gate(facts)) as gate:
            agents = list(plan_installed(gate, facts.environ))
            found = [one for agent in agents for one in _described(facts, gate, *agent)]
    except UsageError as error:  # a variable names a meter that there is not
        found, agents = [problem("meter_broken", str(error))], []
    seen = any(plan.meter is not Meter.AGENT for _, plan in agents)
    proxy = next((name for name in _PROXIES if facts.environ.get(name)), None)
    if seen and proxy:
        found.append(
            note("wire_proxy", f"requests that are seen go on through the proxy in {proxy}")
        )
    return [*found, *leftovers(facts)]


def _gate(facts: Facts) -> Gate:
    """The store's gate if there is a store, so that what is planned is what would be done."""
    config = FixedConfig(facts.config)
    if facts.folder is not None:
        try:
            return Gate(open_store(facts.url), config=config)
        except HeadgateError:
            pass
    return Gate(MemoryStore(), config=config)


def _described(facts: Facts, gate: Gate, program: str, plan: WirePlan) -> Iterator[Finding]:
    """What one agent gets and why, and where its requests go if that is the user's own host."""
    choice = plan.choice
    text = f"{program}: meter {choice.meter}, because {choice.why}"
    refused = _refused(facts, gate.key_of([program], facts.environ))
    if choice.hint and refused:
        text = f"{text}; lately upstream refused work of {refused} and did not say for how long"
        yield warning("meter", text, choice.hint)
    elif choice.hint:
        yield note("meter", text, choice.hint)
    else:
        yield ok("meter", text)
    own = sorted(
        {
            url.host
            for said in plan.upstreams.values()
            if (url := split_url(said)) is not None and not provider_of(url.host)
        }
    )
    if own and choice.meter is not Meter.AGENT:
        where = ", ".join(label(host) for host in own)
        said = f"{program}: {where} is where its settings send its requests, and stays so"
        yield note("upstream", said)


def _refused(facts: Facts, key: str | None) -> str:
    """A pool of this key that saw refusals lately; empty if none did."""
    return next((pool for pool in facts.seen.refused if key and pool and matches(pool, key)), "")


def leftovers(facts: Facts) -> Iterator[Finding]:
    """Folders of wires whose agents have ended: their processes were killed, and nobody came."""
    if facts.path is None:
        return
    folder = facts.path.with_name(f"{facts.path.name}.wire")
    there = [one for one in folder.iterdir() if one.name.isdigit()] if folder.is_dir() else []
    ended = [one for one in there if int(one.name) not in facts.seen.leases]
    orders = {one: read_order(one) for one in ended}
    alive = carriers([order.mark for order in orders.values() if order is not None])
    left = [one for one, order in orders.items() if order is None or order.mark not in alive]
    if left:
        text = f"{len(left)} agents that have ended left folders in {label(folder)}"
        names = " ".join(f"'{label(one)}'" for one in sorted(left)[:3])
        more = " and so on" if len(left) > 3 else ""
        yield note("wire_leftovers", text, f"remove them: rm -r {names}{more}")
