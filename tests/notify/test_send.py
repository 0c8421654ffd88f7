"""One try: commands, webhooks and apprise, and all that can be wrong with them."""

import hashlib
import hmac
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.core.display.snapshots import Event
from headgate.core.notification_targets import NotifyTarget
from headgate.core.times import Ms, Seconds
from headgate.notify import lacks, message, try_out, where
from headgate.notify.outcome import Cancellation, Delivered, DeliveryFailed
from headgate.notify.send import send
from tests.notify.receiver import Receiver
from tests.support import end, gone, until
from tests.usage.server import Server, says

FAILED = Event(
    7, Seconds(1_700_000_000.25), "failed", 17, "anthropic/opus", "oracle-2", "", "exit 1"
)
NASTY = "\x1b]0;owned\x07\r\nX-Evil: 1\0 \ud800 </script>'; rm -rf / #" + "A" * 100_000


def hook(script: str, **more: Any) -> NotifyTarget:  # noqa: ANN401 - any setting
    return NotifyTarget("t", command=("sh", "-c", script), **more)


def test_a_command_gets_the_event_as_json(tmp_path: Path) -> None:
    """Everything there is to know of an event is on the hook's standard input, on one line."""
    out = tmp_path / "out"
    told = send(hook(f"cat > {out}; echo loud"), FAILED, "uid-7")
    assert told == Delivered()
    text = out.read_text()
    assert text.count("\n") == 1
    said = json.loads(text)
    assert said.pop("host")
    assert said == {
        "schema": 1,
        "seq": 7,
        "event": "failed",
        "at": "2023-11-14T22:13:20.250Z",
        "work": 17,
        "task": "oracle-2",
        "key": "anthropic/opus",
        "pool": None,
        "text": "exit 1",
        "name": None,
        "summary": "failed: 17 oracle-2 anthropic/opus: exit 1",
        "position": None,
        "until": None,
        "target": "t",
        "delivery": "uid-7",
    }


@pytest.mark.parametrize("schema, id", [("", 17), ("1", None)])
def test_whoever_delivers_decides_on_the_old_names(
    schema: str, id: int | None, tmp_path: Path, receiver: Receiver
) -> None:
    """`id` stands beside `work` unless the one who delivers wants the new names only."""
    env = {**os.environ, "HEADGATE_SCHEMA": schema}
    out = tmp_path / "out"
    assert send(hook(f"cat > {out}"), FAILED, "d", environ=env) == Delivered()
    assert send(NotifyTarget("t", url=receiver.url), FAILED, "d", environ=env) == Delivered()
    for said in (json.loads(out.read_text()), receiver.got[0].said):
        assert (said["work"], said.get("id")) == (17, id)


def test_a_bad_schema_is_no_reason_to_give_up() -> None:
    """It is what a target lacks, as long as it is told in JSON."""
    env = {"HEADGATE_SCHEMA": "2"}
    lack = "bad HEADGATE_SCHEMA '2': expected 1, or leave it unset"
    assert send(hook("true"), FAILED, "d", environ=env) == DeliveryFailed(lack, again=False)


def test_a_pause_says_when_it_ends_and_a_queued_job_where_it_stands() -> None:
    """What a text says of times and places is a field too; other texts say nothing of the kind."""

    def about(kind: str, text: str) -> tuple[Any, Any]:
        event = FAILED._replace(event=kind, text=text, at=Seconds(0.0))
        said = message.message(event, "t", "d")
        return said["until"], said["position"]

    assert about("paused", "for 1m30s: rate-limited") == ("1970-01-01T00:01:30.000Z", None)
    assert about("paused", "until resumed") == (None, None)
    assert about("paused", "for 9999999999d") == (None, None)
    assert about("queued", "position 3: host is full (3/3)") == (None, 3)
    assert about("failed", "position 3: for 2s") == (None, None)


@pytest.mark.parametrize("way", ["command", "webhook"])
def test_hostile_texts_arrive_as_plain_text(way: str, tmp_path: Path, receiver: Receiver) -> None:
    """Control characters, lone surrogates and endless texts neither break nor steer anything."""
    event = FAILED._replace(task=NASTY, key=NASTY, pool=NASTY, text=NASTY)
    out = tmp_path / "out"
    if way == "command":
        assert send(hook(f'cat > {out}; test -n "$HEADGATE_SUMMARY"'), event, "d") == Delivered()
        said = json.loads(out.read_text())
    else:
        assert send(NotifyTarget("t", url=receiver.url), event, "d") == Delivered()
        [got] = receiver.got
        assert "x-evil" not in got.headers
        said = got.said
    for name in ("task", "key", "pool", "text", "summary"):
        assert said[name].isprintable()
        assert len(said[name]) <= 2_000


def test_a_command_that_reads_nothing_succeeds() -> None:
    """A hook may ignore its input and its output may go anywhere."""
    assert send(hook("exec <&- >&- 2>&-"), FAILED, "d") == Delivered()


def test_a_command_knows_what_happened_without_reading(tmp_path: Path) -> None:
    """The kind and a line for people are in the environment, and no lease's mark is."""
    out = tmp_path / "out"
    script = f'echo "$HEADGATE_EVENT|$HEADGATE_SUMMARY|$HEADGATE_LEASE" > {out}'
    env = {**os.environ, "HEADGATE_LEASE": "u.1"}
    assert send(hook(script), FAILED, "d", environ=env) == Delivered()
    assert out.read_text() == "failed|failed: 17 oracle-2 anthropic/opus: exit 1|\n"


@pytest.mark.parametrize(
    "script, why, said",
    [
        ("exit 3", "exit 3", ""),
        ("echo one >&2; echo 'no such room' >&2; exit 3", "exit 3", "no such room"),
        (r"printf 'a\033[31mb\000' >&2; exit 1", "exit 1", "a [31mb"),
        ("echo token sk-ant-abcdef0123456789 >&2; exit 1", "exit 1", "token (hidden)"),
        ("kill -9 $$", "killed by signal 9", ""),
    ],
)
def test_a_failed_command_says_why(script: str, why: str, said: str) -> None:
    """The exit code is the reason; the last line of stderr is for whoever tries it out."""
    assert send(hook(script), FAILED, "d") == DeliveryFailed(why, said=said)
    assert try_out(hook(script)) == (f"{why}: {said}" if said else why)


def test_a_missing_command_is_a_failure() -> None:
    """What cannot be started is said with its name."""
    found = send(NotifyTarget("t", command=("/nowhere/hook",)), FAILED, "d")
    assert found == DeliveryFailed("cannot start hook: No such file or directory")


def test_a_flood_of_output_is_dropped() -> None:
    """Megabytes on stdout and stderr neither block a hook nor stay in memory; the end counts."""
    script = (
        "head -c 9000000 /dev/zero; head -c 9000000 /dev/zero >&2; echo >&2; echo end >&2; exit 1"
    )
    assert send(hook(script), FAILED, "d") == DeliveryFailed("exit 1", said="end")


def test_a_hanging_command_is_killed_with_all_it_started(tmp_path: Path) -> None:
    """After its time a hook and its children are gone, even those that ignore signals."""
    out = tmp_path / "pids"
    script = f"trap '' TERM INT HUP; sleep 1000 & echo $$ $! > {out}; sleep 1000"
    assert send(hook(script, timeout=500), FAILED, "d") == DeliveryFailed("took longer than 0.5s")
    pids = [int(pid) for pid in out.read_text().split()]
    assert len(pids) == 2
    until(lambda: all(gone(pid) for pid in pids))


def test_what_a_command_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    """A hook that ends has ended, though a child of it keeps its stderr open."""
    out = tmp_path / "pid"
    assert send(hook(f"sleep 1000 & echo $! > {out}", timeout=60_000), FAILED, "d") == Delivered()
    end(int(out.read_text()))


def test_a_command_can_be_broken_off(tmp_path: Path) -> None:
    """Whoever stops need not wait for a hook's time to be over."""
    os.mkfifo(tmp_path / "up")
    cancellation, found = Cancellation(), []
    target = hook(f"echo > {tmp_path / 'up'}; sleep 1000", timeout=60_000)
    thread = threading.Thread(target=lambda: found.append(send(target, FAILED, "d", cancellation)))
    thread.start()
    (tmp_path / "up").read_text()
    cancellation.break_off()
    thread.join(20)
    assert found == [DeliveryFailed("was broken off")]


def test_a_webhook_is_signed(receiver: Receiver) -> None:
    """Whoever has the secret can tell that body and time are ours; the secret is not sent."""
    target = NotifyTarget("t", url=receiver.url, secret_env="HOOK_SECRET")
    before = int(time.time())
    assert send(target, FAILED, "uid-7", environ={"HOOK_SECRET": "s3cret"}) == Delivered()
    [got] = receiver.got
    stamp = got.headers["x-headgate-timestamp"]
    assert before <= int(stamp) <= time.time()
    signed = hmac.new(b"s3cret", stamp.encode() + b"." + got.body, hashlib.sha256).hexdigest()
    assert got.headers["x-headgate-signature"] == f"sha256={signed}"
    assert got.headers["x-headgate-event"] == "failed"
    assert got.headers["x-headgate-delivery"] == got.said["delivery"] == "uid-7"
    assert got.headers["content-type"] == "application/json"
    assert got.path == "/hook?room=1"
    assert "s3cret" not in repr(got)


def test_the_documented_check_tells_ours_from_others(receiver: Receiver) -> None:
    """The code in the documentation accepts what was sent, and nothing that was changed."""
    page = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text()
    names: dict[str, Any] = {}
    exec(page.partition("```python\n")[2].partition("```")[0], names)  # noqa: S102 - our own page
    target = NotifyTarget("t", url=receiver.url, secret_env="HOOK_SECRET")
    assert send(target, FAILED, "d", environ={"HOOK_SECRET": "s3cret"}) == Delivered()
    [got] = receiver.got
    sent = {
        f"X-Headgate-{name}": got.headers[f"x-headgate-{name.lower()}"]
        for name in ("Timestamp", "Signature")
    }
    assert names["ours"](sent, got.body, b"s3cret")
    assert not names["ours"](sent, got.body, b"other")
    assert not names["ours"](sent, got.body + b" ", b"s3cret")
    old = {**sent, "X-Headgate-Timestamp": str(int(sent["X-Headgate-Timestamp"]) - 1)}
    assert not names["ours"](old, got.body, b"s3cret")


def test_a_webhook_without_a_secret_is_not_signed(receiver: Receiver) -> None:
    """Nobody can take an unsigned message for a signed one; its URL may be a secret itself."""
    assert (
        send(NotifyTarget("t", url_env="HOOK"), FAILED, "d", environ={"HOOK": receiver.url})
        == Delivered()
    )
    [got] = receiver.got
    assert "x-headgate-signature" not in got.headers


@pytest.mark.parametrize(
    "status, then",
    [
        *((status, "done") for status in (200, 299)),
        *((status, "given up") for status in (400, 410)),
        *((status, "again") for status in (408, 425, 429, 500, 503, 599)),
    ],
)
def test_what_may_pass_by_itself_is_worth_another_try(
    status: int, then: str, receiver: Receiver
) -> None:
    """2xx is success; the receiver's own troubles are tried again, our mistakes are not."""
    receiver.answers = [(status, {})]
    found = send(NotifyTarget("t", url=receiver.url), FAILED, "d")
    why = f"127.0.0.1 answered {status}"
    assert found == (Delivered() if then == "done" else DeliveryFailed(why, again=then == "again"))


@pytest.mark.parametrize(
    "said, wait",
    [("2", 2.0), ("0.5", 0.5), ("86400", 300.0), ("soon", 0.0), ("-1", 0.0), ("9" * 5_000, 0.0)],
)
def test_retry_after_is_honoured_within_reason(said: str, wait: float, receiver: Receiver) -> None:
    """A receiver may ask for time, but not for a day; nonsense is no request."""
    receiver.answers = [(503, {"Retry-After": said})]
    found = send(NotifyTarget("t", url=receiver.url), FAILED, "d")
    assert found == DeliveryFailed("127.0.0.1 answered 503", wait=Seconds(wait))


def test_redirects_are_not_followed(receiver: Receiver) -> None:
    """What was meant for one place is sent to no other."""
    receiver.answers = [(307, {"Location": receiver.url})]
    found = send(NotifyTarget("t", url=receiver.url), FAILED, "d")
    assert found == DeliveryFailed(
        "127.0.0.1 answered 307, and redirects are not followed", again=False
    )
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    "script, why",
    [
        (lambda peer: peer.hold(), "127.0.0.1 did not answer within 0.3s"),
        (lambda peer: peer.drip(b"HTTP/1.1 200"), "127.0.0.1 did not answer within 0.3s"),
        (lambda peer: peer.send(b"hello\r\n\r\n"), "127.0.0.1 sent something that is not HTTP"),
        (lambda _: None, "127.0.0.1 closed the connection too early"),
        (lambda peer: peer.reset(), "127.0.0.1 closed the connection too early"),
    ],
)
def test_a_broken_receiver_is_tried_again(script: Callable[..., None], why: str) -> None:
    """Silence, nonsense and hanging up end in time, and are worth another try."""
    server = Server(script)
    try:
        found = send(NotifyTarget("t", url=server.url, timeout=Ms(300)), FAILED, "d")
    finally:
        server.close()
    assert isinstance(found, DeliveryFailed)
    assert found.again
    assert found.why in {why, "127.0.0.1 sent something that is not HTTP"}


def test_a_receiver_that_sends_without_end_holds_nobody_up() -> None:
    """Only the head of an answer is read."""
    server = Server(says(b"x" * 5_000_000))
    try:
        assert send(NotifyTarget("t", url=server.url), FAILED, "d") == Delivered()
    finally:
        server.close()


def test_no_receiver_is_tried_again() -> None:
    """A port that nobody listens on may have somebody later."""
    server = Server(says())
    server.close()
    found = send(NotifyTarget("t", url=server.url), FAILED, "d")
    assert found == DeliveryFailed("127.0.0.1 refused the connection")


@pytest.mark.parametrize(
    "url", ["", "nonsense", "ftp://x/", "http:///secret", "http://a b/", "http://x:0x/"]
)
def test_an_unusable_url_from_the_environment_is_not_repeated(url: str) -> None:
    """It may be a secret; that it cannot be used is all that is said."""
    found = send(NotifyTarget("t", url_env="HOOK"), FAILED, "d", environ={"HOOK": url})
    assert isinstance(found, DeliveryFailed)
    assert not found.again
    assert not url or url not in found.why


def test_what_a_process_lacks_is_named() -> None:
    """A missing variable is named, and nothing is sent."""
    target = NotifyTarget("t", url_env="HOOK", secret_env="SECRET")
    assert lacks(target, {}) == "HOOK and SECRET are not set"
    assert lacks(target, {"HOOK": "x", "SECRET": ""}) == "SECRET is not set"
    assert send(target, FAILED, "d", environ={"HOOK": "x"}) == DeliveryFailed(
        "SECRET is not set", False
    )


def test_a_target_is_shown_without_its_secrets() -> None:
    """A program, a host, a kind of service or a variable's name is all that is shown."""
    assert where(NotifyTarget("t", command=("/opt/bin/hook", "--token=abc"))) == "hook"
    assert where(NotifyTarget("t", command=("sh", "-c", "curl -H token"))) == "sh"
    assert (
        where(NotifyTarget("t", url="https://hooks.example.com:444/T0/B0/xyz"))
        == "hooks.example.com"
    )
    assert where(NotifyTarget("t", apprise="tgram://123:abc/42")) == "tgram://"
    assert where(NotifyTarget("t", apprise_env="TG")) == "$TG"


def test_a_test_says_that_it_is_one(receiver: Receiver) -> None:
    """A target can be tried at any time; the reason is what is returned."""
    assert try_out(NotifyTarget("t", url=receiver.url)) == ""
    [got] = receiver.got
    assert (got.said["event"], got.said["work"]) == ("test", None)
    assert got.said["delivery"].startswith("test-")
    assert try_out(hook("exit 9")) == "exit 9"


def test_without_apprise_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apprise is an extra: what to install is in the message."""
    monkeypatch.setitem(sys.modules, "apprise", None)
    target = NotifyTarget("t", apprise="json://127.0.0.1:9/")
    how = f"{sys.executable} -m pip install 'apprise>=2.2'"
    assert try_out(target) == f"apprise is not installed; {how}"


def test_apprise_delivers(receiver: Receiver) -> None:
    """Any URL of apprise is a target; its own JSON service shows what arrives."""
    pytest.importorskip("apprise")
    target = NotifyTarget("t", apprise=f"json://127.0.0.1:{receiver.port}/", timeout=Ms(60_000))
    event = FAILED._replace(task="<b>&lt;", text="*x* \n[a](b)")
    assert send(target, event, "d") == Delivered()
    [got] = receiver.got
    assert got.said["title"] == "headgate: failed"
    assert got.said["message"] == "failed: 17 <b>&lt; anthropic/opus: *x*  [a](b)"


def test_apprise_that_fails_says_no_secret(receiver: Receiver) -> None:
    """A refusal is tried again, an unknown service is not, and neither repeats the URL."""
    pytest.importorskip("apprise")
    receiver.answers = [(500, {})]
    url = f"json://user:pa55word@127.0.0.1:{receiver.port}/"
    target = NotifyTarget("t", apprise_env="SERVICE", timeout=Ms(60_000))
    found = send(target, FAILED, "d", environ={**os.environ, "SERVICE": url})
    assert found == DeliveryFailed("apprise could not deliver it")
    found = send(target, FAILED, "d", environ={**os.environ, "SERVICE": "nonsense://s3cret"})
    assert found == DeliveryFailed("apprise does not know such a URL", again=False)


def test_a_hanging_apprise_is_killed(receiver: Receiver) -> None:
    """A service that never answers ends with its time, as any hook does."""
    pytest.importorskip("apprise")
    receiver.hold.clear()
    target = NotifyTarget(
        "t", apprise=f"json://127.0.0.1:{receiver.port}/?rto=900", timeout=Ms(3_000)
    )
    assert send(target, FAILED, "d") == DeliveryFailed("took longer than 3s")


def test_signals_are_what_a_hook_expects(tmp_path: Path) -> None:
    """Ctrl-C at the terminal reaches headgate alone: a hook is in a session of its own."""
    out = tmp_path / "out"
    script = f"import os; open({str(out)!r}, 'w').write(f'{{os.getsid(0) == os.getpid()}}')"
    assert (
        send(NotifyTarget("t", command=(sys.executable, "-c", script)), FAILED, "d") == Delivered()
    )
    assert out.read_text() == "True"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
