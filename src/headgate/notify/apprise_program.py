"""Any service that apprise knows. `main` is a program of its own, which can be killed.

Reads {"url", "title", "body"} from standard input. Apprise may log what is secret, so that nothing
of what it says is shown.
"""

import json
import logging
import sys
from importlib import import_module
from typing import Any

FAILED, UNKNOWN = 1, 3
"""Exit codes: it did not go through; apprise does not know such a URL."""


def main() -> int:
    """Send it."""
    apprise: Any = import_module("apprise")
    said = json.load(sys.stdin)
    logging.getLogger("apprise").addHandler(logging.NullHandler())
    logging.getLogger("apprise").propagate = False
    service = apprise.Apprise()
    if not service.add(said["url"]):
        return UNKNOWN
    sent = service.notify(
        body=said["body"], title=said["title"], body_format=apprise.NotifyFormat.TEXT
    )
    return 0 if sent else FAILED
