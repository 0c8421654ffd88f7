"""The configuration file: found, read, checked as a whole, and watched for changes.

A file is accepted or refused as a whole. All that is wrong with it is said at once, a line for each
mistake: where it is, what was found there, and what is allowed. What is legal but looks harmful
becomes a warning. No message repeats what looks like a key.

content   what a file says, once it was checked
file      finds the file, reads it, and watches it for changes
check     the text as a whole, table by table
pool      the table of one pool
notify    where notifications go
usage     where upstream's own count is read
jobs      when agents are ended, and what becomes of their jobs
profiles  what is known about kinds of agents, built in or told by the user
values    readers of single values
notes     what is wrong or odd, and where
words     how that is put, and what is hidden of it
template  the file that `headgate init` writes
"""

from headgate.config.content import GRACE, Config
from headgate.config.file import Defaults, Watched, default_path, find, load

__all__ = ["GRACE", "Config", "Defaults", "Watched", "default_path", "find", "load"]
