"""`python -m headgate` is the command line."""

from headgate.cli import program

program()
