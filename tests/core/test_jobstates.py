"""The states of a job: every pair of state and event, what it sets, and who may change a state."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.core.jobs.job import Job, Spec, Why, change, dump, submitted
from headgate.core.jobs.states import (
    ENDED,
    TRANSITIONS,
    Effect,
    JobEvent,
    Place,
    State,
    Timer,
    Word,
    transition,
)
from headgate.core.times import Ms
from headgate.errors import InternalError
from tools.jobstates import TARGET, renewed

NOW = Ms(1_000_000)
SOURCE = Path(__file__).parents[2] / "src" / "headgate"
SPEC = Spec(
    ("agent",),
    "/",
    expires=Ms(60_000),
    models=("a/x", "b/y"),
    fallback_after=Ms(10_000),
    escalate=True,
    backoff=Ms(5_000),
    confirm=Ms(30_000),
)
WHY = Why("code", "a sentence")


def job(state: State, spec: Spec = SPEC) -> Job:
    """A job in a state, with something in every field."""
    return Job(
        id=251,
        state=state,
        code="before",
        text="as it was",
        key="a/x",
        urgency=1,
        since=Ms(5),
        weight=2,
        task="task",
        name="name",
        label="agent",
        submitted=Ms(7),
        spec=dump(spec),
        due=Ms(8),
        expires=Ms(NOW + 9),
        attempts=3,
        parks=2,
        failures=1,
        started=Ms(10),
        ended=Ms(11 if state.ended else 0),
        exit="1:0",
        session="s-1",
        adopted=state is State.RUNNING,
    )


@pytest.mark.parametrize("state", State)
def test_every_event_in_every_state(state: State) -> None:
    """What the table knows leads where it says; anything else is refused, and names both."""
    for event in JobEvent:
        step = TRANSITIONS.get((state, event))
        if step is None:
            with pytest.raises(InternalError, match=rf"{state.name} .* {event.name} "):
                change(job(state), event, NOW, WHY)
            continue
        assert transition(state, event) is step
        after = change(job(state), event, NOW, WHY)
        assert after.state is step.to, event
        _check_effects(job(state), after, step.effects)
        _check_time(after)
        _check_reason(after)


def _check_effects(before: Job, after: Job, effects: tuple[Effect, ...]) -> None:
    """Each effect is seen, and nothing changes of which no effect tells."""
    afresh = Effect.AFRESH in effects
    counts = (before.attempts, 0 if afresh else before.parks, 0 if afresh else before.failures)
    named = (Effect.ATTEMPT, Effect.IN_VAIN, Effect.FAILURE)
    expected = tuple(
        count + (effect in effects) for count, effect in zip(counts, named, strict=True)
    )
    assert (after.attempts, after.parks, after.failures) == expected
    assert after.started == (0 if afresh else before.started)
    assert after.ended == (NOW if Effect.ENDED in effects else 0)
    assert bool(after.ended) == after.state.ended
    forgets = afresh or Effect.NEW_SESSION in effects
    assert after.session == ("" if forgets else "s-1")
    assert after.exit == ("" if afresh else "1:0")
    assert after.since == (NOW if afresh else before.since)
    assert after.key == ("b/y" if Effect.ESCALATES in effects else "a/x")
    assert after.adopted == (Effect.ADOPTED in effects)
    gone = {Effect.NO_EXPIRY, Effect.EXPIRY_BEGINS}  # it was started, so that none begins
    expires = NOW + 30_000 if Effect.ANSWER_BEGINS in effects else before.expires
    assert after.expires == (0 if gone & {*effects} else expires)
    same = ("id", "urgency", "weight", "task", "name", "label", "submitted", "spec")
    assert all(getattr(before, name) == getattr(after, name) for name in same)


def _check_time(after: Job) -> None:
    match after.state.timer:
        case Timer.NONE:
            assert after.due == 0
        case Timer.EXPIRES:
            assert after.due == after.expires
        case Timer.FALLS_BACK:
            assert after.due == min(NOW + 10_000, after.expires or NOW + 10_000)
        case Timer.RETURNS:
            assert after.due == NOW + (5_000 << (after.parks - 1))


def _check_reason(after: Job) -> None:
    match after.state:
        case State.HELD:
            assert after.code == "held"
        case State.QUEUED:
            assert (after.code, after.text) == ("", "")
        case State.STARTING:
            assert after.code == "starting"
        case State.RUNNING:
            assert after.code == ("adopted" if after.adopted else "")
        case State.AFTER:
            assert (after.code, after.text) == ("after", "a sentence")
        case State.ASKED | State.BACKOFF | State.PARKED:
            assert (after.code, after.text) == WHY
        case State.DONE | State.FAILED | State.CANCELLED | State.EXPIRED | State.LOST:
            assert (after.code, after.text) == WHY


def test_a_job_is_handed_in_held() -> None:
    """It waits to be let go, and its time to be started in has begun."""
    draft = job(State.HELD)._replace(started=Ms(0))
    it = submitted(draft, NOW)
    assert (it.state, it.code, it.due, it.expires) == (State.HELD, "held", NOW + 60_000, it.due)
    entered = change(it, JobEvent.ENTER, Ms(NOW + 1_000))
    assert (entered.expires, entered.due) == (NOW + 61_000, NOW + 11_000)
    never = submitted(draft._replace(spec=dump(SPEC._replace(expires=None))), NOW)
    assert (never.due, never.expires) == (0, 0)


def test_every_state_can_be_reached_and_left() -> None:
    """From the first state there is a way to every other, and out of each there is one."""
    reached = {State.HELD}
    while True:
        more = {step.to for (state, _), step in TRANSITIONS.items() if state in reached} - reached
        if not more:
            break
        reached |= more
    assert reached == set(State)
    assert {state for state, _ in TRANSITIONS} == set(State)
    assert {event for _, event in TRANSITIONS} == set(JobEvent)


def test_every_word_is_somebodys() -> None:
    """People's words are those of the states, and the words of an end are only of ended ones."""
    assert {state.word for state in State} == set(Word)
    assert {state.word for state in State if state.ended} == set(ENDED)
    assert not {state.word for state in State if not state.ended} & set(ENDED)


def test_parked_means_one_thing() -> None:
    """Out of the line until a time: no other state is called so, and it has no ticket."""
    assert [state for state in State if state.word is Word.PARKED] == [State.PARKED]
    assert State.PARKED.place is Place.ASIDE
    assert State.PARKED.timer is Timer.RETURNS


def test_the_docs_show_the_table() -> None:
    """The diagram and the tables are those of the code; else: python tools/jobstates.py."""
    page = TARGET.read_text()
    assert renewed(page) == page


def test_states_change_in_one_place_only() -> None:
    """No module beside `core/jobs/job.py` sets the state of a job that is there."""
    setting = {
        str(path.relative_to(SOURCE))
        for path, call in _calls()
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "_replace"
        and any(word.arg == "state" for word in call.keywords)
    }
    assert setting == {"core/jobs/job.py"}
    making = {
        str(path.relative_to(SOURCE))
        for path, call in _calls()
        if isinstance(call.func, ast.Name) and call.func.id == "Job"
    }
    assert making == {"ledger/jobs/lifecycle.py", "store/column_codec.py"}


def _calls() -> Iterator[tuple[Path, ast.Call]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield path, node
