"""The SQLite files' SQL: numbered migrations and named queries, read from `sql/`.

Each migration says in its head which processes can go on while it is applied under them:

    -- lives with: 3

means that processes which know schema 3 or later do. See "Upgrading" in docs/design.md.

Migrations from 4 on are in `sql/later`. A process of schema 3 reads the folder `sql` whenever it
opens a store. If a newer version was installed over it, it finds the newer version's files there
and applies all that it finds: so 1 to 3 must stay there, and no other may be put beside them.
"""

from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path

from headgate.core.named_tuple import NamedTuple
from headgate.errors import StoreError

_FOLDER = Path(__file__).with_name("sql")
FOLDERS = (_FOLDER, _FOLDER / "later")
_LIVES_WITH = "-- lives with: "


class Migration(NamedTuple):
    """One step of the tables' layout."""

    schema: int
    """The schema that it leads to."""
    lives_with: int
    """The oldest schema whose processes can go on using the store after it."""
    script: str


def migrations(folders: Iterable[Path] = FOLDERS) -> tuple[Migration, ...]:
    """Every migration in order."""
    files = [path for folder in folders for path in folder.iterdir() if path.name[:4].isdecimal()]
    steps = [_read(path) for path in sorted(files, key=lambda path: path.name)]
    numbers = [step.schema for step in steps]
    if not numbers or numbers != list(range(1, len(numbers) + 1)):
        raise StoreError(
            f"headgate's migrations in {_FOLDER} are {numbers or 'missing'}, expected 1, 2, 3 and "
            "so on; install headgate again"
        )
    return tuple(steps)


def _read(path: Path) -> Migration:
    text, number = path.read_text(), int(path.name[:4])
    head = takewhile(lambda line: line.startswith("--"), text.splitlines())
    said = [line.removeprefix(_LIVES_WITH) for line in head if line.startswith(_LIVES_WITH)]
    oldest = int(said[0]) if len(said) == 1 and said[0].isdecimal() else 0
    if not 1 <= oldest <= number:
        raise StoreError(
            f"the migration {path} does not say which processes it lives with: expected one line "
            f"'-- lives with: N' in its head, with N from 1 to {number}"
        )
    return Migration(number, oldest, text)


def queries() -> Mapping[str, str]:
    """Every named query."""
    text = (_FOLDER / "queries.sql").read_text()
    parts = (part.partition("\n") for part in text.split("\n-- name: ")[1:])
    return {name: query.strip() for name, _, query in parts}
