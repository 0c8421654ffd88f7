"""What paths, queries and bodies are made of. Names are checked by the same functions as elsewhere.

What the OpenAPI says of a name is a little narrower than what those take, and is exact: who keeps
to it is never told that a name is wrong.
"""

from collections.abc import Callable
from typing import Annotated, Literal

from fastapi import Path, Query
from pydantic import AfterValidator, Field

from headgate.api.schemas import MOST_ID
from headgate.core.key_patterns import parse_key, parse_pattern
from headgate.core.quantities import MOST, parse_task
from headgate.errors import UsageError

_LETTERS = r"\u00c0-\u024f\u0400-\u045f\u4e00-\u9fef"
_MODEL = rf"[A-Za-z0-9.:_@+\[\]()~#$%&!<>^{{}}{_LETTERS}-]{{1,40}}"
_GLOB = _MODEL.replace("[A-Z", "[*?A-Z", 1)
KEY = rf"^(?![Hh][Oo][Ss][Tt]/)[A-Za-z0-9][A-Za-z0-9._@+-]{{0,30}}/{_MODEL}(/{_MODEL}){{0,3}}$"
POOL = (
    r"^(?![Hh][Oo][Ss][Tt]/)[A-Za-z0-9*?][A-Za-z0-9._@+*?-]{0,30}"
    rf"(/{_GLOB}(/{_GLOB}){{0,3}})?$"
)
LINE = rf"^([!-~{_LETTERS}]([ -~{_LETTERS}]{{0,198}}[!-~{_LETTERS}])?)?$"
"""One printable line."""
SOME_LINE = rf"^[!-~{_LETTERS}]([ -~{_LETTERS}]{{0,198}}[!-~{_LETTERS}])?$"
NO_NULL = r"^[^\u0000]*$"


def _checked(parse: Callable[[str], object]) -> AfterValidator:
    """As another function checks it, and as it was given."""

    def check(text: str) -> str:
        try:
            parse(text)
        except UsageError as error:
            raise ValueError(str(error)) from None
        return text

    return AfterValidator(check)


def _no_null(text: str) -> str:
    if "\0" in text:
        raise ValueError("it has a null character")
    return text


Word = Annotated[
    str,
    AfterValidator(_no_null),
    Field(max_length=30_000, json_schema_extra={"pattern": NO_NULL}),
]
"""What a program can be given."""
PoolName = Annotated[
    str,
    _checked(parse_pattern),
    Path(
        description="`host`, PROVIDER, or PROVIDER/MODEL in which * stands for any text",
        examples=["anthropic/claude-opus-*"],
        json_schema_extra={"pattern": POOL},
    ),
]
Key = Annotated[
    str,
    _checked(parse_key),
    Field(json_schema_extra={"pattern": KEY}, examples=["anthropic/claude-opus-4-6"]),
]
Pattern = Annotated[
    str,
    _checked(parse_pattern),
    Field(json_schema_extra={"pattern": POOL}, examples=["*/claude-opus-*"]),
]
Line = Annotated[str, _checked(parse_task), Field(json_schema_extra={"pattern": LINE})]
SomeLine = Annotated[
    str,
    _checked(parse_task),
    Field(min_length=1, json_schema_extra={"pattern": SOME_LINE}, examples=["oracle-2"]),
]
Priority = (
    Annotated[int, Field(ge=-MOST, le=MOST, examples=[0])]
    | Literal["interactive", "normal", "background"]
)
Weight = Annotated[int, Field(ge=1, le=MOST)]
Roles = Annotated[
    list[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")]],
    Field(max_length=8, examples=[["reviewer"]]),
]
Duration = Annotated[
    float, Field(ge=0, le=366 * 86_400, allow_inf_nan=False, description="Seconds.")
]
JobId = Annotated[int, Path(ge=1, le=MOST_ID, examples=[31])]
Size = Annotated[int, Query(ge=1, le=1_000, description="How many at most.")]
Page = Annotated[int, Query(ge=1, le=1_000_000)]
