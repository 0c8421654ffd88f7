"""headgate lets in as many AI agents as machines and accounts can take, and never one more.

from headgate import Gate

gate = Gate.open()
with gate.slot("anthropic/claude-opus-4-6", task="oracle-2"):
    ...
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.core.admission.candidates import Candidate, Plan, Verdict
    from headgate.core.display.snapshots import (
        Capacity,
        Event,
        Past,
        PoolStatus,
        Queue,
        Running,
        Status,
        Waiting,
    )
    from headgate.errors import (
        CancelledWorkError,
        ConfigError,
        GateClosedError,
        HeadgateError,
        HoldExpiredError,
        NoRoomError,
        StoreCorruptError,
        StoreError,
        StoreFullError,
        StoreInUseError,
        StoreReplacedError,
        StoreTooNewError,
        StoreUnavailableError,
        StoreUntrustedError,
        TooHeavyError,
        UsageError,
        WaitTimeoutError,
    )
    from headgate.gate import Gate, Lease, Slot

__version__ = "0.2.0"

__all__ = [
    "CancelledWorkError",
    "Candidate",
    "Capacity",
    "ConfigError",
    "Event",
    "Gate",
    "GateClosedError",
    "HeadgateError",
    "HoldExpiredError",
    "Lease",
    "NoRoomError",
    "Past",
    "Plan",
    "PoolStatus",
    "Queue",
    "Running",
    "Slot",
    "Status",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreInUseError",
    "StoreReplacedError",
    "StoreTooNewError",
    "StoreUnavailableError",
    "StoreUntrustedError",
    "TooHeavyError",
    "UsageError",
    "Verdict",
    "WaitTimeoutError",
    "Waiting",
]


def __getattr__(name: str) -> object:
    """Load a public name when it is first used: the command line needs few of them."""
    if name not in __all__:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    module = "headgate.core.display.snapshots"
    if name.endswith("Error"):
        module = "headgate.errors"
    elif name in {"Gate", "Lease", "Slot"}:
        module = "headgate.gate"
    elif name in {"Candidate", "Plan", "Verdict"}:
        module = "headgate.core.admission.candidates"
    found: object = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return __all__
