"""Whose request it is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.quantities import parse_task
from headgate.core.wire.task_identity import session_of, task_of

SESSION = "9f2c1e1a-0b1c-4a58-9d60-1a2b3c4d5e6f"


@pytest.mark.parametrize(
    "headers,task",
    [
        ({"x-claude-code-session-id": SESSION}, SESSION),
        ({"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a1"}, "s/a1"),
        ({"x-session-id": "ses_1"}, "ses_1"),
        ({"x-session-id": "ses_2", "x-parent-session-id": "ses_1"}, "ses_1/ses_2"),
        ({"session-id": "c1", "thread-id": "c1"}, "c1"),
        ({"session-id": "c1", "thread-id": "c2", "x-codex-parent-thread-id": "c1"}, "c1/c2"),
        ({"session-id": "c1"}, "c1"),
        ({"thread-id": "c1", "x-codex-parent-thread-id": "c1"}, "c1"),
        ({}, "body"),
        ({"x-session-id": "  "}, "body"),
        ({"x-session-id": "../a/b\x1b[31m\n"}, ".._a_b?[31m?"),
    ],
)
def test_tasks(headers: dict[str, str], task: str) -> None:
    """The client's own session names the task, a sub-agent below its parent; else the body does."""
    assert task_of(headers, "body") == task


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "x-claude-code-session-id",
                "x-claude-code-agent-id",
                "x-session-id",
                "x-parent-session-id",
                "session-id",
                "thread-id",
                "x-codex-parent-thread-id",
            ]
        ),
        st.text(max_size=400),
    ),
    st.text(max_size=400),
)
def test_tasks_can_be_used(headers: dict[str, str], session: str) -> None:
    """Whatever a client sends, the task is one that can be kept, with at most one parent."""
    task = task_of(headers, session)
    assert parse_task(task) == task
    assert task.count("/") <= 1


@pytest.mark.parametrize(
    "user,session",
    [
        (json.dumps({"device_id": "d", "account_uuid": "u", "session_id": SESSION}), SESSION),
        (f"user_0a1b_account_11-22_session_{SESSION}", SESSION),
        (f"user_0a1b_account__session_{SESSION}", SESSION),
        ("somebody@example.com", ""),
        ('{"session_id": 5}', ""),
        ('{"session_id"', ""),
        ("{" * 4_000, ""),
        ("x" * 5_000, ""),
        ("", ""),
    ],
)
def test_sessions_of_users(user: str, session: str) -> None:
    """Of Anthropic's user id only the session is taken, in both of its forms."""
    assert session_of(user) == session
