"""What the kernel tells of processes whose names are no text."""

import subprocess
import sys

from headgate.store.machine_and_clock import process_fields, process_start

ODD = """
import ctypes
ctypes.CDLL(None).prctl(15, b"a) b\\xff\\xfe", 0, 0, 0)
print(flush=True)
input()
"""


def test_a_process_with_a_name_that_is_no_text_is_seen() -> None:
    """A process may call itself anything, also what is no UTF-8, and is still told from others."""
    command = [sys.executable, "-c", ODD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as odd:
        assert odd.stdout is not None
        odd.stdout.readline()
        fields, started = process_fields(odd.pid), process_start(odd.pid)
        odd.communicate(b"\n")
    assert fields[0] in "SRD"
    assert started > 0


def test_a_process_that_is_not_there_tells_nothing() -> None:
    """A number without a process gives no fields and no start."""
    assert process_fields(2**22 + 1) == []
    assert process_start(2**22 + 1) == 0
