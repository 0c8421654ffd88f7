"""The OpenAPI says what is true, and the page that shows it loads nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.support import Server

SETTINGS = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 401, 403, 404, 409, 410, 429, "5xx"]
"""
"""What is too long may be refused for its length, and a client that has left is gone (410)."""
EXAMPLES = os.environ.get("HEADGATE_SCHEMATHESIS", "1")
"""How many each operation is tried with; more by hand."""


@pytest.mark.timeout(0)
def test_schemathesis_finds_nothing(shared: Server, tmp_path: Path) -> None:
    """Every check is on, for every operation that ends by itself."""
    token = shared.token("admin", "--name", "schemathesis")
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    phases = "examples,fuzzing" if EXAMPLES == "1" else "examples,coverage,fuzzing,stateful"
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            *("run", f"{shared.url}/v1/openapi.json", "--checks", "all", "--phases", phases),
            *("--exclude-path", "/v1/events/stream", "--max-examples", EXAMPLES),
            *("--header", f"Authorization: Bearer {token}", "--header", "Via: 1.1 schemathesis"),
            *("--request-timeout", "10", "--no-color", "--generation-database", ":memory:"),
        ],
        cwd=tmp_path,
        env={**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path / "hypothesis")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8_000:]


def test_every_operation_says_what_it_needs_and_takes(shared: Server) -> None:
    """A scope, a sentence, problems for failures, and an example for each body."""
    found = shared.get("/v1/openapi.json").json
    for path, item in found["paths"].items():
        for method, operation in item.items():
            assert operation["x-headgate-scope"] in {"read", "submit", "admin"}
            assert operation["description"], (method, path)
            if method == "get":
                assert operation["x-headgate-scope"] != "admin"
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    assert "application/problem+json" in answer["content"]


def test_the_page_loads_nothing_from_elsewhere(shared: Server) -> None:
    """All of it is from here, and its policy allows nothing else."""
    page = shared.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.body.decode())
    assert loaded
    assert all(target.startswith("/") and not target.startswith("//") for target in loaded)
    for target in loaded:
        found = shared.get(target)
        assert found.status == 200
        assert b"https://" not in found.body or target.endswith(".json")
        assert "default-src 'none'" in page.headers["content-security-policy"]
    assert shared.get("/docs", Via="x").status == 200
    assert shared.get("/v1/openapi.json", Via="x").status == 200
