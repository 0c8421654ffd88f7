"""What a pool is: what the configuration says of it, what the store remembers, how it stands."""

from collections.abc import Mapping

from headgate.core.host.pressure import PressureLimits
from headgate.core.key_patterns import HOST
from headgate.core.learning.control_law import Learned
from headgate.core.named_tuple import NamedTuple
from headgate.core.rate_limits import Rates
from headgate.core.times import NO_TIME, Ms

UNLIMITED = "unlimited"
LEARN = "learn"
AUTO = "auto"
"""The limit of host that follows from what the machine has."""
STEP_DOWN = "step-down"
OFF = "off"
ADAPT = (LEARN, STEP_DOWN, OFF)
"""How a pool learns from refusals: a limit that finds its way, one that only falls, or none."""
OLDEST = "oldest"
FAIR = "fair"
ORDERS = (OLDEST, FAIR)
"""Who is next of a pool: the oldest, or the task whose last turn was longest ago."""


class UsageSource(NamedTuple):
    """Where upstream's own count of what is in use can be read."""

    kind: str
    """umans, featherless, json or python."""
    url: str = ""
    key_env: str = ""
    """The environment variable with the API key; the key itself is never kept."""
    used: str = ""
    """Where in the answer of a `json` source the number stands, as in `data.in_flight`."""
    limit: str = ""
    """Where the limit stands, if it does."""
    call: str = ""
    """What a `python` source calls, as in `package.module:function`."""
    every: Ms = Ms(2_000)
    """Milliseconds between two readings while somebody waits."""
    margin: int = 0
    """Seats to leave free of what upstream allows."""

    @property
    def no_key(self) -> str:
        """What is wrong where the key is not to be had."""
        return f"{self.key_env} is not set"


class Declared(NamedTuple):
    """What the configuration says about one pool; None where it says nothing."""

    limit: int | str | None = None
    cooldown: Ms | None = None
    max_hold: Ms | None = None
    reserve: tuple[tuple[str, int], ...] | None = None
    adapt: str | None = None
    usage: UsageSource | None = None
    observe: tuple[str, ...] | None = None
    """Regular expressions over command lines: who matches has a seat without having asked."""
    rpm: int | None = None
    tpm: int | None = None
    spacing: Ms | None = None
    """At least so many milliseconds between two starts."""
    memory_floor: int | None = None
    """Bytes that have to be free for anything to start; 0 for no matter how few. Of host only."""
    load_ceiling: float | None = None
    """The load per core above which nothing starts; 0 for none. Of host only."""
    agent_memory: int | None = None
    """Bytes that an agent is expected to take. Of host only."""
    meter: str | None = None
    """How agents of this pool are counted and watched."""
    queue_timeout: Ms | None = None
    """For how long a request may wait for its seat before its client is told so."""
    warned_limit: int | None = None
    """The limit while upstream says that a quota is nearly gone."""
    per_task: int | None = None
    """The most seats that one task may hold."""
    order: str | None = None
    """Who is next."""


NOTHING = Declared()
AGENTS = "*agents"
"""Among the patterns of `observe`: all known agents, by their profiles. It is no pattern of RE2."""


class PoolRow(NamedTuple):
    """What the store remembers about one pool: set by hand while running, or learned."""

    name: str
    limit: int | str | None = None
    cooldown: Ms | None = None
    paused_until: Ms | None = None
    pause_note: str = ""
    learned: str = ""
    """What `control_law` has learned, as text."""
    per_task: int | str | None = None
    """The most that one task may hold, or 'unlimited'."""
    order: str | None = None

    @property
    def says_nothing(self) -> bool:
        """Whether there is no need to remember it."""
        return (
            self.limit is None
            and self.cooldown is None
            and self.paused_until is None
            and not self.learned
            and not self.shares
        )

    @property
    def shares(self) -> bool:
        """Whether it says how tasks share the pool."""
        return self.per_task is not None or self.order is not None


class UnreadableNotice(NamedTuple):
    """Something kept about a pool that cannot be read, and what counts in its place."""

    what: str
    text: str
    """As it is kept."""
    why: str
    instead: str
    stays: bool = True
    """Whether it stays so until somebody does something about it."""

    def words(self, pool: str) -> str:
        """For people: what is wrong, what counts now, and what to do."""
        said = f"{self.what} cannot be read ({self.why}): {self.instead}"
        todo = f"; upgrade headgate, or begin anew with: headgate limits restore '{pool}'"
        return said + todo if self.stays else said


class Pool(NamedTuple):
    """A pool as it stands: every layer applied. Times are in milliseconds.

    `limit` is what counts now. A pool that learns has `learned`, and `most` is what its limit can
    become: what somebody said, or None if nobody did.
    """

    name: str
    limit: int | None
    source: str
    configured_limit: int | None = None
    cooldown: Ms = NO_TIME
    max_hold: Ms | None = None
    reserve: tuple[tuple[str, int], ...] = ()
    paused_until: Ms | None = None
    pause_note: str = ""
    most: int | None = None
    adapt: str = OFF
    learned: Learned | None = None
    usage: UsageSource | None = None
    observe: tuple[str, ...] = ()
    rates: Rates = Rates()
    pressure_limits: PressureLimits | None = None
    """When the machine itself is too strained for more; None if nobody cares."""
    unread: tuple[UnreadableNotice, ...] = ()
    """What is kept about it and cannot be read."""
    fixed: bool = False
    """Whether nothing is learned because what its limit is or was learned to be cannot be read."""
    warned_limit: int | None = None
    """The limit while upstream says that a quota is nearly gone; None for no other."""
    per_task: int | None = None
    """The most seats that one task may hold; None for as many as it gets."""
    order: str = OLDEST
    """Who is next: the oldest, or the task whose last turn was longest ago."""

    @property
    def bounded(self) -> bool:
        """Whether there is anything that could keep somebody out, other than a pause."""
        return (
            self.limit is not None
            or self.usage is not None
            or self.per_task is not None
            or self.warned_limit is not None
            or self.pressure_limits is not None
            or self.rates != NO_RATES
        )

    @property
    def tells_tasks_apart(self) -> bool:
        """Whether it matters here whom work is for."""
        return self.per_task is not None or self.order == FAIR

    @property
    def notable(self) -> bool:
        """Whether time, upstream or others do something to it, beside our own seats."""
        it = self.learned
        unsure = it is not None and (it.bars or it.probe or (it.heard and it.sure <= it.limit))
        said = self.usage or self.observe or self.max_hold or self.rates != NO_RATES
        lowered = self.warned_limit is not None
        return bool(unsure or said or lowered or self.paused_until is not None or self.unread)

    def paused(self, now: Ms) -> bool:
        """Whether nothing may start in this pool at this moment."""
        return self.paused_until is not None and self.paused_until > now


NO_RATES = Rates()
COOLDOWN = Ms(2_000)
"""How long a freed seat rests in a pool that learns, unless something else is said."""
DEFAULTS: Mapping[str, Declared] = {HOST: Declared(limit=3), "*/claude-opus-*": Declared(limit=4)}
