"""Looks for what is wrong or odd, and says what to do about it. Changes nothing.

examine            runs every check, in groups
finding            what a check says
facts              what the checks are about: the settings, the store, what was seen so far
files              where files with a say are looked for, and which are there
settings           the configuration and the environment
limit_sources      each pool's limit, and where it comes from
overlapping_pools  pools that never limit anything, or match nothing
timeouts           timeouts that conflict
deadlocks          work that waits for each other in a circle
storage            SQLite, the file system, the store's folder
store_size         what each kind of what a store keeps costs in bytes
machine            what this machine and this Python can do
unmanaged_agents   agents that run without a lease
meters             how the agents of this machine would be counted and watched
try_notification   a test notification

Each check is a function that takes facts and returns findings. One that fails is a finding itself.
"""

from headgate.doctor.examine import Report, examine
from headgate.doctor.finding import LEVELS, NOTE, OK, PROBLEM, WARNING, Finding

__all__ = ["LEVELS", "NOTE", "OK", "PROBLEM", "WARNING", "Finding", "Report", "examine"]
