"""What the benchmarks share."""

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Figure = tuple[str, str, str]
"""What was measured, the figure, and the aim; empty where there is none."""
_SETTINGS = """\
[defaults]
adapt = "off"    # or every freed seat would rest for two seconds, and the figures be about that
"""


@contextmanager
def folder() -> Iterator[Path]:
    """A folder on the disk the project is on, with nothing of this person's settings in sight.

    Pools do not learn here, unless a benchmark says so: `bench_learn` measures what that costs.
    """
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path(__file__).parent) as name:
        for variable in [v for v in os.environ if v.startswith("HEADGATE_")]:
            del os.environ[variable]
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # commands are measured as they start twice
        os.environ["XDG_CONFIG_HOME"] = name
        os.environ["XDG_STATE_HOME"] = name
        settings = Path(name) / "headgate" / "config.toml"
        settings.parent.mkdir()
        settings.write_text(_SETTINGS)
        yield Path(name)


def ratio(
    ours: Callable[[], float], theirs: Callable[[], float], rounds: int = 7
) -> tuple[float, float, float]:
    """Medians of both, measured in turns, and how many times the second the first takes."""
    pairs = [(ours(), theirs()) for _ in range(rounds)]
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    return mine, other, statistics.median(a / b for a, b in pairs)


def micro(seconds: float) -> str:
    """Microseconds, for people."""
    return f"{seconds * 1e6:.0f} µs"
