"""Who wants to hear of what: targets of notifications, and which events they are told.

An event passes if one of a target's patterns fits its kind, and if each field that `only` names
fits too; an event that lacks such a field does not pass. `missed`, which says that events were
lost, passes always.
"""

from headgate.core.display.snapshots import Event
from headgate.core.key_patterns import glob, matches
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Ms

MISSED = "missed"
FAILED = "notify_failed"
TEST = "test"

USUAL = ("confirm", "parked", "failed", "expired", "lost", "limit_reduced", "paused")
"""What a target hears of unless it says otherwise: what somebody may want to act on."""
ALL = "all"

COMMAND, WEBHOOK, APPRISE = "command", "webhook", "apprise"


class Only(NamedTuple):
    """Patterns that an event's fields must fit; one of them each, and none stands for any."""

    task: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()


class NotifyTarget(NamedTuple):
    """Where notifications go, and which. Exactly one of the first five after its name is set."""

    name: str
    command: tuple[str, ...] = ()
    """A program with its arguments, which gets the event as JSON on its standard input."""
    url: str = ""
    url_env: str = ""
    """The environment variable that has the URL; so for the other names that end like this."""
    apprise: str = ""
    apprise_env: str = ""
    secret_env: str = ""
    """With a URL: where the key is with which what is sent there is signed."""
    events: tuple[str, ...] = USUAL
    only: Only = Only()
    timeout: Ms = Ms(10_000)
    """For one try."""
    tries: int = 5

    @property
    def by(self) -> str:
        """How it is reached."""
        if self.command:
            return COMMAND
        return WEBHOOK if self.url or self.url_env else APPRISE

    @property
    def gets_json(self) -> bool:
        """Whether it is told by a JSON object, and not by a sentence for people."""
        return self.by != APPRISE

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables it cannot do without."""
        return tuple(filter(None, (self.url_env, self.apprise_env, self.secret_env)))

    def wants(self, event: Event) -> bool:
        """Whether it is told of an event."""
        if event.event == MISSED:
            return True
        if event.event == FAILED and event.text.startswith(f"{self.name}: "):
            return False  # it would be told that it cannot be told
        return any(fits(pattern, event.event) for pattern in self.events) and _among(
            self.only, event
        )


def fits(pattern: str, text: str) -> bool:
    """Whether a text is what a pattern with `*` and `?` describes; `all` describes any."""
    return pattern == ALL or bool(glob(pattern).match(text))


def _among(only: Only, event: Event) -> bool:
    if only.task and not any(glob(said).match(event.task) for said in only.task if event.task):
        return False
    if only.key and not any(matches(said, event.key) for said in only.key if event.key):
        return False
    return not only.pool or any(glob(said).match(event.pool) for said in only.pool if event.pool)
