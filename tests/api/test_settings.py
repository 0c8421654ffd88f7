"""The tables [server] and [templates] of the configuration."""

from pathlib import Path

import pytest

from headgate.config import load
from headgate.core.server_settings import Scope, ServerSettings, Template
from headgate.errors import ConfigError


def read(tmp_path: Path, text: str) -> ServerSettings:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load(path).server


def test_what_is_not_said_is_the_default(tmp_path: Path) -> None:
    """Loopback only, nothing open, nobody listed."""
    found = read(tmp_path, "")
    assert found == ServerSettings()
    assert found.listen.startswith("127.0.0.1:")
    assert (found.open, found.hosts, found.origins) == ((), (), ())


def test_all_that_can_be_said(tmp_path: Path) -> None:
    """A list or one text; of a template all fields but its command are kept for its jobs."""
    found = read(
        tmp_path,
        """
[server]
listen = "[::1]:0"
open = "/concurrency"
hosts = ["build.example.com"]
origins = ["http://localhost:5173"]
certificate = "/a"
key = "/b"
only_templates = true
connections = 10
[templates.review]
command = ["claude", "{what}"]
cwd = "/srv"
""",
    )
    assert (found.open, found.hosts) == (("/concurrency",), ("build.example.com",))
    assert found.templates == {"review": Template(("claude", "{what}"), {"cwd": "/srv"})}
    assert found.only_templates


@pytest.mark.parametrize(
    "line",
    [
        'listen = "7433"',
        'listen = "localhost:99999"',
        'listen = "unix:"',
        'open = ["/v1"]',
        'open = ["/"]',
        'hosts = ["http://a"]',
        "hosts = [7]",
        'origins = ["*"]',
        'origins = ["http://a/b"]',
        'origins = ["null"]',
        'certificate = "/a"',
        'key = "relative"',
        "connections = 1",
        'tokens = "hg_secret"',
        "[templates.a]\nkey = 'a/b'",
        "[templates.a]\ncommand = 'sh -c id'",
        "[templates.a]\ncommand = []",
        "[templates.a]\ncommand = ['']",
        "[templates.'a b']\ncommand = ['a']",
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, line: str) -> None:
    """With the file, the key and what is allowed."""
    with pytest.raises(ConfigError, match=r"config\.toml.*(server|templates)"):
        read(tmp_path, f"[server]\n{line}\n")


def test_each_scope_covers_those_before_it() -> None:
    """Admin may do what submit may, and that what read may."""
    for at, scope in enumerate(Scope):
        assert [scope.covers(other) for other in Scope] == [n <= at for n in range(3)]
