"""Checks the text of a file as a whole, and says all that is wrong with it at once."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headgate.config.error_text import dotted, label, not_toml, shown
from headgate.config.parsed_config import GRACE, Config, Retention
from headgate.config.pool import judge_pool, read_defaults, read_pool
from headgate.config.problems import Notes, each_table, read_table, wrong_at
from headgate.core.admission.pools import DEFAULTS, Declared
from headgate.core.agents.run_limits import JobPolicy
from headgate.core.key_patterns import HOST, parse_pattern
from headgate.core.quantities import parse_duration
from headgate.core.server_settings import ServerSettings
from headgate.core.table_fields import TIME, Field, Fields
from headgate.core.times import Ms
from headgate.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from headgate.core.answers.answer_rules import Rule
    from headgate.core.notification_targets import NotifyTarget

TABLES: Fields = {
    "pools": Field(
        None, "a table", text="The limits: a table for each pool, as in [pools.anthropic]."
    ),
    "defaults": Field(
        None, "a table", text="What counts for every pool but host that does not say otherwise."
    ),
    "classify": Field(
        None,
        "rules",
        text="Rules for answers, tried in turn before the built-in ones.",
    ),
    "run": Field(None, "a table", text="How agents are run."),
    "jobs": Field(
        None, "a table", text="When agents of jobs are ended, and what becomes of their jobs."
    ),
    "profiles": Field(
        None,
        "a table",
        text="What is known of agents: a table for each, as in [profiles.claude].",
    ),
    "notify": Field(None, "targets", text="Who is told of what happens."),
    "server": Field(None, "a table", text="Where the server listens, and whom it answers."),
    "store": Field(None, "a table", text="How much the store keeps of what is over."),
    "templates": Field(
        None,
        "a table",
        text="Commands that jobs can be made of over HTTP, as in [templates.review].",
    ),
}
RUN: Fields = {
    "grace": Field(
        parse_duration,
        TIME,
        '"10s"',
        "How long an agent that is ended may tidy up before it is killed.",
    )
}


def parse(text: str, name: str) -> Config:
    """Check the text of a file called `name`; raise one ConfigError with all that is wrong."""
    import tomllib

    text = text.removeprefix("\ufeff")  # some editors begin a file with a byte order mark
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(not_toml(text, name, str(error))) from None
    except (ValueError, RecursionError):  # Python's own limits, met before TOML's
        raise ConfigError(
            f"{label(name)}: a number is too long or tables are nested too deeply; "
            "expected what `headgate init` writes"
        ) from None
    notes = Notes(text, name)
    notes.check_names((), document, tuple(TABLES))
    defaults = read_defaults(notes, ("defaults",), notes.table((), document, "defaults"))
    pools = _read_pools(notes, document, defaults)
    rules = read_rules(notes, document)
    grace = _read_grace(notes, document)
    jobs = _read_jobs(notes, document)
    profiles = _read_profiles(notes, document)
    targets = _read_notify(notes, document)
    server = _read_server(notes, document)
    store = _read_store(notes, document)
    if notes.errors:
        raise ConfigError("\n".join(notes.lines(notes.errors)))
    warnings = notes.lines(notes.warnings)
    return Config(
        path=None,
        pools=pools,
        grace=grace,
        warnings=warnings,
        defaults=defaults,
        classify=rules,
        jobs=jobs,
        profiles=profiles,
        notify=targets,
        server=server,
        store=store,
    )


def _read_grace(notes: Notes, document: Mapping[str, object]) -> Ms:
    run = notes.table((), document, "run")
    grace: Ms = read_table(notes, ("run",), run, RUN).get("grace", GRACE)
    if grace < 1_000:
        notes.warn(("run", "grace"), "hardly time for an ended agent to save its work; 10s is")
    return grace


def _read_jobs(notes: Notes, document: Mapping[str, object]) -> JobPolicy:
    if "jobs" not in document:
        return JobPolicy()
    from headgate.config.jobs import read_jobs

    return read_jobs(notes, document)


def _read_profiles(
    notes: Notes, document: Mapping[str, object]
) -> Mapping[str, Mapping[str, object]]:
    if "profiles" not in document:
        return {}
    from headgate.config.profiles import read_profiles

    return read_profiles(notes, document)


def _read_notify(notes: Notes, document: Mapping[str, object]) -> "tuple[NotifyTarget, ...]":
    if "notify" not in document:
        return ()
    from headgate.config.notify import read_notify

    return read_notify(notes, document)


def _read_server(notes: Notes, document: Mapping[str, object]) -> ServerSettings:
    if "server" not in document and "templates" not in document:
        return ServerSettings()
    from headgate.config.server import read_server

    return read_server(notes, document)


def _read_store(notes: Notes, document: Mapping[str, object]) -> Retention:
    if "store" not in document:
        return Retention()
    from headgate.config.store import read_store

    return read_store(notes, document)


def _read_pools(
    notes: Notes, document: Mapping[str, object], defaults: Declared
) -> dict[str, Declared]:
    tables = notes.table((), document, "pools")
    spelled: dict[str, str] = {}
    pools = {}
    for name in tables:
        place = ("pools", name)
        table = notes.table(("pools",), tables, name)
        try:
            pattern = parse_pattern(name)
        except UsageError as error:
            notes.wrong(place, str(error))
            read_pool(notes, place, table)
            continue
        pool = read_pool(notes, place, table, host=pattern == HOST)
        if pattern in spelled:
            other = dotted(("pools", spelled[pattern]))
            notes.wrong(place, f"is the same pool as {other}; keep one of the two tables")
            continue
        spelled[pattern] = name
        pools[pattern] = pool
        judge_pool(notes, place, pool, DEFAULTS.get(pattern, Declared()), defaults)
    return pools


def read_rules(notes: Notes, document: Mapping[str, object]) -> "tuple[Rule, ...]":
    """The rules by which answers are read before the built-in ones."""
    if "classify" not in document:
        return ()
    from headgate.core.answers.answer_rules import FIELDS, read_rule

    rules = []
    for place, entry in each_table(notes, ("classify",), document["classify"]):
        notes.check_names(place, entry, tuple(FIELDS))
        rules.append(read_rule(entry, f"entry {place[-1]}", wrong_at(notes, place), shown))
    return tuple(rules)
