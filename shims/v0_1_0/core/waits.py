"""For processes of version 0.1.0 that live on after an upgrade: they load this name late.

It goes with the next version; see "Upgrading" in docs/design.md.
"""

from headgate.core.answers.retry_after import RateHeaders as Meters
from headgate.core.answers.retry_after import rate_headers as meters

__all__ = ["Meters", "meters"]
