"""What all of them do, and how a plain program with an SDK speaks."""

import json
import os
import signal
import time
from typing import NoReturn

from tests.agents.standins.session import Session, latest, new_id
from tests.agents.standins.wire import CUT, Failure, Json, delta, post
from tests.agents.standins.words import Words


def say(text: str | Json, to: int = 1) -> None:
    """One line, at once."""
    line = text if isinstance(text, str) else json.dumps(text, separators=(",", ":"))
    os.write(to, line.encode() + b"\n")


def tool() -> dict[str, str]:
    return {"command": "make next", "description": "go on"}


def stray() -> int:
    """Leave a process behind, out of reach of whoever ends our group."""
    child = os.fork()
    if child == 0:
        os.setsid()
        for fd in range(3):
            os.close(fd)
            os.open(os.devnull, os.O_RDWR)
        os.execvp("sleep", ["sleep", "600"])  # noqa: S606 - there is no shell to want
    return child


def wait_for_ever() -> NoReturn:
    while True:
        signal.pause()


class Agent:
    """What all of them do, and how a plain program with an SDK speaks."""

    base = "ANTHROPIC_BASE_URL"
    key = "ANTHROPIC_API_KEY"
    model = "claude-sonnet-4-5"
    unknown = ("No conversation found with session ID: {}", 1)

    def __init__(self, words: Words) -> None:
        self.words = words
        self.folder = words.get("--state") or os.environ.get("STANDIN_STATE", "")
        self.speed = float(words.get("--speed") or 1)
        self.requests = int(words.get("--requests") or 1)
        self.model = words.get("--model", "-m") or self.model
        self.url = os.environ.get(self.base, "").rstrip("/")
        if not self.url:
            raise SystemExit(f"standin: where to ask? Set {self.base}")
        if self.folder:
            os.makedirs(self.folder, exist_ok=True)  # noqa: PTH103 - a fast start
        self.session = self.open()

    # A session.

    def resumed(self) -> str | None:
        """The session that the command line says to go on with; empty for the last one."""
        if "--continue" in self.words.options:
            return ""
        return self.words.get("--resume", "-r", "--session", "-s") or None

    def prompt(self) -> str:
        return self.words.plain[-1] if self.words.plain else ""

    def open(self) -> Session:
        wanted = self.resumed()
        id_ = (wanted if wanted not in {"", "latest"} else latest(self.folder)) or ""
        if wanted is None:
            id_ = self.words.get("--session-id") or self.fresh()
        session = Session(self.folder, id_)
        if wanted is None and session.lines:
            self.quit(f"Error: Session ID {id_} is already in use.")
        if wanted is not None and not session.lines:
            text, code = self.unknown
            self.quit(text.format(wanted), code)
        session.add("start", prompt=self.prompt(), resumed=wanted is not None)
        return session

    def fresh(self) -> str:
        return new_id()

    def quit(self, text: str, code: int = 1) -> NoReturn:
        say(text, 2)
        raise SystemExit(code)

    # Work.

    def work(self) -> int:
        self.begin()
        if "--stray" in self.words.options:
            self.session.add("stray", child=stray())
        loop, silent = "--tool-loop" in self.words.options, self.words.get("--silent-after")
        while loop or self.session.steps < self.requests:
            if silent and self.session.steps >= int(silent):
                wait_for_ever()
            number = self.session.steps + 1
            last = not loop and number == self.requests
            while last and not os.path.exists(self.words.get("--until") or os.sep):  # noqa: PTH110
                time.sleep(0.02)
            try:
                text = self.persist()
            except Failure as failure:
                self.session.add("failed", status=failure.status)
                return self.fail(failure)
            self.session.add("step", step=number, text=text)
            self.step(1 if loop else number, text, last=last)
            if not last:
                self.wait(float(self.words.get("--pause") or 0))
        self.session.add("end")
        self.end()
        return 0

    def persist(self) -> str:
        """The answer to the next request, however many tries it takes."""
        tries = 0
        while True:
            tries += 1
            self.session.add("ask", step=self.session.steps + 1, tries=tries)
            self.asking()
            try:
                return self.ask()
            except Failure as failure:
                pause = self.pause(failure, tries)
                if pause is None:
                    raise
                self.retry(failure, tries, pause)
                self.wait(pause)

    def ask(self) -> str:
        found = ""
        key = os.environ.get(self.key) or "standin"
        for event in post(self.address(), self.headers(key), self.body()):
            text, last = delta(event)
            found += text
            if last:
                return found
        raise Failure(CUT, "terminated", {})

    def address(self) -> str:
        return f"{self.url}/v1/messages?beta=true"

    def headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key, "x-claude-code-session-id": self.session.id}

    def body(self) -> Json:
        talk = [{"role": who, "content": text} for who, text in self.session.talk()]
        return {"model": self.model, "max_tokens": 32_000, "stream": True, "messages": talk}

    def wait(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds / self.speed))

    # What differs.

    def pause(self, failure: Failure, tries: int) -> float | None:
        """How long it waits before it tries again; None if it gives up."""
        if tries > 2 or (400 <= failure.status < 500 and failure.status != 429):
            return None
        return failure.retry_after or 0.5 * 2 ** (tries - 1)

    def begin(self) -> None:
        """What it says first."""

    def asking(self) -> None:
        """What it says before each request."""

    def step(self, number: int, text: str, *, last: bool) -> None:
        say(f"step {number}: {text}")

    def retry(self, failure: Failure, tries: int, pause: float) -> None:
        """What it says when it is about to wait."""

    def fail(self, failure: Failure) -> int:
        if failure.status == CUT:
            say("anthropic.APIConnectionError: Connection error.", 2)
        else:
            kind = "RateLimitError" if failure.status == 429 else "InternalServerError"
            say(f"anthropic.{kind}: Error code: {failure.status} - {failure.body}", 2)
        return 1

    def end(self) -> None:
        """What it says last."""

    def terminated(self) -> NoReturn:
        """What SIGTERM does: by default, what it does to any program."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        raise SystemExit(143)
