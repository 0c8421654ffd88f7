"""Looks for what is wrong or odd, and says what to do about it. Changes nothing.

finding    what a check says
facts      what the checks are about: the settings, the store, what was seen so far
settings   the configuration and the environment
limits     what each pool's limit is, and where it comes from
patterns   which keys two names of pools have in common
shadows    pools that never count, count apart, or fit nothing
times      timeouts that get in each other's way
storage    SQLite, the file system, the store's folder
machine    what this machine and this Python can do
outside    agents that run without having asked
notices    a test notification

Each check is a function that takes facts and returns findings. One that fails is a finding itself.
"""

from headgate.doctor.examine import Report, examine
from headgate.doctor.finding import LEVELS, NOTE, OK, PROBLEM, WARNING, Finding

__all__ = ["LEVELS", "NOTE", "OK", "PROBLEM", "WARNING", "Finding", "Report", "examine"]
