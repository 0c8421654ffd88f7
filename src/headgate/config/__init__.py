"""The configuration file: found, read, checked as a whole, and watched for changes.

A file is accepted or refused as a whole. All that is wrong with it is said at once, a line for each
mistake: where it is, what was found there, and what is allowed. What is legal but looks harmful
becomes a warning.
"""

from headgate.config.file import GRACE, Config, Defaults, Watched, default_path, find, load

__all__ = ["GRACE", "Config", "Defaults", "Watched", "default_path", "find", "load"]
