"""Write constraints.txt anew: the newest versions pyproject.toml allows, each with its hashes.

Usage: `make pin`, or `python tools/pin.py`.

One resolution holds for every platform and every Python from `requires-python` up, and lists the
hash of every file of each version, so the same pins install on all of them. uv does that; it is
fetched into a temporary environment, because nothing else here needs it.
"""

import re
import subprocess
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "constraints.txt"

HEAD = """\
# Every package headgate runs on, is built with, tested with and measured with, for each platform
# and each supported Python, with the hashes of all its files. Written by tools/pin.py (`make pin`).
#
# Install it with -r, although it constrains: given with -c, pip 23 refuses each requirement that is
# not pinned where it is asked for. Then the package itself, for which nothing is fetched any more:
#
#     pip install --require-hashes -r constraints.txt
#     pip install --no-deps --no-build-isolation -e .
"""
RUNTIME = "# Part 1: what it runs on and is built with. `make demo` stops reading after this part."
DEVELOPMENT = "# Part 2: what it is developed with."


def main() -> None:
    """Resolve everything, then sort the pins into the runtime's and the rest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        build = work / "build.in"
        build.write_text("\n".join(project["build-system"]["requires"]))
        resolve = [
            *(install_uv(work), "pip", "compile", "--quiet", "--no-config", "--no-header"),
            *("--no-annotate", "--universal", "--python-version", minimum_python(project)),
            *("pyproject.toml", str(build)),
        ]
        everything = run(*resolve, "--all-extras", "--generate-hashes")
        known = work / "everything.txt"
        known.write_text(everything)
        runtime = {name for name, _ in pins(run(*resolve, "--constraint", str(known)))}

    first = [pin for name, pin in pins(everything) if name in runtime]
    second = [pin for name, pin in pins(everything) if name not in runtime]
    if "/" in everything:
        raise SystemExit("an address or a path got into the pins; constraints.txt is unchanged")
    TARGET.write_text("\n".join([HEAD, RUNTIME, "", *first, "", DEVELOPMENT, "", *second, ""]))
    print(f"{TARGET.name}: {len(first)} packages to run and build, {len(second)} to develop")


def install_uv(work: Path) -> str:
    """Fetch uv into an environment of its own and return the path of its program."""
    venv.create(work / "uv", with_pip=True)
    run(str(work / "uv/bin/python"), "-m", "pip", "install", "--quiet", "uv>=0.5")
    return str(work / "uv/bin/uv")


def minimum_python(project: dict[str, Any]) -> str:
    """Return the oldest Python the project supports, as in "3.11"."""
    return str(project["project"]["requires-python"]).removeprefix(">=")


def pins(resolution: str) -> list[tuple[str, str]]:
    """Split a resolution into (name, lines): a pin with the hash lines that continue it."""
    blocks = re.split(r"\n(?=\S)", resolution.strip())
    return [(block.partition("==")[0], block) for block in blocks]


def run(*command: str) -> str:
    """Run a command in the project's root and return what it printed; its errors pass through."""
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


if __name__ == "__main__":
    main()
