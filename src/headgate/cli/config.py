"""Check the configuration file and show the limits that follow from it."""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from headgate.cli import draw
from headgate.cli.common import print_json, say
from headgate.cli.limits import limits_json, lines
from headgate.config import Config, find, load
from headgate.core.pools import Pool, book, parse_view
from headgate.core.views import PoolStatus
from headgate.errors import ConfigError


def arguments(parser: ArgumentParser) -> None:
    """What `config` takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    does = "check a file: exit code 0 if it can be used, 2 if not"
    check = actions.add_parser("check", help=does, description=does, allow_abbrev=False)
    check.add_argument("file", nargs="?", metavar="FILE", help="by default the one that counts")
    check.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: Namespace) -> int:
    """Check it; all that is wrong is said at once."""
    said = args.file or args.config_file
    try:
        config = load(Path(said) if said else find())
        view = parse_view(os.environ.get("HEADGATE_LIMITS", ""))
    except ConfigError as error:
        if not args.json:
            raise
        print_json({"ok": False, "errors": str(error).split("\n")})
        return error.exit_code
    pools = [_status(pool) for pool in book(config.pools, ()).under(view).pools.values()]
    if args.json:
        print_json(_as_json(config, pools))
        return 0
    for warning in config.warnings:
        say(f"warning: {warning}")
    found = str(config.path) if config.path else "there is no file, the defaults count"
    draw.show([f"ok: {draw.clean(found)}", "", *lines(pools, draw.pen())])
    return 0


def _as_json(config: Config, pools: list[PoolStatus]) -> dict[str, object]:
    return {
        "ok": True,
        "path": str(config.path) if config.path else None,
        "warnings": config.warnings,
        "pools": [limits_json(pool) for pool in pools],
        "grace": config.grace / 1000,
    }


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
        max_hold=None if pool.max_hold is None else pool.max_hold / 1000,
        reserve=dict(pool.reserve),
    )
