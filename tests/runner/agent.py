"""A stand-in for an agent: says what happens to it.

    agent.py FILE [raw]

Writes a line into FILE when it is ready and for each signal that reaches it; ends on SIGUSR2.
"""

import os
import signal
import sys

NAMES = ("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH")


def main() -> None:
    out = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(text: str) -> None:
        os.write(out, f"{text}\n".encode())

    numbers = {getattr(signal, name) for name in NAMES}
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    size = ""
    if os.isatty(0):
        columns, lines = os.get_terminal_size(0)
        size = f" tty {lines}x{columns}"
    if "raw" in sys.argv:
        import tty

        tty.setraw(0)
    say(f"ready {os.getpid()}{size}")
    while True:
        number = signal.Signals(signal.sigwait(numbers))
        if number == signal.SIGWINCH:
            columns, lines = os.get_terminal_size(0)
            say(f"SIGWINCH {lines}x{columns}")
        else:
            say(number.name)
        if number == signal.SIGUSR2:
            return


main()
