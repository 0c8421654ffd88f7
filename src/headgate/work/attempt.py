"""One runner, one attempt: start the program, watch it, end it, tell how it ended.

The program writes its log by itself. Four times a second the runner reads what is new there: a
line by which the program tells of a rate limit becomes a signal to its pools at once, and if only
such lines follow, the program is ended and its job parked (see `headgate.core.agents.agent_watch`).
"""

import os
import signal
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate import config
from headgate.config.profiles import all_profiles
from headgate.core.admission.setting_precedence import parse_view
from headgate.core.agents.agent_watch import AgentWatch, RunLimits, fit_to_show
from headgate.core.agents.find_profile import Profile, resume, session, writes_events
from headgate.core.agents.given_session import is_since, session_id, takes_one, with_session
from headgate.core.agents.output_lines import tells_no_session
from headgate.core.jobs.job import UNREADABLE, AttemptOutcome, End, command, exit_text, load
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import NO_TIME, Ms, Seconds, ms, seconds
from headgate.errors import HeadgateError, StoreUntrustedError
from headgate.gate import Gate, Lease
from headgate.gate.liveness.preload_modules import PACKAGES, preload
from headgate.gate.liveness.process_marks import MARK, carriers, end, family
from headgate.gate.worker_jobs import Taken
from headgate.runner.child import MINDED, Child
from headgate.store import open_store
from headgate.wire.hear_wire import hear_wire
from headgate.wire.supervise import Wire, take_over
from headgate.work.agent_version import agent_version
from headgate.work.end_causes import Cause, EndAsked, Stopped, as_caused, asked
from headgate.work.log_file import Tail, log_path, open_log, trim
from headgate.work.lost_attempt import LOST, had_finished, read_again
from headgate.work.refusal_news import RefusalNews
from headgate.work.standard_streams import hand_in, redirect
from headgate.work.start_program import start_program

if TYPE_CHECKING:
    from headgate.core.jobs.job import Spec

_LOOK = Seconds(0.25)
_READING = Seconds(1.0)
"""For how long a runner reads without looking whether the program must be ended."""
_FEW_LINES = 30
"""An agent that says that its session is not there says hardly more."""
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class WatchedOutput(NamedTuple):
    """What a runner has to know of the program that it looks after."""

    agent_watch: AgentWatch
    tail: Tail
    log: int
    log_size: int
    ours: bool = False
    """Whether the program writes through our own stdout and stderr."""
    wire: Wire | None = None

    def close(self) -> None:
        """Let go of the log."""
        self.tail.close()
        os.close(self.log)


class Start(NamedTuple):
    """A command, with what is known of its session before it has said a word."""

    argv: list[str]
    session: str
    resumes: bool = False


def run_order(order: dict[str, Any]) -> None:
    """Run a job that a worker was given, or go on with one whose runner was killed."""
    runner = Runner(order["store"])
    runner.run(int(order["job"]), str(order["worker"]), adopt=bool(order.get("adopt")))


_settings: "list[config.Watched]" = []
"""The configuration, as it was when it was last good: a broken file stops no job."""


def warm(path: Path | None) -> None:
    """Load what every runner needs, once for all: they are forked from whoever did this.

    All of it, so that neither they nor their worker load anything after an upgrade.
    """
    for name in ("ctypes", "json", "psutil", "tomllib"):
        import_module(name)
    preload((*PACKAGES, "notify", "runner", "work"))
    _settings[:] = [config.Watched(path)]
    all_profiles(_settings[0].config)


class Runner:
    """A process that looks after one attempt."""

    def __init__(self, store: str | None) -> None:
        view = parse_view(os.environ.get("HEADGATE_LIMITS", ""))
        self._gate = Gate(open_store(store), config=_settings[0], view=view)
        self._news = RefusalNews()
        self._ending: dict[int, EndAsked] = {}
        """Which jobs somebody wants to end, and why: a word may come when its job has ended."""
        self._stopped: Stopped | None = None

    def run(self, id: int, worker: str, *, adopt: bool) -> None:
        """Take the job over and see it to its end; then the next, while there is one for us."""
        signal.pthread_sigmask(signal.SIG_BLOCK, MINDED)
        worker_jobs = self._gate.worker_jobs
        taken = (
            worker_jobs.adopt(id, self._end) if adopt else worker_jobs.begin(id, worker, self._end)
        )
        while taken is not None:
            try:
                how = self._look_after(taken) if adopt else self._attempt(taken)
            except Exception as error:  # noqa: BLE001 - the job must hear of it, whatever it is
                traceback.print_exc()
                self._end_program(taken.lease, None, Seconds(0))
                text = fit_to_show(f"headgate's own error: {type(error).__name__}: {error}")
                how = End(AttemptOutcome.LOST, "runner_error", text)
            adopt = False
            going_on = worker if self._stopped is None else ""
            taken = worker_jobs.finish(taken.lease, how, going_on, self._end)
        self._gate.close()

    def _end(self, id: int, why: HeadgateError) -> None:
        self._ending[id] = asked(why)
        os.kill(os.getpid(), signal.SIGCHLD)

    def _attempt(self, taken: Taken) -> End:
        job = taken.job
        spec = load(job.spec)
        if spec is UNREADABLE:
            text = "what it was submitted with is damaged in the store; submit it again"
            return End(AttemptOutcome.FAILED, "damaged", text)
        path = log_path(self._gate.jobs.folder, job.id, job.attempts)
        try:
            self._gate.jobs.make_folder()
            log = open_log(path)
        except (OSError, StoreUntrustedError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            text = f"cannot write its log {path}: {why}"
            return End(AttemptOutcome.FAILED, "no_log", fit_to_show(text))
        redirect(log, path)
        self._gate.enter_project(spec.cwd)
        profile = self._gate.profile_of(spec.argv)
        argv = command(spec, job.key)
        before = self._before(taken, spec, profile) if job.parks else None
        if before is not None and before.finished:
            os.write(log, b"headgate: the attempt before had finished; nothing was started\n")
            os.close(log)
            return had_finished("the attempt before this one had", before.session)
        earlier = before.session if before is not None else job.session
        resumed = resume(profile, argv, earlier) if earlier else None
        if resumed is None:
            return self._run(taken, profile, self._new(taken, spec, profile, 0), log)
        how = self._run(taken, profile, Start(resumed, earlier, resumes=True), log)
        if how.outcome is not AttemptOutcome.FAILED or not self._had_no_session(profile, path):
            return how
        log = open_log(path)
        os.write(log, b"headgate: that session is not there; it begins anew\n")
        return self._run(taken, profile, self._new(taken, spec, profile, 1), log)

    def _new(self, taken: Taken, spec: "Spec", profile: Profile, tries: int) -> "Start":
        """How a session is begun: with an id of ours if it could not be resumed otherwise."""
        job, argv = taken.job, command(spec, taken.job.key)
        named = session(profile, argv)
        if named or not takes_one(profile, argv):
            return Start(argv, named)
        path = spec.env.get("PATH", os.environ.get("PATH"))
        if not is_since(agent_version(profile, argv, path, spec.cwd), profile.given_since):
            return Start(argv, "")
        given = session_id(self._gate.store_id, job.id, job.attempts, tries)
        return Start(with_session(profile, argv, given), given)

    def _had_no_session(self, profile: Profile, path: Path) -> bool:
        """Whether an agent that was to go on has ended because there was nothing to go on with."""
        tail = Tail(path)
        try:
            lines = tail.lines(to_end=True)
            return len(lines) <= _FEW_LINES and tells_no_session(profile, lines)
        finally:
            tail.close()

    def _run(self, taken: Taken, profile: Profile, start: "Start", log: int) -> End:
        """Start a program and see to it until it has ended."""
        job, lease = taken
        spec = load(job.spec)
        path = log_path(self._gate.jobs.folder, job.id, job.attempts)
        if spec.stdin is not None and not start.resumes:  # else it has read it already
            hand_in(spec.stdin)
        program = start_program(self._gate, taken, spec, start.argv, self._limits(spec))
        if isinstance(program, End):
            os.close(log)
            return program
        if start.session and start.session != job.session:
            # Else who takes over after a kill would not know of it.
            self._gate.worker_jobs.remember(lease, start.session)
        agent_watch = self._make_agent_watch(spec, profile, job.key)
        agent_watch.session = agent_watch.session or start.session
        size = self._gate.job_policy.log_size
        watch = WatchedOutput(
            agent_watch, Tail(path), log, log_size=size, ours=True, wire=program.wire
        )
        try:
            verdict = self._watch(taken, watch, program.child, spec)
            self._clear_up(taken, program.child, spec)
            self._feed(taken, watch, to_end=True)
        finally:
            watch.close()
            program.over()
        how = self._judge(program.child, agent_watch, verdict)
        if agent_watch.confirmed is not None:
            taken.lease.tell(agent_watch.confirmed)
        return how

    def _before(self, taken: Taken, spec: "Spec", profile: Profile) -> AgentWatch:
        """What is known of the attempt before: its log is read if nobody saw how that ended."""
        job = taken.job
        before = self._make_agent_watch(spec, profile, job.key)
        before.session = ""
        for attempt in self._gate.jobs.attempts(job.id)[-2:-1]:
            if attempt.code in LOST:
                before.session = session(profile, spec.argv)
                read_again(log_path(self._gate.jobs.folder, job.id, attempt.number), before)
        before.session = job.session or before.session
        return before

    def _limits(self, spec: "Spec") -> RunLimits:
        said: dict[str, Any] = {
            name: value for name, value in spec.terms.items() if name in RunLimits._fields
        }
        return self._gate.job_policy.limits._replace(**said)

    def _make_agent_watch(
        self, spec: "Spec", profile: Profile, key: str, age: Ms = NO_TIME
    ) -> AgentWatch:
        agent_watch = AgentWatch(
            profile=profile,
            limits=self._limits(spec),
            rules=self._gate.rules(),
            provider=key.partition("/")[0],
            started_ms=_now() - age,
            writes_events=writes_events(profile, spec.argv),
            zone=spec.env.get("TZ", ""),
            own_key=key,
        )
        agent_watch.session = session(profile, spec.argv)
        return agent_watch

    def _watch(
        self, taken: Taken, watch: WatchedOutput, child: Child, spec: "Spec"
    ) -> Cause | None:
        """Look after the program until it has ended; why it was made to, or None."""
        known = False
        told_from = time.monotonic() + _LOOK  # for people; no use for what is over in a moment
        while child.status is None:
            number = _next_signal(_LOOK)
            child.reap()
            if not known and time.monotonic() >= told_from:
                self._gate.started(taken.lease, child.pid)
                known = True
            if number in _STOPPING:
                self._stopped = Stopped(signal.Signals(number).name)
            self._feed(taken, watch)
            told: Cause | None = self._ending.get(taken.job.id) or self._stopped
            why = told or watch.agent_watch.verdict(_now())
            if why is not None and child.status is None:
                self._prolong(taken, watch, ends=True)
                self._end_program(taken.lease, child, self._grace(spec))
                return why
        return None

    def _feed(self, taken: Taken, watch: WatchedOutput, *, to_end: bool = False) -> None:
        """Read what is new in the log; what it says about capacity is told at once."""
        hear_wire(watch.wire, watch.agent_watch, _now())
        trim(watch.log, watch.log_size)
        agent_watch, before = watch.agent_watch, watch.agent_watch.session
        lines, deadline = watch.tail.lines(to_end=to_end), time.monotonic() + _READING
        stderr = watch.ours and bool(lines) and watch.tail.only_by(2, 1)
        found = []
        for number, line in enumerate(lines):
            if not to_end and time.monotonic() > deadline:  # somebody may want it to end
                watch.tail.put_back(lines[number:])
                break
            refusal = agent_watch.feed(line, _now(), Seconds(time.time()), stderr=stderr)
            if refusal is not None:
                found.append(refusal)
        for news in self._news.of(taken.job.id, found, _now()):
            taken.lease.tell(news)
        self._prolong(taken, watch, ends=to_end)
        if agent_watch.session != before:
            self._gate.worker_jobs.remember(taken.lease, agent_watch.session)

    def _prolong(self, taken: Taken, watch: WatchedOutput, *, ends: bool = False) -> None:
        """Keep the pool closed while the program waits to be let in again, or ends meanwhile."""
        length = self._news.prolong(watch.agent_watch, _now(), ends=ends)
        if length is not None and watch.agent_watch.waiting is not None:
            taken.lease.still_refused(watch.agent_watch.waiting, length)

    def _catch_up(self, taken: Taken, watch: WatchedOutput) -> None:
        """Read what another runner has read before, perhaps not to its end.

        What is over was told, or is of no use any more; a refusal that still holds is told again.
        """
        last = None
        for line in watch.tail.lines():
            last = watch.agent_watch.feed(line, _now(), Seconds(time.time())) or last
        if last is not None and watch.agent_watch.refused_at is not None:
            taken.lease.tell(last)

    def _grace(self, spec: "Spec") -> Seconds:
        return self._gate.grace if spec.grace is None else seconds(spec.grace)

    def _clear_up(self, taken: Taken, child: Child, spec: "Spec") -> None:
        """End what a program left running: its job is over, and its seats are needed."""
        if child.reap() or (not child.adopts and self._gate.worker_jobs.programs(taken.lease)):
            self._end_program(taken.lease, child, self._grace(spec))

    def _end_program(self, lease: Lease, child: Child | None, grace: Seconds) -> None:
        me, mark, job = os.getpid(), lease.environment[MARK], str(lease.id)

        def rest() -> set[int]:
            if child is None:
                return self._gate.worker_jobs.programs(lease)
            child.reap()
            ours = family(me, job) - {me} if child.adopts else family(child.pid, job)
            return (ours | {pid for pids in carriers([mark]).values() for pid in pids}) - {me}

        while not end(rest, grace):  # its seats are free when it has ended, and not before
            grace = Seconds(0)
        if child is not None:
            child.reap()

    def _judge(self, child: Child, agent_watch: AgentWatch, why: Cause | None) -> End:
        """How the attempt ended."""
        code = os.waitstatus_to_exitcode(child.status) if child.status is not None else 0
        code, number = (code, 0) if code >= 0 else (0, -code)
        exits = exit_text(code, number)
        ended = End(AttemptOutcome.DONE, "exit", "exit 0", exit=exits, session=agent_watch.session)
        caused = why or agent_watch.outcome(code, number)
        if caused is not None:
            return as_caused(ended, caused)
        if number:
            name = signal.Signals(number).name if number in _NAMES else f"signal {number}"
            text = f"killed by {name}"
            return ended._replace(outcome=AttemptOutcome.FAILED, code="signal", text=text)
        if code:
            text = f"exit {code}: {agent_watch.failure}" if agent_watch.failure else f"exit {code}"
            return ended._replace(outcome=AttemptOutcome.FAILED, text=text)
        return ended

    def _look_after(self, taken: Taken) -> End:
        """Go on with a program whose runner was killed; how it ends, nobody can tell any more."""
        job, lease = taken
        spec = load(job.spec)
        path = log_path(self._gate.jobs.folder, job.id, job.attempts)
        log = open_log(path)
        self._gate.enter_project(spec.cwd)
        profile = self._gate.profile_of(spec.argv)
        age = Seconds(time.time()) - self._gate.jobs.attempts(job.id)[-1].started
        wire = take_over(self._gate.wire_folder / str(job.id)) if self._gate.wire_folder else None
        agent_watch = self._make_agent_watch(spec, profile, job.key, max(NO_TIME, ms(age)))
        size = self._gate.job_policy.log_size
        watch = WatchedOutput(agent_watch, Tail(path), log, size, wire=wire)
        self._catch_up(taken, watch)
        why: Cause | None = None
        while self._gate.worker_jobs.programs(lease):
            number = _next_signal(_LOOK)
            if number in _STOPPING:
                os._exit(1)  # the program goes on, and somebody else will look after it
            self._feed(taken, watch)
            why = self._ending.get(job.id) or agent_watch.verdict(_now())
            if why is not None:
                self._prolong(taken, watch, ends=True)
                self._end_program(lease, None, self._grace(spec))
                break
        self._feed(taken, watch, to_end=True)
        watch.close()
        if wire is not None:
            wire.end()
        text = "its runner was killed, so nobody knows how it ended"
        lost = End(AttemptOutcome.LOST, "lost", text, session=agent_watch.session)
        if why is None and agent_watch.finished:
            return had_finished("it had", agent_watch.session)
        caused = why or agent_watch.outcome(None, 0)
        return lost if caused is None else as_caused(lost, caused)


_NAMES = {int(number) for number in signal.valid_signals()}


def _now() -> Ms:
    return Ms(time.monotonic_ns() // 1_000_000)


def _next_signal(timeout: Seconds) -> int:
    """Sleep until a signal comes, or the time is up; 0 for none."""
    if hasattr(signal, "sigtimedwait"):
        found = signal.sigtimedwait(MINDED, timeout)
        return 0 if found is None else found.si_signo
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if signal.sigpending() & set(MINDED):
            return int(signal.sigwait(MINDED))
        time.sleep(0.02)
    return 0
