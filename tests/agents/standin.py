"""A stand-in for an agent's program: it asks a provider, prints and fails as the real one does.

    standin.py --like claude --speed 50 --requests 3 --state DIR -p "do it" --session-id ID

It understands the words of the real command lines (`exec resume ID TEXT`, `run --session ID TEXT`),
so that it can be put in the place of the real program. Needs nothing: `python -I -S` is enough.

    --like NAME       claude, claude-text, opencode, opencode-text, codex, codex-text, gemini, plain
    --requests N      how many steps of work there are, each one request; the last has no tool call
    --state DIR       keep sessions there, one file each; a resumed one goes on after its last step
    --speed F         divide all waits by this
    --pause S         seconds that a tool takes between two steps
    --until FILE      take the last step when this file is there
    --tool-loop       the same tool call for ever
    --silent          say nothing and do nothing, for ever; --silent-after N: after so many steps
    --ignore-term     SIGTERM does nothing
    --stray           leave a process behind, in a session of its own

Where to ask: ANTHROPIC_BASE_URL, for codex OPENAI_BASE_URL, for gemini GOOGLE_GEMINI_BASE_URL.
"""

import os
import signal
import sys

if __name__ == "__main__":  # an isolated Python looks for modules where it is told to
    sys.path.insert(0, os.path.abspath(f"{__file__}/../../.."))  # noqa: PTH100 - a fast start

from tests.agents.standins.agent import Agent, wait_for_ever
from tests.agents.standins.claude import Claude, ClaudeText
from tests.agents.standins.codex import Codex, CodexText
from tests.agents.standins.gemini import Gemini
from tests.agents.standins.opencode import Opencode, OpencodeText
from tests.agents.standins.words import words_of

LIKE: dict[str, type[Agent]] = {
    "claude": Claude,
    "claude-text": ClaudeText,
    "opencode": Opencode,
    "opencode-text": OpencodeText,
    "codex": Codex,
    "codex-text": CodexText,
    "gemini": Gemini,
    "plain": Agent,
}


def main() -> int:
    words = words_of(sys.argv[1:])
    kind = LIKE.get(words.get("--like"))
    if kind is None:
        raise SystemExit(f"standin: --like: expected one of {', '.join(LIKE)}")
    if "--ignore-term" in words.options:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "--silent" in words.options:
        wait_for_ever()
    agent = kind(words)
    if "--ignore-term" not in words.options:
        signal.signal(signal.SIGTERM, lambda _number, _frame: agent.terminated())
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return agent.work()


if __name__ == "__main__":
    sys.exit(main())
