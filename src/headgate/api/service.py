"""What the requests of one server share: the gate, off the event loop, and its end.

The gate is synchronous inside, so whatever asks it does so in a thread. What many want to know at
the same time is asked once: whoever comes while an answer is on its way gets the next one, which
was looked up after they came.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from headgate.core.server_settings import ServerSettings
from headgate.core.times import Seconds
from headgate.gate import Gate

T = TypeVar("T")
_QUICK, _PATIENT = 8, 64
"""How many threads look things up, and how many do what may take long."""
_FOLLOW = Seconds(1)


class _Look:
    """One look that many wait for; none of them can end it."""

    def __init__(self) -> None:
        self.done = asyncio.Event()
        self.result: Any = None
        self.error: Exception | None = None
        self.task: asyncio.Task[None] | None = None


class Service:
    """One gate, for many requests."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.draining = asyncio.Event()
        """Set when it is time to stop: what waits is answered, and nothing new is begun."""
        self.unkept: dict[str, int] = {}
        """Limits that were set while the store could not be written."""
        self._quick = ThreadPoolExecutor(_QUICK, "headgate-ask")
        self._patient = ThreadPoolExecutor(_PATIENT, "headgate-wait")
        self._running: dict[str, _Look] = {}
        self._next: dict[str, _Look] = {}

    @property
    def settings(self) -> ServerSettings:
        """What the configuration says of the server now."""
        return self.gate.server

    async def ask(self, do: Callable[[Gate], T]) -> T:
        """Ask the gate something, or have it do something that takes no longer than the store."""
        return await asyncio.get_running_loop().run_in_executor(self._quick, do, self.gate)

    async def wait(self, do: Callable[[Gate], T]) -> T:
        """The same for what may take seconds."""
        return await asyncio.get_running_loop().run_in_executor(self._patient, do, self.gate)

    async def shared(self, name: str, do: Callable[[Gate], T]) -> T:
        """Ask what others ask at the same time, too; never something from before it was asked."""
        look = self._next.get(name)
        if look is None:
            look = self._next[name] = _Look()
            look.task = asyncio.create_task(self._in_turn(name, look, do))
        await look.done.wait()
        if look.error is not None:
            raise look.error
        found: T = look.result
        return found

    async def _in_turn(self, name: str, look: "_Look", do: Callable[[Gate], object]) -> None:
        before = self._running.get(name)
        if before is not None:
            await before.done.wait()
        del self._next[name]
        self._running[name] = look
        try:
            look.result = await self.ask(do)
        except Exception as error:  # noqa: BLE001 - it is raised again wherever it is waited for
            look.error = error
        finally:
            if self._running.get(name) is look:
                del self._running[name]
            look.done.set()

    async def follow_configuration(self) -> None:
        """Have the configuration looked at, also while nobody asks anything."""
        while not self.draining.is_set():
            await self.shared("configuration", lambda gate: gate.events(most=1))
            await asyncio.sleep(_FOLLOW)

    def close(self) -> None:
        """Let go of the threads; nobody asks any more."""
        self._quick.shutdown(wait=False, cancel_futures=True)
        self._patient.shutdown(wait=False, cancel_futures=True)
