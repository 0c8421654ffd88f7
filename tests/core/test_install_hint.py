"""What is told to whom something is missing that can be installed."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from headgate.core.install_hint import EXTRAS, install, install_extra

ROOT = Path(__file__).parents[2]


def test_extras_are_those_of_the_project() -> None:
    """Each is named with what it consists of, since headgate itself may be on no index."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, listed in EXTRAS.items():
        assert list(listed) == project["optional-dependencies"][name]
        assert "headgate[" not in install_extra(name)


@pytest.mark.parametrize(
    "prefix, command",
    [
        ("/home/me/.local/share/pipx/venvs/headgate", "pipx inject headgate 'x>=1'"),
        ("/home/me/.local/share/uv/tools/headgate", "uv pip install --python "),
        ("/home/me/venv", f"{sys.executable} -m pip install 'x>=1'"),
    ],
)
def test_the_command_is_for_this_installation(
    prefix: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pipx or uv look after it, theirs; else pip of this very Python."""
    monkeypatch.setattr(sys, "prefix", prefix)
    assert install("x>=1").startswith(command)


def test_no_text_tells_to_install_from_where_it_is_not() -> None:
    """Neither the code nor the docs name an index on which headgate would be."""
    for folder, kind in (("src", "*.py"), ("docs", "*.md"), (".", "README.md")):
        for path in (ROOT / folder).rglob(kind) if folder != "." else [ROOT / kind]:
            text = path.read_text(encoding="utf-8")
            found = re.search(r"(?:pip|pipx|uv tool) install '?headgate(?![-\w./])", text)
            assert found is None, path
