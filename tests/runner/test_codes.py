"""What `run` ends with, and what its program gets and gives: as if headgate were not there."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import HEADGATE, LONG, Box, gone

pytestmark = pytest.mark.usefixtures("steady")


def run(box: Box, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [HEADGATE, "run", *words], env=box.env, input=stdin, capture_output=True, timeout=LONG,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize("code", [0, 1, 3, 75, 124, 125, 126, 127, 255])
def test_the_programs_own_code(box: Box, code: int) -> None:
    """Whatever the program ends with, `run` ends with, and says nothing."""
    done = run(box, "--", "sh", "-c", f"exit {code}")
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")
    assert box.left_over() == {}


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGINT", "SIGSEGV", "SIGHUP", "SIGPIPE"])
def test_a_program_ended_by_a_signal(box: Box, name: str) -> None:
    """128 and the signal's number, as in a shell."""
    number = getattr(signal, name)
    assert run(box, "--", "sh", "-c", f"kill -{number} $$").returncode == 128 + number
    assert box.left_over() == {}


def test_a_program_that_does_not_exist(box: Box) -> None:
    """127, a message with its name, and no seat was asked for."""
    done = run(box, "--", "no-such-program", "--secret")
    assert done.returncode == 127
    assert b"no-such-program" in done.stderr
    assert b"--secret" not in done.stderr
    assert run(box, "--", "/no/such/file").returncode == 127
    assert box.left_over() == {}


def test_a_program_that_cannot_be_executed(box: Box) -> None:
    """126 for a file without the permission, for a folder, and for one the system cannot start."""
    plain = box.folder / "plain"
    plain.write_text("echo hello\n")
    broken = box.folder / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    assert run(box, "--", str(plain)).returncode == 126
    assert run(box, "--", str(box.folder)).returncode == 126
    assert run(box, "--", str(broken)).returncode in {126, 127}
    assert box.left_over() == {}


def test_a_script_without_a_first_line_runs_as_in_a_shell(box: Box) -> None:
    """The system refuses it (ENOEXEC), shells run it with sh; 126 is the other honest answer."""
    script = box.folder / "script"
    script.write_text("exit 5\n")
    script.chmod(0o755)
    assert run(box, "--", str(script)).returncode in {5, 126}
    assert box.left_over() == {}


def test_no_room(box: Box) -> None:
    """75 with --no-wait, at once, with the reason; the line is empty."""
    gate = box.gate()
    gate.set_limit("a/b", 1)
    with gate.slot("a/b"):
        done = run(box, "-m", "a/b", "--no-wait", "--", "echo", "started")
        assert (done.returncode, done.stdout) == (75, b"")
        assert b"a/b is full (1/1)" in done.stderr
        assert box.rows("ticket") == []


def test_waited_too_long(box: Box) -> None:
    """124 after --wait, with nothing started and the ticket withdrawn."""
    gate = box.gate()
    gate.set_limit("a/b", 1)
    with gate.slot("a/b"):
        done = run(box, "-m", "a/b", "--wait", "200ms", "--", "echo", "started")
        assert (done.returncode, done.stdout) == (124, b"")
        assert box.rows("ticket") == []
    gate.close()
    assert box.left_over() == {}


def test_waited_long_enough(box: Box) -> None:
    """A timeout for waiting says nothing about running."""
    done = run(box, "--wait", "100ms", "--", "sh", "-c", "sleep 0.4; echo done")
    assert (done.returncode, done.stdout) == (0, b"done\n")


@pytest.mark.parametrize(
    "words", [[], ["--"], ["-m", "nonsense", "--", "true"], ["--weight", "0", "--", "true"],
              ["--wait", "1s", "--no-wait", "--", "true"], ["--wait", "soon", "--", "true"]]
)  # fmt: skip
def test_bad_usage(box: Box, words: list[str]) -> None:
    """2, and nothing is started."""
    assert run(box, *words).returncode == 2


def test_headgates_own_error(box: Box) -> None:
    """125 when the store cannot be used, and nothing is started."""
    box.env["HEADGATE_STORE"] = f"sqlite://{box.folder}/no/such/folder/s.db"
    done = run(box, "--", "echo", "started")
    assert (done.returncode, done.stdout) == (125, b"")


def test_input_and_output_pass_through_byte_by_byte(box: Box) -> None:
    """Megabytes of anything go in and come out as they were, on all three streams."""
    data = bytes(range(256)) * 16_384
    tee = (
        "import hashlib, sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data); "
        "sys.stderr.write(hashlib.sha256(data).hexdigest())"
    )
    done = run(box, "-m", "a/b", "--", sys.executable, "-I", "-c", tee, stdin=data)
    assert done.returncode == 0
    assert done.stdout == data
    assert done.stderr.decode() == hashlib.sha256(data).hexdigest()


def test_the_streams_are_the_same_files(box: Box) -> None:
    """The program has its caller's own descriptors, not pipes that headgate copies through."""
    script = "import os; print(*(os.fstat(fd).st_ino for fd in (0, 1, 2)))"
    out = box.folder / "out"
    with out.open("wb") as file:
        program = box.run("--", sys.executable, "-I", "-c", script, stdin=file, stdout=file,
                          stderr=file)  # fmt: skip
        assert program.wait() == 0
    assert out.read_text().split() == [str(out.stat().st_ino)] * 3


def test_what_the_program_finds_in_its_environment(box: Box) -> None:
    """HEADGATE_LEASE and HEADGATE_TASK, and all else as it was."""
    script = "import json, os; print(json.dumps(dict(os.environ)))"
    argv = ["--", sys.executable, "-I", "-c", script]
    found = json.loads(run(box, "-m", "a/b", "--task", "oracle-2", *argv).stdout)
    lease = found.pop("HEADGATE_LEASE")
    assert lease.partition(".")[2] == str(max(row[3] for row in box.rows("event")))
    assert found.pop("HEADGATE_TASK") == "oracle-2"
    expected = dict(box.env)
    for name in ("LC_CTYPE", "PYTHONSAFEPATH"):  # Python's own
        found.pop(name, None)
        expected.pop(name, None)
    assert found == expected


def test_a_task_gets_a_name_if_it_has_none(box: Box) -> None:
    """Every program can be told apart, also without --task."""
    done = run(box, "--", "sh", "-c", "echo $HEADGATE_TASK")
    assert done.stdout.strip().startswith(b"sh-")


def test_the_program_inherits_no_descriptor_of_headgates_but_its_life(box: Box) -> None:
    """No database, no pipe but the one that proves its life; the caller's own stay open."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("descriptors are listed in /proc")
    script = (
        "import os\n"
        "for fd in map(int, os.listdir('/proc/self/fd')):\n"
        "    try: print(fd, os.readlink(f'/proc/self/fd/{fd}'))\n"
        "    except OSError: pass\n"
    )
    extra = os.open(box.folder / "extra", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(extra, True)
    try:
        program = box.run("--", sys.executable, "-I", "-c", script, pass_fds=[extra])
        found = dict(line.split(" ", 1) for line in iter(program.line, ""))
        assert program.wait() == 0
    finally:
        os.close(extra)
    assert found.pop(str(extra)) == str(box.folder / "extra")
    named = [name for fd, name in found.items() if int(fd) > 2 and "/proc/" not in name]
    assert [Path(name).suffix for name in named] == [".life"], named


def test_signals_of_the_program_are_as_its_caller_left_them(box: Box) -> None:
    """Nothing blocked, nothing ignored that was not before; what was ignored stays so."""
    if not Path("/proc/self/status").exists():
        pytest.skip("signal sets are shown in /proc")
    ignoring = ["sh", "-c", 'trap "" HUP USR1 INT; exec "$@"', "sh"]
    for before in ([], ignoring):
        assert _sets(box, *before, HEADGATE, "run", "--") == _sets(box, *before)


def _sets(box: Box, *argv: str) -> list[int]:
    """Blocked, ignored and caught signals; the C library's own ones, 32 and above, left out."""
    show = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"]
    lines = subprocess.run([*argv, *show], env=box.env, capture_output=True, check=True).stdout
    return [int(line.split()[1], 16) & 0x7FFF_FFFF for line in lines.splitlines()]


def test_the_program_may_sit_anywhere_on_the_path(box: Box) -> None:
    """Names are looked up as a shell does: the first executable file, `.` for an empty entry."""
    first, second = box.folder / "one", box.folder / "two"
    for folder, text in ((first, "no"), (second, "#!/bin/sh\necho two\n")):
        folder.mkdir()
        (folder / "tool").write_text(text)
    (second / "tool").chmod(0o755)
    box.env["PATH"] = f"{first}:{second}:{box.env['PATH']}"
    assert run(box, "--", "tool").stdout == b"two\n"


def test_odd_words_reach_the_program_unchanged(box: Box) -> None:
    """Options, empty words, spaces, newlines and bytes that are no text are the program's own."""
    words = ["-m", "--", "", "a b", "x\ny", "--wait", "$HOME", "é", os.fsdecode(b"\xff")]
    script = "import os, sys; sys.stdout.buffer.write(b'|'.join(map(os.fsencode, sys.argv[1:])))"
    done = run(box, "-m", "a/b", "--", sys.executable, "-I", "-c", script, *words)
    assert done.stdout == b"|".join(map(os.fsencode, words))


def test_a_program_that_leaves_something_behind(box: Box) -> None:
    """`run` ends with it and says that the seats stay taken; they free with the last process."""
    box.env["HEADGATE_LIMITS"] = "a/b=1"
    script = "sleep 1000 >/dev/null 2>&1 </dev/null & echo $!; exit 4"
    program = box.run("-m", "a/b", "--", "sh", "-c", script)
    stray = int(program.line())
    box.pids.append(stray)
    assert program.wait() == 4
    assert "still runs" in program.line(stream="stderr")
    assert [row["state"] for row in box.running()] == ["orphaned"]
    waiter = box.waiter()
    os.kill(stray, signal.SIGKILL)
    assert waiter.line() == "up"
    assert waiter.end() == 0
    assert box.left_over() == {}


SHEDS = (
    "import os, sys, time; os.closerange(3, 1024); open(sys.argv[1], 'w').write(str(os.getpid()));"
    "time.sleep(1000)"
)


@pytest.mark.parametrize("both", [False, True])
def test_a_program_that_leaves_something_behind_that_nobody_can_know(
    box: Box, *, both: bool
) -> None:
    """`run` says of the seats what is true: they are free unless something else holds them."""
    box.env["HEADGATE_LIMITS"] = "a/b=1"
    out = box.folder / "out"
    other = "sleep 1000 >/dev/null 2>&1 </dev/null & echo $!;" if both else ""
    script = (
        f'{other} env -i {sys.executable} -I -c "$0" "$1" >/dev/null 2>&1 </dev/null & '
        'while [ ! -s "$1" ]; do sleep 0.02; done; exit 4'
    )
    program = box.run("-m", "a/b", "--", "sh", "-c", script, SHEDS, str(out))
    stays = int(program.line()) if both else 0
    assert program.wait() == 4
    shed = int(out.read_text())
    box.pids += [shed, stays] if both else [shed]
    said = program.line(stream="stderr")
    if both:
        assert f"still runs (pid {stays}); its seats stay taken" in said
        assert [row["state"] for row in box.running()] == ["orphaned"]
    else:
        assert f"still runs (pid {shed}); its seats are free all the same" in said
        assert box.running() == []
        assert box.run("-m", "a/b", "--no-wait", "--", "true").wait() == 0
    assert not gone(shed)
