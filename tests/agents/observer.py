"""Counts from outside how many agents really run, without knowing anything about headgate.

    observer.py FOLDER WORD ...

An agent is a process with something of FOLDER in its command line, told apart by the WORD that is
one of its arguments. A line of JSON for each look: how many of each there were at one moment.

Looking through /proc takes time, and agents come and go meanwhile. So everyone found is looked at
a second time: who is there in both passes was there between them, and those were there all at once.
"""

import json
import os
import sys
import time

PAUSE = 0.01


def command(pid: str) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123 - no imports to wait for
            return file.read()
    except OSError:
        return b""


def main() -> None:
    folder, *words = sys.argv[1:]
    own = os.getpid()

    def kind(pid: str) -> str:
        line = command(pid)
        if f"\0{folder}/".encode() not in line or int(pid) == own:
            return ""
        arguments = line.decode(errors="replace").split("\0")
        return next((word for word in words if word in arguments), "")

    while os.getppid() != 1:
        found = [pid for pid in os.listdir("/proc") if pid.isdigit() and kind(pid)]  # noqa: PTH208
        there = [kind(pid) for pid in found]
        sys.stdout.write(json.dumps({word: there.count(word) for word in words}) + "\n")
        sys.stdout.flush()
        time.sleep(PAUSE)


main()
