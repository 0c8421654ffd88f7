"""`headgate probe`: real copies of a command, and a stand-in provider with a cap."""

import json
import signal
import subprocess
from typing import Any

import pytest

from headgate.sim import journal
from headgate.sim.journal import JournalLine, most_at_once
from tests.cli.golden.compare import Ask
from tests.support import HEADGATE, LONG, Box, pool_of, until

SECRET = "sk-test-4f1c0ffee5ba5eba11"
THREE = (
    "for i in 1 2 3; do "
    "mkdir {dir}/$i 2>/dev/null && {{ sleep 0.5; rmdir {dir}/$i; exit 0; }}; done; exit 3"
)
"""A program of which a fourth at once fails."""


def probe(box: Box, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [HEADGATE, "probe", *words],
        env=box.env,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def three(box: Box) -> str:
    folder = box.folder / "locks"
    folder.mkdir()
    return THREE.format(dir=folder)


def test_a_limit_is_found_and_set(box: Box) -> None:
    """With a fourth the program fails, so three is recommended, and set if asked for."""
    done = probe(box, "--set", "--json", "--most", "8", "--", "sh", "-c", three(box))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["recommended"], said["set"], said["command"]) == (3, "host", "sh")
    assert [row["copies"] for row in said["rounds"]] == [1, 2, 4, 3]
    assert [row["good"] for row in said["rounds"]] == [True, True, False, True]
    assert said["rounds"][2]["reason"] == "1 of 4 failed (exit code 3)"
    assert {"seconds", "wall", "cpu", "memory", "peak", "failed"} <= said["rounds"][0].keys()
    host = pool_of(box.gate(), "host")
    assert (host.limit, host.source) == (3, "hand")


def test_a_limit_is_recommended_in_words(box: Box) -> None:
    """Progress goes to stderr; nothing is set, and the program's arguments are not shown."""
    done = probe(box, "--most", "2", "--", "sh", "-c", "sleep 0.1 # secret prompt")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "recommended limit for host: 2"
    assert "  to set it: headgate limits set host 2" in lines
    assert "2 at once: " in done.stderr
    assert "secret" not in done.stdout + done.stderr
    assert pool_of(box.gate(), "host").source == "default"


@pytest.mark.parametrize(
    "command,said",
    [
        (("false",), "with a single copy, it failed (exit code 1)"),
        (("sh", "-c", "kill -9 $$"), "it failed (ended by signal 9)"),
        (("--timeout", "200ms", "--", "sleep", "60"), "it failed (1 took too long)"),
        (
            ("sh", "-c", "echo 'API Error: Request rejected (429)'; exit 1"),
            "it failed (upstream said concurrency-limited; exit code 1)",
        ),
    ],
)
def test_a_program_that_fails_alone_gets_no_limit(
    box: Box, command: tuple[str, ...], said: str
) -> None:
    """One copy must work for more to mean anything."""
    words = command if "--" in command else ("--", *command)
    done = probe(box, "--set", *words)
    assert done.returncode == 125
    assert said in done.stderr
    assert done.stdout == ""
    assert pool_of(box.gate(), "host").source == "default"


def test_a_machine_without_room_is_left_alone(box: Box) -> None:
    """Below the floor of the configuration nothing is even tried."""
    box.config('[pools.host]\nmemory_floor = "8000TiB"\n')
    done = probe(box, "--", "touch", str(box.folder / "ran"))
    assert done.returncode == 125
    assert "there is no memory to try it in" in done.stderr
    assert not (box.folder / "ran").exists()


@pytest.mark.parametrize(
    "number,code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_ctrl_c_ends_all_copies(box: Box, number: signal.Signals, code: int) -> None:
    """And whatever they have started, wherever it went."""
    pids = box.folder / "pids"
    script = f"setsid sh -c 'echo $$ >> {pids}; sleep 300' & echo $$ >> {pids}; sleep 300"
    it = box.start(HEADGATE, "probe", "--", "sh", "-c", script, start_new_session=True)
    until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    it.send(number)
    assert it.wait(LONG) == code
    assert box.strays() == []


@pytest.mark.parametrize(
    "words,said",
    [
        ((), "nothing to try"),
        (("--most", "0", "--", "true"), "bad --most '0'"),
        (("--most", "9999999999", "--", "true"), "bad --most"),
        (("--rounds", "x", "--", "true"), "bad --rounds 'x'"),
        (("--timeout", "0", "--", "true"), "bad --timeout '0'"),
        (("--set", "openai", "--", "true"), "bad --set 'openai'"),
        (("-m", "a/b", "--", "true"), "--model goes with --upstream URL only"),
        (("--", "headgate", "run", "--", "true"), "without headgate run"),
        (("--upstream", "http://x", "--", "true"), "not both"),
        (("--upstream", "http://x"), "needs the model"),
        (("--upstream", "http://x", "-m", "a/b", "--rounds", "3"), "--rounds goes with"),
        (("--upstream", "http://x", "-m", "a/b", "--set", "host"), "bad --set 'host'"),
        (("--upstream", "http://x", "-m", "a/b"), "OPENAI_API_KEY is not set"),
        (("--upstream", "http://x", "-m", "anthropic/b"), "ANTHROPIC_API_KEY is not set"),
    ],
)
def test_bad_usage(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    """What makes no sense is refused before anything is tried."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    found = ask("probe", *words)
    assert found.code == 2
    assert said in found.err


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "api.example.com",
            "ftp://x",
            "http://",
            "https://[::1",
        ),
        *(f"http://user:{SECRET}@x", f"https://x/?key={SECRET}", "http://x\n/", "http://x:99999"),
        *(
            "http://\u2603 x",
            f"http://x#{SECRET}",
        ),
    ],
)
def test_what_is_no_url_is_refused(ask: Ask, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Only http and https, with no key in it; the URL is not repeated, for it may have one."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    found = ask("probe", "--upstream", url, "-m", "a/b")
    assert found.code == 2
    assert "bad --upstream" in found.err
    assert SECRET not in found.out + found.err


def test_a_program_that_is_not_there(ask: Ask) -> None:
    """The exit codes are those of a shell."""
    assert ask("probe", "--", "no-such-program").code == 127
    assert ask("probe", "--", "/etc/passwd").code == 126


class Provider:
    """`headgate sim serve` in a process of its own."""

    def __init__(self, box: Box, *words: str) -> None:
        self._log = box.folder / "journal"
        self._box = box
        box.env["THE_KEY"] = SECRET
        quick = ("--duration", "300ms", "--lag", "100ms")
        server = box.start(
            HEADGATE, "sim", "serve", "--json", "--log", str(self._log), *quick, *words
        )
        self.url: str = json.loads(server.line())["url"]

    def probe(self, *words: str) -> "subprocess.CompletedProcess[str]":
        options = ("--key-env", "THE_KEY", "--rest", "300ms", "-m", "corp/opus")
        done = probe(self._box, "--upstream", self.url, *options, *words)
        assert SECRET not in done.stdout + done.stderr
        return done

    def found(self, *words: str) -> dict[str, Any]:
        done = self.probe("--json", *words)
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        names = "limit works confirmed reasons spent refused set signal"
        assert list(said) == ["schema", *names.split()]
        return said

    def lines(self) -> list[JournalLine]:
        return journal.read(self._log)

    def count(self, event: str) -> int:
        return sum(line.event == event for line in self.lines())


@pytest.mark.parametrize("api", ["anthropic", "openai", "gemini"])
def test_the_cap_of_an_account_is_found(box: Box, api: str) -> None:
    """One request is refused, by the provider's own log, and one below is confirmed."""
    provider = Provider(box, "--cap", "3")
    said = provider.found("--api", api)
    assert (said["limit"], said["works"], said["confirmed"]) == (3, 3, True)
    assert (said["spent"], said["refused"]) == (1 + 2 + 3 + 4 + 3, 1)
    assert provider.count("refused") == 1
    assert provider.count("enter") == said["spent"] - 1
    assert most_at_once(provider.lines()) == 3
    assert said["set"] is None


def test_retry_after_is_waited_out(box: Box) -> None:
    """Nothing is sent before upstream wants to be asked again."""
    provider = Provider(box, "--cap", "2", "--retry-after", "2s")
    done = provider.probe("--set")
    assert done.returncode == 0, done.stderr
    assert "waiting 2s, then 2 once more" in done.stderr
    lines = provider.lines()
    refused = next(line.at for line in lines if line.event == "refused")
    assert min(line.at for line in lines if line.at > refused and line.event == "enter") >= (
        refused + 1_900
    )
    assert "corp/opus has a limit of 2 now" in done.stdout
    pool = pool_of(box.gate(), "corp/opus")
    assert pool.limit == 2


def test_no_limit_is_found_where_there_is_none(box: Box) -> None:
    """It stops at the most that was asked for; what worked can be set, for any pool."""
    provider = Provider(box, "--cap", "50")
    done = provider.probe("--most", "3", "--set", "corp")
    assert "no limit up to 3" in done.stdout
    assert "in 12 requests at most" in done.stderr
    assert provider.count("enter") == 6
    assert provider.count("refused") == 0
    assert pool_of(box.gate(), "corp").limit == 3


def test_a_rate_is_no_limit_on_how_many(box: Box) -> None:
    """A refusal for too many in a while is told as such, and nothing is set."""
    provider = Provider(box, "--cap", "50", "--rpm", "4")
    said = provider.found("--set")
    assert (said["limit"], said["confirmed"], said["set"]) == (None, False, None)
    assert said["signal"] == "rate-limited"
    assert provider.count("refused") <= 2


def test_an_account_that_is_busy(box: Box) -> None:
    """Where others take all there is, a single request is refused, and no limit is made up."""
    provider = Provider(box, "--cap", "2", "--foreign", "2")
    done = provider.probe("--set")
    assert done.returncode == 125
    assert "refused a single request" in done.stderr
    assert provider.count("refused") == 1


def test_a_wrong_key_is_said(box: Box) -> None:
    """The variable is named, its value is not."""
    Provider(box)
    box.env["THE_KEY"] = ""
    done = probe(box, "--upstream", "http://127.0.0.1:9", "-m", "a/b", "--key-env", "THE_KEY")
    assert done.returncode == 2
    assert "THE_KEY is not set" in done.stderr
    box.env["THE_KEY"] = f"{SECRET}\nX-Evil: 1"
    done = probe(box, "--upstream", "http://127.0.0.1:9", "-m", "a/b", "--key-env", "THE_KEY")
    assert done.returncode == 2
    assert SECRET not in done.stderr


def test_nobody_at_home(box: Box) -> None:
    """A host that cannot be reached, or says something odd, ends the probe with a sentence."""
    box.env["THE_KEY"] = SECRET
    words = ("-m", "a/b", "--key-env", "THE_KEY", "--timeout", "2s")
    done = probe(box, "--upstream", "http://127.0.0.1:9", *words)
    assert done.returncode == 125
    assert "the probe stopped at 1 at once: 127.0.0.1 refused the connection" in done.stderr
    provider = Provider(box)
    done = probe(box, "--upstream", f"{provider.url}/sim", *words)
    assert done.returncode == 125
    assert "answered 404" in done.stderr
