"""Virtual time: agents, a governor and a provider, event by event."""

import heapq
import math
import random
from collections.abc import Callable

from headgate.core.named_tuple import NamedTuple
from headgate.sim.governors import Governor, SimulatedJob
from headgate.sim.scenario import Scenario
from headgate.sim.upstream import NEVER, ProviderAnswer, Upstream, Usage, at

DELAY = 50
"""Milliseconds a request travels."""
_POLL = 100
"""Milliseconds the usage endpoint takes to answer."""


class Point(NamedTuple):
    """One moment, for the picture."""

    at: int
    limit: int
    in_flight: int
    room: int
    refused: int


class Result(NamedTuple):
    """How it went."""

    work: float
    """Milliseconds of work that were done, as they would take without a punishment."""
    sent: int
    refused: int
    punished: float
    """The share of the time in which everything was slow."""
    reached: float | None
    """Seconds until nine tenths of the cap were first in use."""
    found_again: float | None
    """Seconds until that was so again after the cap last rose."""
    waits: dict[str, tuple[float, float]]
    """Median and 99th percentile of the seconds in line, per priority."""
    fairness: float
    """Jain's index over what the agents got done: 1 if all the same."""
    polls: int


class _Flight(NamedTuple):
    started: int
    nominal: int
    slowdown: float
    agent: int


class World:
    """One run."""

    def __init__(
        self,
        scenario: Scenario,
        upstream: Upstream,
        governors: list[Governor],
        seed: int,
        *,
        watch: Callable[[Point], None] | None = None,
    ) -> None:
        self._scenario = scenario
        self._upstream = upstream
        self._governors = governors
        self._dice = random.Random(seed * 31 + 7)  # noqa: S311 - repeatable on purpose
        self._watch = watch
        self._now = 0
        self._events: list[tuple[int, int, str, int]] = []
        self._order = 0
        self._jobs: dict[int, SimulatedJob] = {}
        self._answers: dict[int, ProviderAnswer] = {}
        self._flights: dict[int, _Flight] = {}
        self._asked_at: dict[int, int] = {}
        self._length: dict[int, int] = {}
        self._model: dict[int, tuple[str, int]] = {}
        self._wake: list[int] = [-1] * len(governors)
        self._poll: list[int] = [-1] * len(governors)
        self._asking: list[tuple[Usage | None, int] | None] = [None] * len(governors)
        self._happen: dict[str, Callable[[int], None]] = {
            "tick": self._on_tick,
            "poll": self._on_poll,
            "reading": self._on_reading,
            "arrive": self._on_arrive,
            "acceptance": self._on_acceptance,
            "refusal": self._on_refusal,
            "again": self._on_again,
            "end": self._on_end,
            "cancel": self._on_cancel,
            "restart": self._on_restart,
        }
        self._next_id = 0
        self._sent = self._refused = self._polls = 0
        self._work = [0.0] * scenario.agents.number
        self._waits: dict[str, list[float]] = {}
        self._punished = 0
        self._reached: float | None = None
        self._risen: int | None = None
        self._again: float | None = None
        self._room = self._flying = 0

    def run(self) -> Result:
        """Let it all happen."""
        scenario = self._scenario
        for agent in range(scenario.agents.number):
            self._send_next(agent)
        if scenario.restart is not None:
            self._at(round(scenario.restart * 1000), "restart", 0)
        self._pump()
        while self._events:
            at, _, kind, subject = heapq.heappop(self._events)
            if at > scenario.span:
                break
            self._pass(at)
            self._happen[kind](subject)
            self._pump()
        self._pass(scenario.span)
        return self._result()

    def _pass(self, at: int) -> None:
        until = min(at, self._upstream.punished_until)
        self._punished += max(0, until - self._now)
        self._now = at
        room = self._upstream.room(at)
        flying = self._flying
        if room > self._room:
            self._risen, self._again = at, None
        self._room = room
        enough = flying >= 0.9 * room
        if enough and self._reached is None and flying:
            self._reached = at / 1000
        if enough and self._risen is not None and self._again is None:
            self._again = (at - self._risen) / 1000
        if self._watch is not None:
            limit = sum(governor.limit for governor in self._governors)
            self._watch(
                Point(at=at, limit=limit, in_flight=flying, room=room, refused=self._refused)
            )

    def _at(self, when: int, kind: str, subject: int) -> None:
        self._order += 1
        heapq.heappush(self._events, (when, self._order, kind, subject))

    def _governor(self, agent: int) -> Governor:
        return self._governors[agent % len(self._governors)]

    def _send_next(self, agent: int) -> None:
        """An agent has something to send: what it could not get rid of, or something new."""
        agents = self._scenario.agents
        if agent not in self._length:
            if len(agents.active) > 1 and (wakes := self._idle_until(agent)) > self._now:
                if wakes < NEVER:
                    self._at(wakes, "again", agent)
                return
            spread = agents.spread
            middle = math.log(agents.seconds * 1000) - spread * spread / 2
            self._length[agent] = max(200, round(self._dice.lognormvariate(middle, spread)))
            names = [(name, weight) for name, weight, _ in agents.models]
            shares = [share for _, _, share in agents.models]
            self._model[agent] = self._dice.choices(names, shares)[0]
        self._next_id += 1
        model, weight = self._model[agent]
        urgent = agent < agents.urgent * agents.number
        job = SimulatedJob(
            id=self._next_id,
            agent=agent,
            model=model,
            weight=weight,
            tokens=agents.tokens,
            urgency=-10 if urgent else 0,
            since=self._asked_at.setdefault(agent, self._now),
        )
        self._jobs[job.id] = job
        self._governor(agent).ask(job, self._now)

    def _idle_until(self, agent: int) -> int:
        """When an agent next has something to do: now, or after a change."""
        agents = self._scenario.agents
        if agent < at(agents.active, self._now) * agents.number:
            return self._now
        later = (
            when
            for when, share in agents.active
            if when > self._now and agent < share * agents.number
        )
        return next(later, NEVER)

    def _pump(self) -> None:
        for index, governor in enumerate(self._governors):
            for id in governor.granted(self._now):
                self._sent += 1
                self._at(self._now + DELAY, "arrive", id)
            wake = governor.wakes(self._now)
            if wake is not None and self._later(self._wake[index], wake):
                self._wake[index] = max(wake, self._now + 1)
                self._at(self._wake[index], "tick", index)
            poll = governor.next_poll(self._now) if self._asking[index] is None else None
            if poll is not None and self._later(self._poll[index], poll):
                self._poll[index] = max(poll, self._now)
                self._at(self._poll[index], "poll", index)

    def _later(self, planned: int, wanted: int) -> bool:
        """Whether nothing is planned any more, or only for later."""
        return planned <= self._now or wanted < planned

    def _on_tick(self, index: int) -> None:
        """Time alone."""

    def _on_poll(self, index: int) -> None:
        """Ask the usage endpoint; the answer takes a while."""
        if self._asking[index] is None:
            self._polls += 1
            self._asking[index] = (self._upstream.usage(self._now), self._now)
            self._at(self._now + _POLL, "reading", index)

    def _on_reading(self, index: int) -> None:
        found, self._asking[index] = self._asking[index], None
        if found is not None:
            self._governors[index].read(found[0], found[1], self._now)

    def _on_arrive(self, id: int) -> None:
        job = self._jobs[id]
        agents = self._scenario.agents
        answer = self._upstream.ask(self._now, id, job.model, job.tokens)
        if answer.kind != "accepted":
            self._refused += answer.kind in {"concurrency", "rate", "tokens"}
            self._answers[id] = answer
            self._at(self._now + round(agents.refusal * 1000), "refusal", id)
            return
        length = self._length[job.agent]
        self._flights[id] = _Flight(self._now, length, answer.slowdown, job.agent)
        self._flying += job.weight
        took = round(length * answer.slowdown)
        low, high = agents.first_token
        shows = round(self._dice.uniform(low, high) * 1000)
        if shows < took:
            self._at(self._now + shows, "acceptance", id)
        if self._dice.random() < agents.cancelled:
            self._at(self._now + round(took * self._dice.random()), "cancel", id)
        else:
            self._at(self._now + took, "end", id)
        waited = (self._now - self._asked_at.pop(job.agent)) / 1000
        self._waits.setdefault("urgent" if job.urgency < 0 else "normal", []).append(waited)

    def _on_acceptance(self, id: int) -> None:
        if id in self._flights:
            self._governor(self._jobs[id].agent).accepted(id, self._now)

    def _on_refusal(self, id: int) -> None:
        answer = self._answers.pop(id, None)
        if answer is None:
            return
        agent = self._jobs.pop(id).agent
        wait = self._governor(agent).refused(id, answer, self._now)
        if wait is None:
            self._send_next(agent)
        else:
            self._at(self._now + wait, "again", agent)

    def _on_again(self, agent: int) -> None:
        self._send_next(agent)

    def _on_end(self, id: int) -> None:
        self._finish(id, completed=True)

    def _on_cancel(self, id: int) -> None:
        self._finish(id, completed=False)

    def _finish(self, id: int, *, completed: bool) -> None:
        flight = self._flights.pop(id, None)
        if flight is None:
            return
        job = self._jobs.pop(id)
        agent = job.agent
        self._flying -= job.weight
        done = (self._now - flight.started) / flight.slowdown
        self._work[agent] += flight.nominal if completed else done
        left = 0 if completed else round((flight.nominal - done) * flight.slowdown)
        self._upstream.leave(self._now, id, cancelled_for=left)
        self._governor(agent).ended(id, self._now, completed=completed)
        del self._length[agent]
        think = self._scenario.agents.think
        if think:
            self._at(self._now + round(self._dice.expovariate(1 / think) * 1000), "again", agent)
        else:
            self._send_next(agent)

    def _on_restart(self, _: int) -> None:
        for id, flight in list(self._flights.items()):
            done = (self._now - flight.started) / flight.slowdown
            self._work[flight.agent] += done
            left = round((flight.nominal - done) * flight.slowdown)
            self._upstream.leave(self._now, id, cancelled_for=left)
        self._flights.clear()
        self._flying = 0
        self._answers.clear()
        self._jobs.clear()
        kept = {"restart", "tick", "poll", "reading"}
        self._events = [event for event in self._events if event[2] in kept]
        heapq.heapify(self._events)
        for governor in self._governors:
            governor.restart(self._now)
        self._length.clear()
        for agent in range(self._scenario.agents.number):
            self._send_next(agent)

    def _result(self) -> Result:
        for flight in self._flights.values():
            done = (self._now - flight.started) / flight.slowdown
            self._work[flight.agent] += min(flight.nominal, done)
        total, squares = sum(self._work), sum(work * work for work in self._work)
        fairness = total * total / (len(self._work) * squares) if squares else 1.0
        return Result(
            work=total,
            sent=self._sent,
            refused=self._refused,
            punished=self._punished / self._scenario.span,
            reached=self._reached,
            found_again=self._again,
            waits={name: _percentiles(waits) for name, waits in sorted(self._waits.items())},
            fairness=fairness,
            polls=self._polls,
        )


def _percentiles(values: list[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
