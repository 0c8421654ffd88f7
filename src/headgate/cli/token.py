"""Tokens: what those show to the server who are not this user on this machine."""

import getpass
import sys
from argparse import ArgumentParser, Namespace

from headgate.cli.shared import terminal
from headgate.cli.shared.open_gate import open_gate, print_json, say
from headgate.core.display import json_shapes
from headgate.core.server_settings import Scope
from headgate.errors import UsageError
from headgate.gate.tokens import TokenStatus

_TABLE = (("id", ""), ("name", "name"), ("scope", ""), ("templates", "shrinks?"), ("made", ""))
_MAY = {
    Scope.READ: "see everything: commands are not shown, but keys, tasks, names and output are",
    Scope.SUBMIT: "see everything, take seats, submit jobs, and cancel any work",
    Scope.ADMIN: "do everything: that, and set limits",
}


def arguments(parser: ArgumentParser) -> None:
    """What `token` takes."""
    verbs = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = verbs.add_parser("create", help="make one; it is shown this once", allow_abbrev=False)
    create.add_argument(
        "--scope",
        required=True,
        choices=[scope.value for scope in Scope],
        help="what it is for; each may do what those before it may",
    )
    create.add_argument("--name", default="", help="a name for it, as lists and logs show it")
    create.add_argument(
        "--template",
        action="append",
        default=[],
        metavar="NAME",
        help="jobs may be made of this template only; may be given again",
    )
    create.add_argument("--json", action="store_true", help="print it as JSON")
    listed = verbs.add_parser("list", help="all of them, not what they are", allow_abbrev=False)
    listed.add_argument("--json", action="store_true", help="print them as JSON")
    revoke = verbs.add_parser("revoke", help="have nobody use it any more", allow_abbrev=False)
    revoke.add_argument("name", metavar="NAME", help="its name or its id")
    revoke.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: Namespace) -> int:
    """Make, list or revoke."""
    match args.action:
        case "create":
            return _create(args)
        case "list":
            return _list(args)
        case _:
            return _revoke(args)


def _create(args: Namespace) -> int:
    scope = Scope(args.scope)
    if args.template and scope is not Scope.SUBMIT:
        raise UsageError(f"bad --template: it goes with the scope submit, not with {scope.value}")
    with open_gate(args) as gate:
        missing = [name for name in args.template if name not in gate.server.templates]
        if missing:
            raise UsageError(f"there is no [templates.{missing[0]}] in the configuration")
        only = gate.server.only_templates and scope is Scope.SUBMIT
        made, secret = gate.tokens.create(scope, args.name, args.template)
    if args.json:
        print_json(json_shapes.document({**_json(made), "token": secret}))
    else:
        sys.stdout.write(f"{secret}\n")
        sys.stdout.flush()
    say(f"token {made.name} may {_MAY[scope]}. It is not shown again")
    if made.templates or only:
        names = ", ".join(made.templates) or "any that is configured"
        say(f"jobs can only be made of these templates with it: {names}")
    elif scope is not Scope.READ:
        say(
            f"WARNING: whoever has it can run ANY COMMAND on this machine as {_user()}. To allow "
            "only some commands: --template NAME, and [templates.NAME] in the configuration"
        )
    return 0


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "the user that the server runs as"


def _list(args: Namespace) -> int:
    with open_gate(args) as gate:
        found = gate.tokens.list()
    if args.json:
        print_json(json_shapes.document({"tokens": [_json(one) for one in found]}))
    elif not found:
        terminal.show(["There are no tokens."])
    else:
        terminal.show(terminal.table(_TABLE, [_row(one) for one in found], terminal.pen()))
    return 0


def _revoke(args: Namespace) -> int:
    with open_gate(args) as gate:
        gone = gate.tokens.revoke(args.name)
    say(f"token {gone.name} is revoked")
    if args.json:
        print_json(json_shapes.document(_json(gone)))
    return 0


def _row(one: TokenStatus) -> tuple[terminal.Cell, ...]:
    made = terminal.clock(one.created)
    return one.id, one.name, one.scope.value, ", ".join(one.templates), made


def _json(one: TokenStatus) -> json_shapes.Json:
    return {
        "id": one.id,
        "name": one.name,
        "scope": one.scope.value,
        "templates": list(one.templates),
        "created": json_shapes.iso(one.created),
    }
