"""Draws a run over time: the limit, what is in flight, the true cap, and every 429."""

from itertools import pairwise
from pathlib import Path
from typing import Any

from headgate.core.install_hint import install_extra
from headgate.errors import HeadgateError, UsageError
from headgate.sim.compare import Case, run
from headgate.sim.virtual_time import Point

_ROOM, _FLIGHT, _LIMIT, _REFUSED = "#b0b7bf", "#2a7ab9", "#d98e04", "#c0392b"
_GRID = 500
"""Points of a panel's even grid: a picture is some hundred pixels wide."""


def draw(cases: list[Case], path: Path) -> None:
    """Run the cases and draw one panel for each, as PNG or SVG by the file's name."""
    if path.suffix not in {".png", ".svg"}:
        raise UsageError(f"bad plot {path.name!r}: expected a file that ends in .png or .svg")
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(
        len(cases), 1, figsize=(10, 2.2 * len(cases) + 0.6), sharex=True, squeeze=False
    )
    for panel, case in zip(axes[:, 0], cases, strict=True):
        points: list[Point] = []
        result = run(case, watch=points.append)
        _panel(panel, points, case, result.refused)
    axes[-1, 0].set_xlabel("hours")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=4, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    try:
        figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as error:
        raise HeadgateError(f"cannot write {path}: {error.strerror}") from None
    pyplot.close(figure)


def _panel(panel: Any, points: list[Point], case: Case, refused: int) -> None:  # noqa: ANN401
    points = _thinned(points)
    hours = [point.at / 3_600_000 for point in points]
    moves = [after for before, after in pairwise(points) if after.room != before.room]
    edges = [points[0], *moves, points[-1]]  # an area is not simplified when it is drawn
    panel.fill_between(
        [point.at / 3_600_000 for point in edges],
        [point.room for point in edges],
        step="post",
        color=_ROOM,
        label="true cap",
    )
    panel.step(
        hours,
        [point.in_flight for point in points],
        where="post",
        color=_FLIGHT,
        linewidth=0.8,
        label="in flight",
    )
    top = max(point.room for point in points) * 1.6 + 1
    limits = [min(point.limit, top) for point in points]
    panel.step(hours, limits, where="post", color=_LIMIT, linewidth=1.4, label="limit")
    failed = [
        after.at / 3_600_000 for before, after in pairwise(points) if after.refused > before.refused
    ]
    panel.plot(failed, [top * 0.96] * len(failed), "|", color=_REFUSED, markersize=7, label="429")
    panel.set_ylim(0, top)
    ways = "usage readings" if case.usage else "no readings"
    punished = "punished" if case.penalty and case.scenario.plan.penalty else "not punished"
    panel.set_title(
        f"{case.scenario.name}, {case.governor}: {ways}, {punished}, {refused} refused",
        fontsize=9,
        loc="left",
    )


def _thinned(points: list[Point]) -> list[Point]:
    """About a thousand points at most: an even grid, and where limit, cap or 429s change.

    Of more changes than the eye can tell apart, the last in each stretch of the grid is kept.
    """
    if len(points) <= 2 * _GRID:
        return points
    every = -(-len(points) // _GRID)
    changed = [
        index
        for index, (before, after) in enumerate(pairwise(points), 1)
        if (after.limit, after.room, after.refused) != (before.limit, before.room, before.refused)
    ]
    if len(changed) > _GRID:
        changed = list({index // every: index for index in changed}.values())
    kept = {*range(0, len(points), every), *changed, len(points) - 1}
    return [points[index] for index in sorted(kept)]


def _pyplot() -> Any:  # noqa: ANN401 - a module without types
    try:
        import matplotlib as mpl
    except ImportError:
        raise HeadgateError(
            f"drawing needs matplotlib, which is not installed; {install_extra('sim')}"
        ) from None
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "headgate"
    from matplotlib import pyplot as plt

    return plt
