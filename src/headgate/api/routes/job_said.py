"""What a job is told to be over HTTP: the fields of `headgate submit --batch`, with their types.

A job is a command, or made of a template of the configuration. Over HTTP nothing is taken from the
server's own environment or folder.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from headgate.api.problems import Problem
from headgate.api.routes.parameters import (
    Duration,
    Key,
    Line,
    Priority,
    Roles,
    SomeLine,
    Weight,
    Word,
)
from headgate.api.routing import Caller, is_bound
from headgate.api.schemas import Asked, Id
from headgate.core.agents.meters import METERS
from headgate.core.server_settings import ServerSettings, Template
from headgate.gate.submit_jobs import LONGEST_INPUT

_PLACE = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
_FREE = frozenset(
    {"template", "arguments", "task", "name", "priority", "after", "hold", "since", "expires"}
)
"""What everybody may say of a job that is made of a template."""
_TIME = Annotated[float, Field(ge=0.001, le=366 * 86_400)]
_Count = Annotated[int, Field(ge=1, le=10**9)]
_Off = Literal["off"]
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
TemplateName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")]
Meter = Literal["agent", "wire", "requests"]
assert set(Meter.__args__) == set(METERS)  # type: ignore[attr-defined]  # noqa: S101 - a slip


class JobSaid(Asked):
    """A job: a command, or a template and its arguments; times are in seconds."""

    command: (
        Annotated[
            list[Word],
            Field(min_length=1, max_length=1_000, examples=[["claude", "-p", "fix the tests"]]),
        ]
        | None
    ) = None
    template: TemplateName | None = None
    arguments: dict[Name, Word] = Field(default={}, max_length=100)
    key: Key | None = None
    models: list[Key] = Field(default=[], max_length=20)
    """Of which it gets the first that has room."""
    task: Line | None = None
    name: Line | None = None
    priority: Priority | None = None
    weight: Weight | None = None
    since: Annotated[float, Field(ge=100_000_000, le=10**10)] | None = None
    cwd: Annotated[str, Field(max_length=4_000, pattern=r"^/[^\x00]*$")] | None = None
    env: dict[Name, Word] = Field(default={}, max_length=1_000)
    after: list[Id | SomeLine] = Field(default=[], max_length=1_000)
    roles: Roles = Field(default=[])
    hold: bool = False
    confirm: bool = False
    confirm_within: _TIME | None = None
    expires: _TIME | Literal["never"] | None = None
    retries: Annotated[int, Field(ge=0, le=999)] | None = None
    escalate: bool = False
    fallback_after: _TIME | _Off | None = None
    attempts: Annotated[int, Field(ge=1, le=1_000)] | None = None
    grace: Duration | None = None
    stdin: Annotated[str, Field(max_length=LONGEST_INPUT // 4)] | None = None
    meter: Meter | None = None
    queue_timeout: _TIME | None = None
    park: bool | None = None
    patience: _TIME | None = None
    stale_after: _TIME | _Off | None = None
    message_stale_after: _TIME | _Off | None = None
    max_runtime: _TIME | _Off | None = None
    max_tool_calls: _Count | _Off | None = None
    same_tool_calls: _Count | _Off | None = None
    check_command: Annotated[
        bool, Field(description="Refuse a folder or a program that is not there.")
    ] = True

    def fields(self, settings: ServerSettings, caller: Caller) -> dict[str, Any]:
        """As `work/job_fields` reads it; raises a Problem for what its caller may not say."""
        said = self.model_dump(exclude_unset=True, exclude_none=True)
        if (self.command is None) == (self.template is None):
            raise Problem("refused", "give either a command or a template", exit_code=2)
        _check_may(caller, settings, set(said), self.template)
        for name in ("template", "arguments", "check_command"):
            said.pop(name, None)
        if self.template is not None:
            made = settings.templates.get(self.template)
            if made is None:
                text = f"there is no template {self.template}; /v1/templates lists them"
                raise Problem("refused", text, exit_code=2)
            said = {**made.fields, **said, "command": fill(made, self.arguments)}
        said.setdefault("cwd", str(Path.home()))
        for name in ("after", "models", "roles"):  # none is said by leaving it out
            if not said.get(name):
                said.pop(name, None)
        return said


def _check_may(
    caller: Caller, settings: ServerSettings, said: set[str], template: str | None
) -> None:
    if not is_bound(caller, settings):
        return
    if template is None:
        names = ", ".join(caller.templates or settings.templates) or "none is configured"
        raise Problem("only_templates", f"give a template: {names}", exit_code=125)
    if caller.templates and template not in caller.templates:
        text = f"the token is for other templates: {', '.join(caller.templates)}"
        raise Problem("only_templates", text, exit_code=125)
    if more := said - _FREE:
        text = f"a template says these itself: {', '.join(sorted(more))}"
        raise Problem("only_templates", text, exit_code=125)


def places(template: Template) -> list[str]:
    """The arguments of a template, as they come in its command."""
    found = [name for word in template.command for name in _PLACE.findall(word)]
    return [name for name in dict.fromkeys(found) if name != "model"]


def fill(template: Template, arguments: dict[str, str]) -> list[str]:
    """The command with each argument in its place. No shell looks at it.

    An argument cannot become an option: where it begins a word, it may not begin with a dash.
    """
    wanted = places(template)
    if set(arguments) != set(wanted):
        expected = ", ".join(wanted) or "none"
        raise Problem("refused", f"bad arguments: the template takes {expected}", exit_code=2)
    words = []
    for word in template.command:
        first = _PLACE.match(word)
        if first and arguments.get(first[1], "").startswith("-"):
            text = f"bad argument {first[1]}: it begins with a dash, and would be an option"
            raise Problem("refused", text, exit_code=2)
        words.append(_PLACE.sub(lambda place: arguments.get(place[1], place[0]), word))
    return words
