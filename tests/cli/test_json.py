"""JSON of every verb: the names of docs/json.md and no others, and for a while the old ones."""

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from headgate.core.display import old_json_names
from tests.cli.golden.compare import Ask, check
from tests.cli.showing import MAPS, VERBS, scene, show, timeless
from tests.support import HEADGATE, Box

DOCS = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
BEFORE = json.loads((Path(__file__).parent / "golden" / "json-before.txt").read_text())
OWN = {"doctor", "probe"}
"""Verbs whose answer depends on the machine."""
WARNED = {
    "events": old_json_names.EVENT,
    **dict.fromkeys(("queue", "queue-all"), old_json_names.QUEUE),
    **{verb: old_json_names.WHY for verb in VERBS if verb.startswith("why")},
    "cancel": old_json_names.OUTCOME,
    "status": old_json_names.STATUS,
    **dict.fromkeys(("notify-list", "notify-test"), old_json_names.TARGETS),
    "doctor": old_json_names.FINDINGS,
    "probe": old_json_names.COPIES,
}
NEWER = ["confirm"]
"""Kinds of events that targets are told of by now, and were not then."""
TOLD = {"notify-list", "notify-test", "config-check"}


@pytest.fixture(autouse=True)
def everything(box: Box, ask: Ask, steady: None) -> Iterator[None]:
    with scene(box, ask):
        yield


def names(value: Any, under: str = "") -> set[str]:  # noqa: ANN401 - any JSON
    """All names in a document."""
    if isinstance(value, dict):
        own = set() if under in MAPS else set(value)
        return own.union(*(names(item, name) for name, item in value.items()))
    return set().union(*(names(item) for item in value)) if isinstance(value, list) else set()


def texts(value: Any) -> set[str]:  # noqa: ANN401 - any JSON
    """All texts in a document."""
    if isinstance(value, (dict, list)):
        inner = value.values() if isinstance(value, dict) else value
        return set().union(*map(texts, inner))
    return {value} if isinstance(value, str) else set()


def holds(shown: Any, before: Any) -> bool:  # noqa: ANN401 - any JSON
    """Whether all that was there is there, as it was; more may have come."""
    if isinstance(before, dict):
        return all(name in shown and holds(shown[name], old) for name, old in before.items())
    if isinstance(shown, list):
        shown = [one for one in shown if one not in NEWER]
    if isinstance(before, list) and before and isinstance(before[0], dict):
        return len(shown) == len(before) and all(map(holds, shown, before))
    return bool(shown == before)


@pytest.mark.parametrize("verb", VERBS)
def test_every_document_has_its_schema_and_documented_names_only(
    box: Box, ask: Ask, verb: str
) -> None:
    """`schema` comes first, only what docs/json.md names is printed, and nothing is warned of."""
    found, said = show(ask, box.folder, verb)
    assert "HEADGATE_SCHEMA" not in said.err
    for document in found if isinstance(found, list) else [found]:
        assert next(iter(document.items())) == ("schema", 1)
    documented = set(re.findall(r"`([a-z_]+)`", DOCS.partition("## The names before")[0]))
    assert names(found) <= documented
    if verb not in OWN:
        text = json.dumps(timeless(found), indent=1, ensure_ascii=False)
        check(f"json-{verb}", f"{text}\n")


@pytest.mark.parametrize("verb", VERBS)
def test_the_old_names_live_on(
    box: Box, ask: Ask, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the variable all that was there before is there, as it was, and one line tells it."""
    monkeypatch.delenv("HEADGATE_SCHEMA")
    found, said = show(ask, box.folder, verb)
    if verb not in OWN:
        assert holds(timeless(found), timeless(BEFORE[verb]))
    lines = [line for line in said.err.splitlines() if "HEADGATE_SCHEMA" in line]
    expected = [f"headgate: {WARNED[verb].warning()}"] if verb in WARNED else []
    if verb in TOLD:
        expected.append(f"headgate: what [[notify]] tells: {old_json_names.MESSAGE.warning()}")
    assert lines == expected


def test_old_names_are_gone_with_the_variable(box: Box, ask: Ask) -> None:
    """None of them is left where it was."""
    event = show(ask, box.folder, "events")[0][0]
    assert not {"id", "kind"} & set(event)
    queue = show(ask, box.folder, "queue")[0]
    assert not {"job", "attempt"} & names(queue)
    status = show(ask, box.folder, "status")[0]
    assert not {"running", "waiting"} & set(status)
    assert show(ask, box.folder, "why-job")[0]["attempts"] == 0


@pytest.mark.parametrize(
    "verb, value", [("events", "2"), ("status", "0"), ("status", "yes"), ("status", "٣")]
)
def test_a_bad_variable_is_refused(
    ask: Ask, verb: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names it, its value and what is allowed; without --json nobody looks at it."""
    monkeypatch.setenv("HEADGATE_SCHEMA", value)
    said = ask(verb, "--json")
    expected = f"headgate: bad HEADGATE_SCHEMA {value!r}: expected 1, or leave it unset\n"
    assert said == (2, "", expected)
    assert ask(verb).code == 0


def test_a_bad_variable_is_found_before_anything_is_done(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job whose answer could not be printed is not submitted; nor does a worker start."""
    before = ask("events", "-n", "1").out
    monkeypatch.setenv("HEADGATE_SCHEMA", "2")
    assert ask("submit", "--json", "--", "true").code == 2
    assert ask("worker").code == ask("notify", "run").code == 2
    assert ask("events", "-n", "1").out == before


@pytest.mark.parametrize("verb", ["status", "events"])
def test_the_warning_never_mixes_with_the_data(box: Box, verb: str) -> None:
    """`2>&1 | jq` goes on working: what is one pipe gets the data alone."""
    env = {name: value for name, value in box.env.items() if name != "HEADGATE_SCHEMA"}
    words = [HEADGATE, verb, "--json"]
    mixed = subprocess.run(words, env=env, stdout=-1, stderr=-2, check=True)
    apart = subprocess.run(words, env=env, capture_output=True, check=True)
    for line in mixed.stdout.splitlines():
        assert json.loads(line)["schema"] == 1
    assert len(mixed.stdout.splitlines()) == len(apart.stdout.splitlines())
    assert apart.stderr.count(b"HEADGATE_SCHEMA") == 1


def test_those_who_follow_are_warned_once(box: Box) -> None:
    """`events -f` says it at its start, and the old names are on every line."""
    env = {**box.env, "HEADGATE_SCHEMA": ""}
    following = box.start(HEADGATE, "events", "-f", "--json", env=env)
    assert "`kind` is now `event`" in following.line(stream="stderr")
    event = json.loads(following.line())
    assert (event["id"], event["kind"]) == (event["seq"], event["event"])


def test_hostile_text_is_valid_json(box: Box, ask: Ask) -> None:
    """Control characters and endless texts come out as JSON in ASCII, on one line."""
    evil = "\x1b]0;owned\x07\r\n\u2028\u202e</script>日本語" + "A" * 100_000
    with contextlib.closing(apsw.Connection(str(box.path))) as db:
        db.execute("UPDATE event SET text = ?, task = ?, pool = ?", (evil, evil, evil))
        db.execute("UPDATE job SET text = ?, name = ?, label = ?", (evil, evil, evil))
        db.execute("UPDATE ticket SET task = ?, label = ?", (evil, evil))
        db.execute("UPDATE lease SET task = ?, label = ?", (evil, evil))
    for verb in ("events", "queue-all", "wait", "why-running", "why-ended", "why-ended-job"):
        found, said = show(ask, box.folder, verb)
        assert said.out.isascii()
        assert evil in texts(found)
