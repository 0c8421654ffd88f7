"""How the stand-in answers: how long it takes, how fast it talks, how often it breaks.

A request may ask for something of its own with a marker in its prompt; the last one counts:

    [[sim duration=2.5 tokens=40 first_token=1.0]]     seconds
    [[sim cut=0.5 by=eof]]                             break off half-way, by rst, eof or error
    [[sim status=529 times=2]]                         refuse, the first two times this is asked
    [[sim refuse=quota retry_after=30]]                refuse as if the quota were gone
"""

import random
import re

from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import parse_duration
from headgate.core.table_fields import Field, Fields, choice, read_options
from headgate.errors import UsageError

CUTS = ("rst", "eof", "error")
REFUSALS = ("concurrency", "rate", "tokens", "quota", "overloaded", "error")
LONGEST = 86_400_000
MOST_TOKENS = 100_000
_MARKER = re.compile(rb"\[\[sim\b([^\[\]]{0,400})\]\]")


class Spread(NamedTuple):
    """A length of time that is drawn anew for each request, in milliseconds."""

    low: int
    high: int
    mean: int = 0
    """0: evenly between the two; else exponential with this mean, kept between them."""

    def draw(self, chance: random.Random) -> int:
        """One length."""
        if self.mean:
            return min(self.high, max(self.low, round(chance.expovariate(1 / self.mean))))
        return round(chance.uniform(self.low, self.high))


def fixed(ms: int) -> Spread:
    """Always the same length."""
    return Spread(ms, ms)


class Behaviour(NamedTuple):
    """How the stand-in answers. Milliseconds, and shares from 0 to 1."""

    duration: Spread | None = Spread(1_000, 1_000)
    """From the acceptance to the last byte. None: it follows from the number of tokens."""
    headers: int = 20
    """How long the headers of a stream take."""
    first_token: int = 100
    refusal: int = 10
    """How long a refusal takes."""
    tokens: int = 64
    """How many tokens an answer has where no duration says it (or `max_tokens`, if fewer)."""
    rate: float = 50.0
    """Tokens per second."""
    errors: float = 0.0
    """The share of requests that meet a 500."""
    cuts: float = 0.0
    """The share of streams that are broken off."""
    cut_by: str = "rst"
    """By a reset, by a clean end that comes too early, or by an error event."""


class RequestOptions(NamedTuple):
    """What a request's marker asks for; None where it does not."""

    duration: int | None = None
    tokens: int | None = None
    headers: int | None = None
    first_token: int | None = None
    cut: float | None = None
    by: str | None = None
    status: int | None = None
    refuse: str | None = None
    retry_after: int | None = None
    times: int | None = None
    text: str = ""


class Script(NamedTuple):
    """What will happen to one request if it is let in. Milliseconds from its acceptance."""

    headers: int
    first_token: int
    duration: int
    tokens: int
    full: bool
    """Whether it ends because `max_tokens` is reached."""
    cut: int | None
    cut_by: str

    def stretched(self, by: float) -> "Script":
        """The same, slower."""
        cut = None if self.cut is None else round(self.cut * by)
        return self._replace(
            first_token=round(self.first_token * by), duration=round(self.duration * by), cut=cut
        )


def parse_request_options(body: bytes) -> RequestOptions:
    """What the last marker in a request's body asks for."""
    found = _MARKER.findall(body)
    if not found:
        return RequestOptions()
    text = " ".join(found[-1].decode(errors="replace").split())
    wrong: list[str] = []
    values = read_options(dict(word.partition("=")[::2] for word in text.split()), _WISH, wrong)
    if wrong:
        raise UsageError(f"in a marker: {'; '.join(wrong)}")
    return RequestOptions(text=text, **values)


def _digits(low: int, high: int) -> Field:
    def read(value: object) -> int:
        text = str(value)
        if text.isascii() and text.isdigit() and low <= int(text[:9]) <= high:
            return int(text[:9])
        raise UsageError("no such number")

    return Field(read, f"{low} to {high}")


def parse_share(value: object) -> float:
    """A share from 0 to 1."""
    try:
        number = -1.0 if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if not 0 <= number <= 1:
        raise UsageError("not a share")
    return number


SHARE = Field(parse_share, "a share from 0 to 1")
_TIME = Field(lambda value: min(LONGEST, parse_duration(value)), "a time such as 2.5 or 500ms")
_WISH: Fields = {
    **dict.fromkeys(("duration", "first_token", "headers", "retry_after"), _TIME),
    "tokens": _digits(0, MOST_TOKENS),
    "times": _digits(0, 10**6),
    "status": _digits(400, 599),
    "cut": SHARE,
    "by": Field(choice(*CUTS), f"one of {', '.join(CUTS)}"),
    "refuse": Field(choice(*REFUSALS), f"one of {', '.join(REFUSALS)}"),
}


def parse_spread(text: str) -> Spread | None:
    """`2s`, `1s..5s` (evenly), `exp:20s` or `exp:20s:2s..10m` (bounded), `tokens` (None)."""
    what = "duration"
    if text == "tokens":
        return None
    head, colon, rest = text.removeprefix("exp:").partition(":")
    if text.startswith("exp:"):
        mean = parse_duration(head, what)
        low, dots, high = rest.partition("..")
        if mean < 1 or (colon and not dots):
            raise UsageError(f"bad duration {text[:40]!r}: expected exp:20s or exp:20s:2s..10m")
        least = parse_duration(low, what) if colon else 0
        spread = Spread(least, parse_duration(high, what) if colon else 10 * mean, mean)
    else:
        low, _, high = text.partition("..")
        spread = Spread(parse_duration(low, what), parse_duration(high or low, what))
    if spread.low > spread.high or spread.high > LONGEST:
        raise UsageError(f"bad duration {text[:40]!r}: expected a low..high of at most a day")
    return spread


def draw(
    behaviour: Behaviour,
    chance: random.Random,
    wanted_options: RequestOptions,
    most: int | None,
    *,
    stream: bool = True,
) -> Script:
    """What will happen to a request that allows `most` tokens."""
    length = None if behaviour.duration is None else behaviour.duration.draw(chance)
    cutting, place = chance.random() < behaviour.cuts, chance.uniform(0.1, 0.9)
    length = length if wanted_options.duration is None else wanted_options.duration
    first = (
        behaviour.first_token if wanted_options.first_token is None else wanted_options.first_token
    )
    if length is None:
        wanted = behaviour.tokens if wanted_options.tokens is None else wanted_options.tokens
        tokens = wanted if most is None else min(wanted, most)
        length = first + round(1_000 * tokens / behaviour.rate)
    else:
        paced = max(1, round((length - first) / 1_000 * behaviour.rate))
        wanted = paced if wanted_options.tokens is None else wanted_options.tokens
        tokens = wanted if most is None else min(wanted, most)
    tokens = min(tokens, MOST_TOKENS)
    if wanted_options.first_token is not None:
        length = max(length, first)
    share = (
        wanted_options.cut
        if wanted_options.cut is not None
        else place
        if cutting and stream
        else None
    )
    return Script(
        headers=min(
            behaviour.headers if wanted_options.headers is None else wanted_options.headers, length
        ),
        first_token=min(first, length),
        duration=length,
        tokens=tokens,
        full=tokens < wanted,
        cut=None if share is None else round(share * length),
        cut_by=wanted_options.by or behaviour.cut_by,
    )
