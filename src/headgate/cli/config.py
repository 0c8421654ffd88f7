"""Check the configuration file and show the limits that follow; trust a project's own file."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.cli.limits import COLUMNS, in_order, row
from headgate.cli.shared import terminal
from headgate.cli.shared.open_gate import print_json, say, warn_of_old_messages
from headgate.config import Config, find, load
from headgate.core.admission.pool_set import resolve_pools
from headgate.core.admission.pools import AGENTS, Pool, UsageSource
from headgate.core.admission.setting_precedence import parse_view, with_project
from headgate.core.display import json_shapes
from headgate.core.display.snapshots import PoolStatus
from headgate.core.quantities import show_duration
from headgate.core.times import Seconds, seconds
from headgate.doctor import files
from headgate.errors import ConfigError
from headgate.gate.project_here import project_here
from headgate.store.locate import as_url, default_url

if TYPE_CHECKING:
    from headgate.doctor import Finding
    from headgate.doctor.files import File


def arguments(parser: ArgumentParser) -> None:
    """What `config` takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    does = "check a file: exit code 0 if it can be used, 2 if not"
    check = actions.add_parser("check", help=does, description=does, allow_abbrev=False)
    check.add_argument("file", nargs="?", metavar="FILE", help="which file (the one in use)")
    check.add_argument("--json", action="store_true", help="print it as JSON")
    does = "have the headgate.toml of a project read, as it is now; a changed one asks again"
    trust = actions.add_parser("trust", help=does, description=does, allow_abbrev=False)
    trust.add_argument("folder", nargs="?", metavar="FOLDER", help="the project (this folder)")
    trust.add_argument("--remove", action="store_true", help="trust it no more")


def run(args: Namespace) -> int:
    """Check it; all that is wrong is said at once."""
    if args.action == "trust":
        from headgate.cli.shared.trust_project import trust_project

        return trust_project(args)
    said = args.file or args.config_file
    looked = files.look(os.environ, store=args.store, config=said)
    try:
        config, view = _read(Path(said) if said else None)
    except ConfigError as error:
        if not args.json:
            raise
        print_json(_as_json(None, {}, str(error).split("\n"), files=looked))
        return error.exit_code
    pools = resolve_pools(config.pools, (), config.defaults).under(view).pools
    if any(target.gets_json for target in config.notify):
        warn_of_old_messages()
    findings = _examined(config, view, args.store)
    if args.json:
        print_json(_as_json(config, pools, findings=findings, files=looked))
        return 0
    for warning in config.warnings:
        say(f"warning: {warning}")
    for finding in findings:
        say(f"warning: {'; '.join(filter(None, (finding.text, finding.advice)))}")
    found = str(config.path) if config.path else "there is no file, the defaults count"
    shown = [terminal.clean(line) for line in files.lines(looked)]
    terminal.show([f"ok: {terminal.clean(found)}", "", *_lines(pools, terminal.pen()), "", *shown])
    return 0


def _read(path: Path | None) -> tuple[Config, str]:
    """The file, and the limits that come on top of it; all that is wrong with any, at once."""
    wrong: list[str] = []
    config, view, project = load(None), "", None
    try:
        config = load(path or find())
    except ConfigError as error:
        wrong.append(str(error))
    try:
        view = parse_view(os.environ.get("HEADGATE_LIMITS", ""))
    except ConfigError as error:
        wrong.append(str(error))
    try:
        project = project_here()
    except ConfigError as error:
        wrong.append(str(error))
    if wrong:
        raise ConfigError("\n".join(wrong))
    if project is not None and project.advice:
        say(f"note: {project.advice}")
    return config, with_project(view, project.limits) if project is not None else view


def _examined(config: Config, view: str, store: str | None) -> "list[Finding]":
    """What `doctor` would warn of: limits and timeouts that do not go together, and slips."""
    from headgate.doctor import PROBLEM, WARNING, overlapping_pools, timeouts
    from headgate.doctor.facts import gather

    facts, _ = gather(config, os.environ, as_url(store) if store else default_url(), view)
    found = [*overlapping_pools.check(facts), *timeouts.check(facts)]
    return [one for one in found if one.level in {WARNING, PROBLEM}]


def _lines(pools: Mapping[str, Pool], pen: terminal.Pen) -> list[str]:
    """The limits, and where else a pool looks; no URL, for some hold what is private."""
    columns = (*COLUMNS, ("usage", ""), ("observes", "shrinks"))
    rows = [
        (
            *row(status, Seconds(0)),
            _usage(pools[status.pool].usage),
            ", ".join(_observed(pools[status.pool])),
        )
        for status in in_order(map(_status, pools.values()))
    ]
    return terminal.table(columns, rows, pen)


def _observed(pool: Pool) -> list[str]:
    """The patterns of a pool, and the word for all known agents."""
    return ["agents" if one == AGENTS else one for one in pool.observe]


def _usage(source: UsageSource | None) -> str:
    if source is None:
        return ""
    return f"{source.kind} every {show_duration(source.every)}"


def _as_json(
    config: Config | None,
    pools: Mapping[str, Pool],
    errors: Sequence[str] = (),
    findings: "Sequence[Finding]" = (),
    *,
    files: "Sequence[File]" = (),
) -> json_shapes.Json:
    """What the file says; or what is wrong with it, and null for all the rest."""
    listed = [
        {
            **json_shapes.settings(_status(pool)),
            "usage": None if pool.usage is None else pool.usage.kind,
            "observe": _observed(pool),
        }
        for pool in pools.values()
    ]
    return json_shapes.document(
        {
            "ok": config is not None,
            "path": str(config.path) if config and config.path else None,
            "files": [one._asdict() for one in files],
            "errors": list(errors),
            "warnings": config and config.warnings,
            "pools": config and listed,
            "findings": config and [one._asdict() for one in findings],
            "grace": config and seconds(config.grace),
        }
    )


def _status(pool: Pool) -> PoolStatus:
    """A pool that nobody uses yet."""
    return PoolStatus(
        pool=pool.name,
        limit=pool.limit,
        configured_limit=pool.configured_limit,
        source=pool.source,
        in_use=0,
        cooling=0,
        queued=0,
        paused=False,
        paused_until=None,
        cooldown_ms=pool.cooldown,
        max_hold=None if pool.max_hold is None else seconds(pool.max_hold),
        reserve=dict(pool.reserve),
        adapt=pool.adapt,
        rpm=pool.rates.rpm or None,
        tpm=pool.rates.tpm or None,
        spacing_ms=pool.rates.spacing,
    )
