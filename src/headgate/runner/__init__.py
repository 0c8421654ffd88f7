"""One program under one lease: start it, pass signals on, end it, tell how it ended.

program     the whole of it: wait for seats, run, give them back or leave them to what still runs
child       the process: started with the terminal, its mark and the pipe that proves its life
keeper      what stays behind for processes that outlive their program
"""

from headgate.runner.program_under_lease import Program, run_program

__all__ = ["Program", "run_program"]
