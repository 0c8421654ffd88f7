"""Every speed aim, as a ratio to a named baseline measured in the same run.

    make bench                                  all of it, about ten minutes
    make bench ARGS="memory cli"                some of it
    make bench ARGS="--write docs/performance.md"      and put the figures into the docs
    make bench ARGS="--tiny"                    does all of it still run? The figures mean nothing

Figures are medians of rounds that alternate with their baseline, because machines are noisy.
"""

import argparse
import importlib
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
"""What stands around the figures in the page that they are put into."""
PARTS = tuple(sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py")))


def main() -> None:
    """Run the parts asked for and print a line for each figure."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    parser = argparse.ArgumentParser(prog="bench/run.py")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--tiny", action="store_true", help="only see whether it runs")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the figures into a page")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are: {', '.join(PARTS)}")
    print(f"{'what':<84} {'figure':>14} {'aim':>10}")
    rows = []
    for part in asked.parts or PARTS:
        for what, figure, aim in importlib.import_module(f"bench_{part}").measure(tiny=asked.tiny):
            print(f"{what:<84} {figure:>14} {aim:>10}", flush=True)
            rows.append((what.strip(), figure, aim))
    if asked.write:
        page = asked.write.read_text()
        before, rest = page.split(BEGIN)
        after = rest.split(END)[1]
        asked.write.write_text(f"{before}{BEGIN}\n{_table(rows)}{END}{after}")


def _table(rows: list[tuple[str, str, str]]) -> str:
    lines = [
        f"| {what} | {figure} | {aim.replace('<=', '≤').replace('>=', '≥')} |"
        for what, figure, aim in rows
    ]
    head = f"Measured {time.strftime('%Y-%m-%d')} with `make bench`, in one run."
    return "\n".join([head, "", "| what | figure | aim |", "|---|---|---|", *lines, ""])


if __name__ == "__main__":
    main()
