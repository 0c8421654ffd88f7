"""The configuration file: found, read, checked as a whole, and watched for changes.

A file is accepted or refused as a whole. All that is wrong with it is said at once, a line for each
mistake: where it is, what was found there, and what is allowed. What is legal but looks harmful
becomes a warning. No message repeats what looks like a key.

parsed_config   what a file says, once it was checked
file            finds the file, reads it, and watches it for changes
check           the text as a whole, table by table
pool            the table of one pool
pool_fields     what it can have in it
notify          where notifications go
usage           where upstream's own count is read
server          where the server listens, and whom it answers
store           how much is kept of what is over
jobs            when agents are ended, and what becomes of their jobs
project         a project's own file: what it may say, and who trusts it
profiles        what is known about kinds of agents, built in or told by the user
profile_fields  what such a table can have in it
key_descriptions  all keys, for the reference page
problems        what is wrong or odd, and where
error_text      how that is put, and what is hidden of it
template        the file that `headgate init` writes
"""

from headgate.config.file import Defaults, Watched, default_path, find, find_project, load
from headgate.config.parsed_config import GRACE, Config

__all__ = [
    "GRACE",
    "Config",
    "Defaults",
    "Watched",
    "default_path",
    "find",
    "find_project",
    "load",
]
