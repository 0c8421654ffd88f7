from typing import NamedTuple
from headgate.core.vigil import Terms


class JobTerms(NamedTuple):
    vigil: Terms = Terms()
    attempts: int = 10
    backoff: int = 5000
    longest_backoff: int = 600000
    expires: int | None = 86400000
    keep: int | None = 604800000
    log_size: int = 64 * 2**20
    fallback_after: int | None = 300000


def judge(terms):
    return []
