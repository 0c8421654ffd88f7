"""For processes of version 0.1.0 that live on after an upgrade: they load this name late.

It goes with the next version; see "Upgrading" in docs/design.md.
"""

from headgate.core.agents.find_profile import find, key, session

__all__ = ["find", "key", "session"]
