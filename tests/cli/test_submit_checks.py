"""What surely cannot be started is refused when it is handed in; PATH is taken over on request."""

import json
from pathlib import Path

import pytest

from tests.cli.golden.compare import Ask
from tests.support import Box


def test_a_folder_or_a_file_that_is_not_there_is_refused(box: Box, ask: Ask) -> None:
    """Nothing is handed in, and --no-check does so all the same."""
    for words, said in (
        (("--cwd", str(box.folder / "gone"), "--", "true"), "there is no folder"),
        (("--cwd", str(box.folder), "--", "./tool"), "'./tool': not found"),
        (("--env", "PATH=/nowhere", "--", "true"), "on the PATH that was given for it"),
    ):
        refused = ask("submit", *words)
        assert (refused.code, refused.out) == (2, "")
        assert said in refused.err
        assert ask("submit", "-q", "--no-check", *words).code == 0


def test_what_an_earlier_job_may_make_is_not_checked(box: Box, ask: Ask) -> None:
    """A job that comes after another may find what that has made."""
    ask("submit", "-q", "--hold", "--", "true")
    assert ask("submit", "-q", "--after", "1", "--", "./made-by-it").code == 0


def test_a_program_that_only_this_path_has_not_is_warned_of(box: Box, ask: Ask) -> None:
    """The worker may have another PATH; the warning says whose counts."""
    said = ask("submit", "--", "no-such-program")
    assert said.code == 0
    assert "'no-such-program': not found on the PATH of this shell" in said.err
    assert "--path gives it the one of this shell" in said.err


def test_variables_are_taken_over_on_request(
    box: Box, ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """--path and --env-from; what is not set here is an error, and --env beats them."""
    monkeypatch.setenv("MINE", "1")
    assert ask("submit", "--path", "--env-from", "MINE,HOME", "--env", "HOME=/x", "--", "true").out
    (row,) = box.rows("job")
    spec = next(json.loads(text) for text in row if isinstance(text, str) and text[:1] == "{")
    assert (spec["env"]["MINE"], spec["env"]["HOME"], "PATH" in spec["env"]) == ("1", "/x", True)
    assert (
        "there is no such variable here" in ask("submit", "--env-from", "NONE_X", "--", "true").err
    )
