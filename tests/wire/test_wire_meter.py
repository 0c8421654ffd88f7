"""The meter `wire`: what an agent asks is seen, told to the pools, and passes unchanged."""

import http.client
import json
import os
import shutil
import signal
import sys
import urllib.parse
from pathlib import Path

from tests.support import HEADGATE, gone, until
from tests.wire.stage import AGENT, KEY, Asker, metered, wires
from tests.work.conftest import JobBox


def test_an_answer_passes_and_nothing_is_left(box: JobBox) -> None:
    """The agent gets upstream's bytes; afterwards there is no process and no folder."""
    provider, agent = metered(box)
    assert agent.url != provider.url
    told = agent.ask()
    assert told["status"] == 200
    assert told["text"].endswith('data: {"type":"message_stop"}\n\n')
    assert agent.program.end() == 0
    until(lambda: not wires(box))
    assert list(Path(f"{box.path}.wire").iterdir()) == []


def test_a_cap_is_learned_from_agents_that_print_nothing_of_it(box: JobBox) -> None:
    """Five agents at once meet a cap of 2 behind a pool of 6: from then on fewer are let in."""
    limits = {"host": 9, "*/claude-opus-*": 9, KEY: 6}
    box.config("".join(f'[pools."{name}"]\nlimit = {n}\n' for name, n in limits.items()))
    provider, first = metered(box, "--duration", "1s", "--retry-after", "1s", "--cap", "2")
    agents = [first, *(Asker(box, "--meter", "wire") for _ in range(4))]
    for agent in agents:
        agent.start()
    assert {agent.read()["status"] for agent in agents} == {200}
    assert provider.count("refused")
    until(lambda: box.events("limit_reduced"))
    (pool,) = [one for one in box.asked("status")["pools"] if one["pool"] == KEY]
    assert pool["limit"] < 6


def test_a_short_refusal_is_waited_out(box: JobBox) -> None:
    """The agent sees a slow answer, and no refusal."""
    provider, agent = metered(box, "--retry-after", "200ms")
    provider.plan(cap=0)
    agent.start()
    until(lambda: provider.count("refused") >= 2)
    provider.plan(cap=9)
    assert agent.read()["status"] == 200


def test_a_long_refusal_is_the_agents_to_see(box: JobBox) -> None:
    """It gets the provider's own answer, and the pool is closed for as long as that says."""
    provider, agent = metered(box, "--retry-after", "10m")
    provider.plan(cap=0)
    told = agent.ask()
    assert told["status"] == 429
    assert json.loads(told["text"])["type"] == "error"
    (pool,) = [one for one in box.asked("status")["pools"] if one["paused_until"]]
    assert provider.count("refused") == 1
    assert pool["paused_until"] is not None


def test_another_model_is_another_pool(box: JobBox) -> None:
    """A refusal to a helper's model closes that model, and not the agent's own."""
    provider, agent = metered(box, "--retry-after", "10m", "--model-cap", "claude-haiku-4=1")
    provider.plan(model_caps={"claude-haiku-4": 0})
    assert agent.ask("claude-haiku-4")["status"] == 429
    assert agent.ask()["status"] == 200
    closed = {one["pool"] for one in box.asked("status")["pools"] if one["paused_until"]}
    assert closed == {"anthropic/claude-haiku-4"}


def test_nobody_else_may_use_it(box: JobBox) -> None:
    """A process without the lease's mark is turned away, and upstream hears nothing of it."""
    provider, agent = metered(box)
    url = urllib.parse.urlsplit(agent.url)
    before = provider.count("enter")
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=20)
    connection.request(
        "POST", f"{url.path}/v1/messages", "{}", {"content-type": "application/json"}
    )
    assert connection.getresponse().status == 403
    connection.close()
    assert provider.count("enter") == before
    assert agent.ask()["status"] == 200


def test_the_agent_outlives_its_runner(box: JobBox) -> None:
    """After kill -9 of the runner the next request goes through, and in the end all is gone."""
    _, agent = metered(box)
    assert agent.ask()["status"] == 200
    agent.program.kill()
    assert agent.ask()["status"] == 200
    agent.program.go()
    until(lambda: gone(agent.pid))
    until(lambda: not wires(box))
    until(lambda: not list(Path(f"{box.path}.wire").iterdir()))


def test_a_killed_wire_is_replaced(box: JobBox) -> None:
    """At the same address, so that the next request goes through."""
    _, agent = metered(box)
    assert agent.ask()["status"] == 200
    (pid,) = wires(box)
    os.kill(pid, signal.SIGKILL)
    assert agent.ask()["status"] == 200
    assert pid not in wires(box)


def test_a_broken_stream_is_not_ended_cleanly(box: JobBox) -> None:
    """An answer without its last event reaches the agent as a broken connection."""
    provider, agent = metered(box, "--cuts", "1", "--cut-by", "eof")
    assert agent.ask()["status"] == 0
    provider.plan(cuts=0)
    assert agent.ask()["status"] == 200


def test_a_program_that_nobody_knows_is_left_alone(box: JobBox) -> None:
    """Unless somebody asks for it, its variables are as they were."""
    provider, agent = metered(box)
    agent.program.end()
    plain = Asker(box)
    assert plain.url == provider.url
    assert not wires(box)


def test_a_bad_meter_is_a_clear_error(box: JobBox) -> None:
    """It says what was found, where, and what is allowed."""
    said = box.ask("run", "--meter", "wires", "--", "true")
    assert said.code == 2
    assert "bad --meter 'wires': expected agent, wire, requests" in said.err
    said = box.ask("run", "--", "true", env={"HEADGATE_METER": "x"})
    assert "bad HEADGATE_METER 'x'" in said.err


def test_a_job_is_parked_by_what_is_on_the_wire(box: JobBox) -> None:
    """A refusal that lasts longer than its patience parks it, whatever it prints."""
    box.config('[jobs]\npatience = "2s"\nbackoff = "200ms"\n')
    provider, agent = metered(box, "--retry-after", "10m")
    agent.program.end()
    provider.plan(cap=0)
    script = box.folder / "agent.py"
    script.write_text(
        f"import io, sys\nsys.stdin = io.StringIO('claude-opus-4-6\\n')\n{AGENT}\n"
        "import time\ntime.sleep(600)\n"
    )
    box.worker()
    id = box.submit("-m", KEY, "--meter", "wire", "--", sys.executable, str(script))
    box.until_state(id, "parked", within=60)
    (attempt,) = box.job(id)["attempt_list"]
    assert (attempt["code"], "upstream refused it" in attempt["reason"]) == ("rate_limited", True)


def test_an_adopted_job_goes_on_with_its_wire(box: JobBox) -> None:
    """Whoever looks after it next hears from the same process; its requests go through."""
    provider, agent = metered(box)
    agent.program.end()
    out, go = box.folder / "out", box.folder / "go"
    script = box.folder / "job.py"
    loop = (
        "import os, time\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.05)\n"
        f"open({str(out)!r}, 'w').write(json.dumps(ask('claude-opus-4-6', True)))\n"
    )
    script.write_text(
        f"import io, sys\nsys.stdin = io.StringIO('claude-opus-4-6\\n')\n{AGENT}\n{loop}"
    )
    box.worker()
    id = box.submit("-m", KEY, "--meter", "wire", "--", sys.executable, str(script))
    until(lambda: provider.count("enter") >= 1)
    (wire,) = until(lambda: wires(box))
    os.kill(box.runner(id), signal.SIGKILL)
    until(lambda: box.events("adopted"))
    os.kill(wire, signal.SIGKILL)
    go.touch()
    until(lambda: out.exists() and out.read_text(), within=60)
    assert json.loads(out.read_text())["status"] == 200
    box.until_state(id, "queued", "running", "done", "lost", "failed")
    box.ask("cancel", str(id), "--grace", "0s")  # it may just have ended
    until(lambda: not wires(box))


def test_a_run_inside_a_metered_agent_is_work_of_its_own(box: JobBox) -> None:
    """It asks where the agent would have asked without a wire, whichever meter it has itself."""
    provider, agent = metered(box)
    agent.program.end()
    script = str(box.folder / "agent.py")
    for meter in ("agent", "wire"):
        inner = (HEADGATE, "run", "-q", "--meter", meter, "--", sys.executable, script)
        outer = (HEADGATE, "run", "-q", "-m", KEY, "--meter", "wire", "--", *inner)
        program = box.start(*outer)
        url = json.loads(program.line())["url"]
        assert (url == provider.url) == (meter == "agent")
        assert program.process.stdin is not None
        program.process.stdin.write(b"claude-opus-4-6\n")
        program.process.stdin.flush()
        assert json.loads(program.line())["status"] == 200
        assert program.end() == 0


def test_a_wire_without_its_folder_does_not_harm_its_agent(box: JobBox) -> None:
    """Somebody removes the folder and the process is killed: the run ends with its own code."""
    _, agent = metered(box)
    (pid,) = wires(box)
    folder = next(Path(f"{box.path}.wire").iterdir())

    def removed() -> bool:  # it may just put something there
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    until(removed)
    os.kill(pid, signal.SIGKILL)
    agent.ask()
    assert agent.program.end() == 0


def test_a_wire_that_cannot_be_made_leaves_the_agent_to_its_output(box: JobBox) -> None:
    """The agent is started all the same, and asks its provider itself."""
    provider, agent = metered(box)
    agent.program.end()
    until(lambda: not wires(box))
    Path(f"{box.path}.wire").rmdir()
    Path(f"{box.path}.wire").write_text("in the way")
    other = Asker(box, "--meter", "wire")
    assert other.url == provider.url
    assert other.ask()["status"] == 200


def test_what_was_killed_with_its_agent_is_cleared_up(box: JobBox) -> None:
    """The next wire that is made removes the folders of those of which nothing is left."""
    _, agent = metered(box)
    (pid,) = wires(box)
    for one in (agent.program.pid, pid, agent.pid):
        os.kill(one, signal.SIGKILL)
    (left,) = Path(f"{box.path}.wire").iterdir()
    os.utime(left, (1, 1))
    Asker(box, "--meter", "wire")
    assert not left.exists()
