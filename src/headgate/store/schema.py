"""The SQLite files' SQL: numbered migrations and named queries, read from `sql/`."""

import re
from collections.abc import Mapping
from pathlib import Path

_FOLDER = Path(__file__).with_name("sql")


def migrations() -> list[tuple[int, str]]:
    """Every migration in order, with the schema version it leads to."""
    files = sorted(_FOLDER.glob("[0-9][0-9][0-9][0-9]_*.sql"))
    return [(int(path.name[:4]), path.read_text()) for path in files]


def queries() -> Mapping[str, str]:
    """Every named query."""
    text = (_FOLDER / "queries.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return {name: query.strip() for name, query in zip(parts[1::2], parts[2::2], strict=True)}
