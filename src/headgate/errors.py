"""Everything headgate raises, in one small tree.

HeadgateError
├── UsageError            what was asked for makes no sense: a bad key, pattern, duration, weight …
│   ├── ConfigError       the same, found in a configuration file or in HEADGATE_LIMITS
│   └── TooHeavyError     the work weighs more than a pool it needs can ever hold
├── NoRoomError           no seat now, and the caller did not want to wait
├── WaitTimeoutError      no seat within the time the caller gave
├── CancelledWorkError    someone cancelled this work, waiting or running
├── HoldExpiredError      the work held its seats longer than a pool's `max_hold`
├── FencedError           a client on another machine was silent for so long that its work was ended
├── ServerError           the server did not answer as it must, or not at all; nothing was granted
├── GateClosedError       the gate was closed, or carried over a fork
├── InternalError         headgate contradicts itself: a mistake in its own code
└── StoreError            the store did not answer as it must; nothing was granted
    ├── StoreUnavailableError   missing folder, no permission, read-only, locked for too long
    │   ├── StoreReplacedError  the file was removed or replaced while in use
    │   └── StoreUntrustedError another user owns it, or can write it
    ├── StoreFullError          no space left to write
    ├── StoreCorruptError       the file is damaged, or is no headgate store
    ├── StoreTooNewError        written by a newer headgate
    └── StoreInUseError         older processes use it that could not go on if it were upgraded

Each message says what happened, where, and what to do. `exit_code` is what the command line
returns for it.
"""


class HeadgateError(Exception):
    """Base of everything headgate raises on purpose."""

    exit_code = 125


class UsageError(HeadgateError):
    """What was asked for makes no sense."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration value is wrong."""


class TooHeavyError(UsageError):
    """The work weighs more than a pool it needs can ever hold."""


class NoRoomError(HeadgateError):
    """No seat is free now."""

    exit_code = 75


class WaitTimeoutError(HeadgateError):
    """No seat became free within the time given."""

    exit_code = 124


class CancelledWorkError(HeadgateError):
    """This work was cancelled."""


class HoldExpiredError(HeadgateError):
    """This work held its seats longer than its pool allows."""


class FencedError(HeadgateError):
    """This client was not heard of for so long that its seats were given on."""


class ServerError(HeadgateError):
    """The server of a remote gate did not answer as it must."""


class GateClosedError(HeadgateError):
    """The gate is closed."""


class InternalError(HeadgateError):
    """Headgate contradicts itself."""


class StoreError(HeadgateError):
    """The store did not answer as it must."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached or written."""


class StoreReplacedError(StoreUnavailableError):
    """The store's file is not the one that was opened."""


class StoreUntrustedError(StoreUnavailableError):
    """Somebody else can write the store, and so have commands run as this user."""


class StoreFullError(StoreError):
    """The store's disk is full."""


class StoreCorruptError(StoreError):
    """The store's file is damaged."""


class StoreTooNewError(StoreError):
    """The store was written by a newer headgate."""


class StoreInUseError(StoreError):
    """Processes of an older version use the store."""
