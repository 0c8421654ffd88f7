"""Whose request it is: the task, from what clients tell of their sessions.

    claude     X-Claude-Code-Session-Id, and x-claude-code-agent-id of a sub-agent
    opencode   x-session-id, and x-parent-session-id of a sub-agent's parent
    codex      thread-id (else session-id), and x-codex-parent-thread-id
    others     `session_id` in the body's `metadata.user_id`, or in Gemini's `request`

A sub-agent is named below its parent: `parent/sub`. Whatever a client sends, a name is one line
that can be printed, and nobody can write the slash that makes one task another's.
"""

import json
import re
from collections.abc import Mapping

from headgate.core.printable_text import printable

_LONGEST_PART = 96
_LONGEST_USER = 4_096
_OLD_USER = re.compile(r"\Auser_.*_session_([0-9A-Za-z-]{1,96})\Z", re.DOTALL)


def task_of(headers: Mapping[str, str], session: str = "") -> str:
    """The task that a request is for; empty if nothing tells.

    `headers` have their names in lower case, `session` is what the body tells of it.
    """
    claude = _part(headers.get("x-claude-code-session-id"))
    if claude:
        return _below(claude, _part(headers.get("x-claude-code-agent-id")))
    opencode = _part(headers.get("x-session-id"))
    if opencode:
        return _below(_part(headers.get("x-parent-session-id")), opencode)
    codex = _part(headers.get("thread-id")) or _part(headers.get("session-id"))
    if codex:
        return _below(_part(headers.get("x-codex-parent-thread-id")), codex)
    return _part(session)


def session_of(user: str) -> str:
    """The session in Anthropic's `metadata.user_id`; nothing else that it tells of the user."""
    if not user or len(user) > _LONGEST_USER:
        return ""
    if user.lstrip().startswith("{"):
        try:
            found = json.loads(user)
        except (ValueError, RecursionError):
            return ""
        session = found.get("session_id")
        return _part(session) if isinstance(session, str) else ""
    old = _OLD_USER.match(user)
    return old[1] if old else ""


def _below(parent: str, sub: str) -> str:
    names = (parent, sub) if parent != sub else (parent,)
    return "/".join(name for name in names if name)


def _part(value: str | None) -> str:
    """One name of at most two, cleaned."""
    if not value:
        return ""
    return printable(value[:_LONGEST_PART].replace("/", "_"), "?").strip()
