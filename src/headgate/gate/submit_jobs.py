"""The face for those who hand in work: submit, hold, move, retry, and see what became of it."""

import os
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headgate.core.display.snapshots import AttemptStatus, JobStatus
from headgate.core.jobs.job import Spec, load
from headgate.core.jobs.states import Word
from headgate.core.key_patterns import NO_KEY, parse_key
from headgate.core.printable_text import printable
from headgate.core.quantities import (
    parse_duration,
    parse_priority,
    parse_task,
    parse_weight,
    priority_class,
    shown,
)
from headgate.core.roles import parse_roles, uses
from headgate.core.times import NO_TIME, Ms, Seconds
from headgate.errors import UsageError
from headgate.gate.process_runtime import Runtime
from headgate.gate.transactions.operation import Operation
from headgate.gate.wait_for_jobs import JobWait
from headgate.ledger import tokens, unplaced
from headgate.ledger.admission import admit
from headgate.ledger.jobs import by_hand, lifecycle
from headgate.ledger.jobs.lifecycle import Draft
from headgate.ledger.queries import job_queries
from headgate.ledger.queries.work_filter import ALL, WorkFilter
from headgate.ledger.transaction.ledger import Ledger

if TYPE_CHECKING:
    from pathlib import Path

EXPIRES = "24h"
_LONGEST_WORD = 128 * 1024 - 1
_LONGEST = 1024 * 1024
LONGEST_INPUT = 128 * 1024
"""How many bytes of input are kept for a job: it is part of its row, as its command is."""
_MANY = 500
"""Beyond so many jobs at once nobody is told of each one's place in the line."""
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def draft(
    command: Sequence[str],
    *,
    key: str | None = None,
    models: Sequence[str] = (),
    task: str | None = None,
    name: str | None = None,
    priority: str | int | None = None,
    since: Ms = NO_TIME,
    weight: int | str = 1,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    after: Sequence[int] = (),
    hold: bool = False,
    roles: str | Sequence[str] = (),
    expires: float | str | None = EXPIRES,
    stdin: str | bytes | None = None,
    view: str = "",
    **more: Any,  # noqa: ANN401 - the rest of a Spec, as it is
) -> Draft:
    """A job to be handed in, with all that is said of it checked."""
    words = _words(command)
    keys = tuple(parse_key(model) for model in models)
    if keys and key is None:
        key = keys[0]
    spec = Spec(
        argv=words,
        cwd=os.path.abspath(_text(cwd or ".", "cwd")),  # noqa: PTH100 - any text
        env=_environment(env or {}),
        view=view,
        expires=None if expires in (None, "never") else parse_duration(expires, "expires") or Ms(1),
        models=keys,
        stdin=_input(stdin),
        **more,
    )
    label = os.path.basename(words[0]) or words[0]  # noqa: PTH119 - any text
    return Draft(
        spec,
        key=parse_key(key) if key else NO_KEY,
        urgency=-parse_priority(priority),
        since=since,
        weight=parse_weight(weight),
        task=parse_task(task),
        name=parse_task(name, "name"),
        label=printable(label, "?")[:60],
        after=tuple(dict.fromkeys(after)),
        hold=hold,
        roles=parse_roles(roles),
    )


def _words(command: Sequence[str]) -> tuple[str, ...]:
    words = tuple(command)
    if not words or not words[0]:
        raise UsageError("no program given: headgate submit [options] -- CMD...")
    for word in words:
        if len(os.fsencode(_text(word, "command"))) > _LONGEST_WORD:
            raise UsageError("bad command: a word of more than 128 KiB; put it into a file instead")
    if sum(map(len, words)) > _LONGEST:
        raise UsageError("bad command: more than 1 MiB of words; put them into a file instead")
    return words


def _input(stdin: str | bytes | None) -> str | None:
    """What a job's program is to read, as it is kept."""
    if stdin is None:
        return None
    try:
        data = stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else stdin
    except UnicodeEncodeError:  # half a character, as JSON can have it
        raise UsageError("bad stdin: it is no text that a program can be given") from None
    if len(data) > LONGEST_INPUT:
        raise UsageError(
            f"bad stdin: more than {LONGEST_INPUT // 1024} KiB; put it into a file, and have the "
            "command read that"
        )
    return data.decode("utf-8", "surrogateescape")


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not _ENV_NAME.match(name):
            raise UsageError(f"bad --env {shown(name)}: expected NAME=VALUE")
        if len(os.fsencode(_text(value, f"--env {name}", secret=True))) > _LONGEST_WORD:
            raise UsageError(f"bad --env {name}: a value of more than 128 KiB")
    return dict(env)


def _text(text: str, what: str, *, secret: bool = False) -> str:
    """A text that can be handed to a program."""
    try:
        fits = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:  # half a character, as JSON can have it
        fits = False
    if not fits:
        said = "its value" if secret else shown(text)
        raise UsageError(f"bad {what}: {said} is no text that a program can be given")
    return text


class _Submission(Operation):
    """Jobs that are handed in together: all of them, or none."""

    def __init__(self, drafts: Sequence[Draft], asked: tokens.Once | None) -> None:
        super().__init__(lambda _: None)
        self._drafts = drafts
        self._once = asked
        self._known = True
        self._ids: list[int] = []

    def apply(self, ledger: Ledger) -> None:
        """Keep them, unless that was done before."""
        self._known = True
        self._ids = tokens.once(ledger, self._once, lambda: self._submit(ledger))

    def _submit(self, ledger: Ledger) -> list[int]:
        self._known = False
        lifecycle.require(ledger, [id for one in self._drafts for id in one.after if id > 0])
        for one in self._drafts:
            for key in one.spec.models or (one.key,):
                used = uses(key, one.roles)
                needs, _ = ledger.needs(used, ledger.machine, one.weight, view=one.spec.view)
                admit.refuse_too_heavy(needs, priority_class(-one.urgency), one.weight)
        self._ids = []  # known while they grow: a later job may come after an earlier one
        for one in self._drafts:  # a negative number stands for an earlier one of these
            after = (id if id > 0 else self._ids[-id - 1] for id in one.after)
            self._ids.append(lifecycle.submit(ledger, one._replace(after=tuple(after))))
        return self._ids

    def conclude(self, ledger: Ledger) -> None:
        """See where they stand."""
        rows = [row for id in self._ids if (row := ledger.tx.job(id)) is not None]
        self.result = job_queries.some(ledger, rows, Seconds(time.time()), spots=len(rows) <= _MANY)
        if not self._known:
            unplaced.tell_places(ledger, self.result)

    def undone(self) -> None:
        """Nothing was kept."""
        self._ids = []
        self.result = None


class Jobs:
    """The jobs of a store."""

    def __init__(self, runtime: Runtime, view: str, lease: Callable[[], int]) -> None:
        store = runtime.store
        if store.folder is None:
            raise UsageError(
                f"jobs have to outlive their process, which the store {store.url} does not; "
                "use one in a file: --store sqlite:///path"
            )
        self._store = store
        self._runtime = runtime
        self._transactor = runtime.transactor
        self._view = view
        self._lease = lease

    @property
    def folder(self) -> "Path":
        """Where the output of jobs is kept."""
        members = self._store.folder
        assert members is not None  # noqa: S101 - checked when this was made
        return members.with_name(members.name.removesuffix(".members") + ".logs")

    def make_folder(self) -> "Path":
        """The same folder, which is there now and is ours."""
        from headgate.store.trusted_paths import make_folder

        make_folder(self.folder, shared=self._store.shared)
        return self.folder

    def submit(self, drafts: Sequence[Draft], once: tokens.Once | None = None) -> list[JobStatus]:
        """Hand in jobs; durable when this returns, all of them or none.

        Jobs that were handed in `once` are not handed in again: they are told as they are now.
        """
        own = [one._replace(spec=one.spec._replace(view=self._view)) for one in drafts]
        return list(self._transactor.perform(_Submission(own, once)))

    def status(self, id: int) -> JobStatus:
        """One job."""
        found = self._transactor.read(
            lambda ledger: job_queries.job(ledger, id, Seconds(time.time()))
        )
        if found is None:
            raise UsageError(f"there is no job {id}; see headgate queue --all")
        return found

    def attempts(self, id: int) -> tuple[AttemptStatus, ...]:
        """The attempts of a job."""
        return self._transactor.read(
            lambda ledger: job_queries.attempts(ledger, id, Seconds(time.time()))
        )

    def command(self, id: int) -> tuple[str, ...]:
        """The command of a job, to find out what kind of agent it starts; it is shown nowhere."""
        row = self._transactor.read(lambda ledger: ledger.tx.job(id))
        return () if row is None else load(row.spec).argv

    def finished(self, most: int = 100) -> list[JobStatus]:
        """The jobs that ended last, latest first."""
        return self._transactor.read(
            lambda ledger: job_queries.finished(ledger, Seconds(time.time()), most)
        )

    def page(
        self,
        states: Sequence[Word] = tuple(Word),
        *,
        after: int = 0,
        most: int = 100,
        wanted: WorkFilter = ALL,
    ) -> tuple[list[JobStatus], int]:
        """Jobs by id, after one; and after which to go on, 0 at the end."""
        return self._transactor.read(
            lambda ledger: job_queries.page(
                ledger, Seconds(time.time()), states, after=after, most=most, wanted=wanted
            )
        )

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state that any is in."""
        return self._transactor.read(job_queries.counts)

    def hold(self, id: int) -> None:
        """Take a waiting job out of the line until it is let go."""
        self._transactor.run(partial(by_hand.hold, id=id))

    def let_go(self, id: int) -> None:
        """Let a held job into the line."""
        self._transactor.run(partial(by_hand.release_job, id=id))

    def move(self, id: int, *, priority: str | int | None = None, first: bool = False) -> None:
        """Give a waiting job another priority, or put it before all others of its priority."""
        urgency = None if priority is None else -parse_priority(priority)
        self._transactor.run(partial(by_hand.move, id=id, urgency=urgency, first=first))

    def retry(self, id: int) -> None:
        """Put a job that has ended into the line again."""
        self._transactor.run(partial(by_hand.retry, id=id))

    def wait(self, id: int, timeout: float | None = None) -> JobStatus:
        """Wait until a job has ended; as it is then, or when the time is up.

        Under a lease (in a `with gate.slot`, or in a program that headgate started), the lease's
        seats are lent to the job meanwhile.
        """
        (found,) = self.wait_each([id], timeout)
        return found

    def wait_each(
        self, ids: Sequence[int], timeout: float | None = None
    ) -> Generator[JobStatus, None, None]:
        """Wait for several jobs: each when it has ended, in the order given."""
        return JobWait(self._runtime, self._lease(), ids).each(timeout)

    async def wait_async(self, id: int, timeout: float | None = None) -> JobStatus:  # noqa: ASYNC109 - as `wait`
        """The same as `wait`, without blocking the event loop."""
        return await JobWait(self._runtime, self._lease(), [id]).one(timeout)
