"""Counts from outside how many agents really run, without knowing anything about headgate.

    observer.py NAME=SECONDS ...

An agent is a `sleep SECONDS`, told apart from all others on the machine by its odd number. A line
of JSON for each look: a moment, and how many of each there were at that very moment.

Looking through /proc takes time, and agents come and go meanwhile. So everyone found is looked at
a second time: who is there in both passes was there between them, and those were there all at once.
"""

import json
import os
import sys
import time

PAUSE = 0.015


def command(pid: str) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123 - no imports to wait for
            return file.read()
    except OSError:
        return b""


def main() -> None:
    wanted = dict(word.split("=") for word in sys.argv[1:])
    agents = {f"sleep\0{seconds}\0".encode(): name for name, seconds in wanted.items()}
    while os.getppid() != 1:
        found = [
            (pid, line) for pid in os.listdir("/proc")  # noqa: PTH208
            if pid.isdigit() and (line := command(pid)) in agents
        ]  # fmt: skip
        between = time.monotonic()
        there = [agents[line] for pid, line in found if command(pid) == line]
        counts = {name: there.count(name) for name in wanted}
        sys.stdout.write(json.dumps({"at": between, **counts}) + "\n")
        sys.stdout.flush()
        time.sleep(PAUSE)


main()
