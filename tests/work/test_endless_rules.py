"""Rules that would never end, in jobs that have to: by `max_runtime`, and by `cancel`."""

from pathlib import Path

import pytest

from tests.core.test_user_patterns import ENDLESS
from tests.support import until
from tests.work.conftest import JobBox

TALK = "import time\nwhile True: print('a' * 8000 + '!', flush=True); time.sleep(0.05)"
RULES = "\n".join(
    f"[[classify]]\nsignal = 'rate-limited'\nline = '{pattern}'"
    for pattern in ENDLESS
    if not pattern.endswith("!")  # which that line is
)
PROFILE = f"[profiles.python3]\nsession_line = '({ENDLESS[0]})'\nretries = {ENDLESS[:5]}\n"


@pytest.mark.parametrize("how", ["max_runtime", "cancel"])
def test_a_rule_that_would_never_end_keeps_no_job(box: JobBox, how: str) -> None:
    """The runner reads every line by every rule, and still ends its program when it must."""
    box.config(f"{RULES}\n{PROFILE}")
    box.worker()
    limits = ["--max-runtime", "1s"] if how == "max_runtime" else []
    id = box.submit("--retries", "0", *limits, "--", "python3", "-c", TALK)
    if how == "cancel":
        box.until_state(id, "running")
        log = Path(f"{box.path}.logs", f"{id}.1.log")
        until(log.exists)
        until(lambda: log.stat().st_size > 20 * 8_000)  # the runner has begun to read by then
        box.headgate("cancel", str(id), "--grace", "5s")
    state = box.until_state(id, "failed", "cancelled")
    assert (state, box.job(id)["code"]) in {("failed", "max_runtime"), ("cancelled", "cancelled")}
