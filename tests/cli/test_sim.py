"""`headgate sim`: wired to its modules, which are loaded only when they are asked for."""

import json
import signal
import subprocess
import sys
import types
import urllib.error
import urllib.request
from argparse import ArgumentParser, Namespace

import pytest

from headgate.core.install_hint import install_extra
from tests.cli.golden.compare import Ask
from tests.support import HEADGATE, Box


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Stands in for the module that judges governors."""
    module = types.ModuleType("headgate.sim.commands")

    def take(parser: ArgumentParser) -> None:
        parser.add_argument("words", nargs="*")
        parser.add_argument("--seeds", type=int, default=1)

    def run(args: Namespace) -> int:
        sys.stdout.write(f"{args.words} {args.seeds}\n")
        return 3

    def report(args: Namespace) -> int:
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

    for name, value in (
        *(("run_arguments", take), ("report_arguments", take)),
        *(("run", run), ("report", report)),
    ):
        setattr(module, name, value)
    monkeypatch.setitem(sys.modules, "headgate.sim.commands", module)
    return module


def test_help_lists_the_actions_and_loads_none(box: Box) -> None:
    """What there is can be seen without the modules behind it."""
    script = (
        "import sys; from headgate.cli import main\n"
        "try: main(['sim', '--help'])\n"
        "except SystemExit: print(*[m for m in sys.modules if m.startswith('headgate.sim')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=box.env, capture_output=True, text=True, check=True
    )
    *shown, loaded = done.stdout.splitlines()
    assert loaded == ""
    actions = shown[: shown.index("examples:") - 1]
    assert [line.split()[0] for line in actions[-4:]] == ["run", "worlds", "serve", "report"]


def test_an_action_gets_its_own_arguments(ask: Ask, commands: types.ModuleType) -> None:
    """What its module says it takes, and its exit code is ours."""
    said = ask("sim", "run", "a.toml", "b.toml", "--seeds", "2")
    assert (said.code, said.out) == (3, "['a.toml', 'b.toml'] 2\n")
    assert "--seeds" in ask("sim", "run", "--help").out
    said = ask("sim", "run", "--seed", "2")
    assert (said.code, "unrecognized arguments: --seed" in said.err) == (2, True)


def test_what_is_missing_is_named(
    ask: Ask, commands: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the extra there is one line that says how to get it, and 125."""
    said = ask("sim", "report")
    assert (said.code, said.out) == (125, "")
    assert said.err == f"headgate: headgate sim needs matplotlib: {install_extra('sim')}\n"
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    said = ask("sim", "serve")
    assert (said.code, said.out) == (125, "")
    assert said.err.endswith(f"needs aiohttp: {install_extra('sim')}\n")
    assert said.err.count("\n") == 1


def test_a_mistake_in_a_module_is_no_missing_extra(
    ask: Ask, commands: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module of our own that is not there is a fault, and shows as one."""
    monkeypatch.setitem(sys.modules, "headgate.sim.commands", None)
    with pytest.raises(ModuleNotFoundError):
        ask("sim", "run")


def test_serve_serves_until_it_is_told_to_end(box: Box) -> None:
    """It says where it listens, answers, and ends with 0."""
    server = box.start(HEADGATE, "sim", "serve", "--json", "--anonymous", "--cap", "2")
    url = json.loads(server.line())["url"]
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(f"{url}/nothing")  # noqa: S310 - our own server
    assert error.value.code == 404
    error.value.close()
    server.send(signal.SIGTERM)
    assert server.wait() == 0
    assert server.line(stream="stderr") == ""


@pytest.mark.parametrize("words", [("--cap", "x"), ("--port", "99999"), ("--lag", "-1")])
def test_serve_names_what_was_wrong(ask: Ask, words: tuple[str, ...]) -> None:
    """A bad option is one line and 2."""
    said = ask("sim", "serve", *words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("headgate: bad --")
