"""How to install what is missing: into the Python that runs this, however headgate got there.

What is named can be had from a package index. headgate itself may have come from a clone or a
wheel, so nobody is told to install that again for the sake of an extra.
"""

import sys

EXTRAS = {
    "sim": ("aiohttp>=3.11", "matplotlib>=3.9"),
    "notify": ("apprise>=2.2",),
    "server": ("fastapi>=0.115", "uvicorn>=0.34", "uvloop>=0.21"),
}
"""What the extras of headgate consist of, as pyproject.toml says it."""


def install(*requirements: str) -> str:
    """The command that installs some packages beside headgate."""
    listed = " ".join(f"'{one}'" for one in requirements)
    if "/pipx/venvs/" in sys.prefix:
        return f"pipx inject headgate {listed}"
    if "/uv/tools/" in sys.prefix:
        return f"uv pip install --python {sys.executable} {listed}"
    return f"{sys.executable} -m pip install {listed}"


def install_extra(extra: str) -> str:
    """The command for what an extra consists of."""
    return install(*EXTRAS[extra])
