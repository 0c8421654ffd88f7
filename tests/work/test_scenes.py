"""Whole days in miniature: caps by model, a full host, many agents of one model at once."""

import json
from typing import Any

from headgate.sim.journal import excess, most_at_once
from tests.agents.stage import Done
from tests.support import until
from tests.work.conftest import JobBox
from tests.work.scene import BRISK, OPUS, SONNET, Scene

FIVE = BRISK.replace("limit = 20", "limit = 5")
CAPPED = f'{BRISK}[pools."anthropic/claude-opus-*"]\nlimit = 4\n'
HOOK = """
[[notify]]
name = "diary"
command = ["sh", "-c", "cat >> {}; echo >> {}"]
events = ["queued", "expired"]
"""


def claude(model: str, prompt: str = "do it") -> list[str]:
    return ["claude", "-p", prompt, "--output-format", "stream-json", "--model", model]


def one_attempt_each(box: JobBox, ids: list[int]) -> bool:
    runs = [row[0] for row in box.rows("attempt")]
    return sorted(runs) == sorted(ids)


def states(box: JobBox) -> dict[int, str]:
    return {row[0]: row[1] for row in box.rows("job")}


def test_opus_is_capped_and_sonnet_is_not(box: JobBox) -> None:
    """Of six opus agents two are deferred and start later; ten sonnet ones start at once."""
    scene = Scene(box)
    go = box.folder / "go"
    scene.cast("claude", "--requests", "2", "--until", str(go))
    observer = scene.observer(OPUS, SONNET)
    box.worker()
    jobs = [{"command": claude(OPUS)}] * 6 + [{"command": claude(SONNET)}] * 10
    found = scene.batch(jobs)
    deferred = [job for job in found if job["position"]]
    assert [(job["key"], job["position"]) for job in deferred] == [
        (f"anthropic/{OPUS}", 1),
        (f"anthropic/{OPUS}", 2),
    ]
    assert {job["code"] for job in deferred} == {"pool_full"}
    observer.until(SONNET, 10)
    observer.until(OPUS, 4)
    assert {box.state(job["id"]) for job in deferred} == {"queued"}
    go.touch()
    ids = [job["id"] for job in found]
    until(lambda: set(states(box).values()) == {"done"})
    assert one_attempt_each(box, ids)
    assert (observer.most(OPUS), observer.most(SONNET)) == (4, 10)
    assert not [row for row in box.rows("event") if row[2] in {"failed", "parked", "lost"}]
    assert [done.steps for done in scene.done()] == [[1, 2]] * 16
    assert most_at_once(scene.provider.lines(), OPUS) <= 4


def test_a_cap_is_overridden_by_the_environment(box: JobBox) -> None:
    """HEADGATE_LIMITS of whoever submits holds for what is submitted, and for nobody else."""
    scene = Scene(box)
    go = box.folder / "go"
    scene.cast("claude", "--until", str(go))
    observer = scene.observer(OPUS)
    box.worker()
    jobs = [{"command": claude(OPUS)}] * 4
    narrow = scene.batch(jobs, HEADGATE_LIMITS="*/claude-opus-*=2")
    assert [job["position"] for job in narrow] == [None, None, 1, 2]
    observer.until(OPUS, 2)
    assert [job["position"] for job in scene.batch(jobs[:2])] == [None, None]
    observer.until(OPUS, 4)
    go.touch()
    until(lambda: set(states(box).values()) == {"done"})
    assert observer.most(OPUS) == 4


def test_a_cap_of_the_environment_holds_to_the_end(box: JobBox) -> None:
    """With a cap of two where all are submitted, two run at a time, and other models as before."""
    scene = Scene(box)
    go = box.folder / "go"
    scene.cast("claude", "--requests", "2", "--until", str(go))
    observer = scene.observer(OPUS, SONNET)
    box.worker()
    jobs = [{"command": claude(model)} for model in (OPUS, SONNET) * 5]
    scene.batch(jobs, HEADGATE_LIMITS="*/claude-opus-*=2")
    observer.until(SONNET, 5)
    observer.until(OPUS, 2)
    go.touch()
    until(lambda: set(states(box).values()) == {"done"})
    assert observer.most(OPUS) == 2


def test_a_full_host(box: JobBox) -> None:
    """Five run and three wait; one is cancelled, one expires with a word, and a kill harms none."""
    diary = box.folder / "diary"
    scene = Scene(box, config=FIVE + HOOK.format(diary, diary))
    go = box.folder / "go"
    scene.cast("claude", "--requests", "2", "--until", str(go))
    observer = scene.observer(SONNET)
    worker = box.worker()
    jobs: list[dict[str, Any]] = [{"command": claude(SONNET)} for _ in range(8)]
    jobs[7]["expires"] = "3s"
    found = scene.batch(jobs)
    assert [job["position"] for job in found] == [None] * 5 + [1, 2, 3]
    assert {job["code"] for job in found[5:]} == {"pool_full"}
    *running, first, cancelled, expiring = [job["id"] for job in found]
    observer.until(SONNET, 5)
    worker.kill()
    box.headgate("cancel", str(cancelled))
    assert box.job(first)["position"] == 1
    assert (box.state(first), box.state(cancelled)) == ("queued", "cancelled")
    observer.until(SONNET, 5)
    box.worker()
    box.until_state(expiring, "expired")
    until(lambda: diary.exists() and '"expired"' in diary.read_text())
    changes = [json.loads(line) for line in diary.read_text().splitlines() if line]
    told = [(it["event"], it["work"], it["position"]) for it in changes]
    assert list(dict.fromkeys(told)) == [  # at least once: the worker was killed while it told
        ("queued", first, 1),
        ("queued", cancelled, 2),
        ("queued", expiring, 3),
        ("expired", expiring, None),
    ]
    assert box.job(expiring)["reason"] in changes[-1]["text"]
    assert observer.most(SONNET) == 5
    go.touch()
    until(lambda: not {"running", "queued"} & set(states(box).values()))
    ended = {"done": [*running, first], "cancelled": [cancelled], "expired": [expiring]}
    assert states(box) == {id: state for state, ids in ended.items() for id in ids}
    assert one_attempt_each(box, [*running, first])
    assert observer.most(SONNET) == 5
    assert [done.steps for done in scene.done()] == [[1, 2]] * 6


def test_ten_of_one_model_at_once(box: JobBox) -> None:
    """Each has a stream of its own, complete to the last word, and the cap holds for them all."""
    scene = Scene(box, "--duration", "200ms", "--cap", "4", config=CAPPED)
    scene.cast("claude", "--requests", "3")
    observer = scene.observer(OPUS)
    box.worker()
    found = scene.batch(
        [{"command": claude(OPUS, f"oracle {n}"), "task": f"oracle-{n}"} for n in range(10)]
    )
    until(lambda: set(states(box).values()) == {"done"})
    assert observer.most(OPUS) == 4
    lines = scene.provider.lines()
    assert most_at_once(lines, OPUS) <= 4
    assert excess(lines) == 0
    events = [line.event for line in lines if line.event not in {"enter", "exit"}]
    assert (scene.provider.count("exit"), set(events) - {"plan"}) == (30, set())
    dones = {done.lines[0]["prompt"]: done for done in scene.done()}
    for n, job in enumerate(found):
        done = dones[f"oracle {n}"]
        assert is_whole(done)
        said = [json.loads(line) for line in box.log(job["id"]).splitlines()]
        assert {event["session_id"] for event in said} == {done.session}
        assert said[-1]["result"] == done.lines[-2]["text"]
    assert len(dones) == 10
    assert one_attempt_each(box, [job["id"] for job in found])


def is_whole(done: Done) -> bool:
    """Whether the steps are all there, and the words of each: the numbers from 0 on, in order."""
    texts = [line["text"].split() for line in done.lines if line["event"] == "step"]
    whole = all(text and text == [str(n) for n in range(len(text))] for text in texts)
    return whole and done.steps == [1, 2, 3]
