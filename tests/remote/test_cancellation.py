"""Cancelled on the way in, in the line and on the way out, with the line behind a server."""

from tests.gate.test_cancellation import (
    test_a_loop_that_ends_at_once_leaves_nothing,
    test_a_timeout_of_the_callers_own_works_too,
    test_cancelled_anywhere_in_the_line,
    test_cancelled_anywhere_on_the_way_in_and_out,
    test_cancelled_at_odd_moments_of_the_disk,
    test_work_that_ends_by_itself_is_not_cancelled_later,
)

__all__ = [
    "test_a_loop_that_ends_at_once_leaves_nothing",
    "test_a_timeout_of_the_callers_own_works_too",
    "test_cancelled_anywhere_in_the_line",
    "test_cancelled_anywhere_on_the_way_in_and_out",
    "test_cancelled_at_odd_moments_of_the_disk",
    "test_work_that_ends_by_itself_is_not_cancelled_later",
]
