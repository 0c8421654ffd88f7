"""Every speed aim, as a ratio to a named baseline measured in the same run.

    make bench                        all of it
    make bench ARGS="memory cli"      some of it

Figures are medians of rounds that alternate with their baseline, because machines are noisy.
"""

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

PARTS = ("memory", "commit", "handover", "line", "learn", "jobs", "cli")


def main(names: list[str]) -> int:
    """Run the parts asked for and print a line for each figure."""
    unknown = set(names) - set(PARTS)
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; there are: {', '.join(PARTS)}")
        return 2
    print(f"{'what':<58} {'figure':>14} {'aim':>10}")
    for part in names or PARTS:
        for what, figure, aim in importlib.import_module(f"bench_{part}").measure():
            print(f"{what:<58} {figure:>14} {aim:>10}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
