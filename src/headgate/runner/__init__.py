"""One program under one lease: start it, pass signals on, end it, tell how it ended.

program_under_lease  wait for seats, run, give them back or leave them to what still runs
child                the process: it gets the terminal, its mark and the pipe that proves its life
limits_watch         the limits of a run, by the clock and by what its wire sees
leftover_keeper      what stays behind for processes that outlive their program
"""

from headgate.runner.program_under_lease import Program, run_program

__all__ = ["Program", "run_program"]
