"""A run inside a run, both under leases of a server."""

from tests.runner.test_families import (
    test_a_child_inherits_its_parents_task,
    test_a_child_of_another_model_counts_in_its_own_pool,
    test_a_child_of_another_model_needs_a_seat_of_its_own_there,
    test_a_heavier_child_needs_the_difference,
    test_a_lease_of_another_store_lends_nothing,
    test_a_parent_that_ends_first_leaves_the_seat_to_its_child,
    test_a_python_program_under_a_run_borrows_too,
    test_a_run_inside_a_run_does_not_deadlock,
    test_the_family_gives_its_seat_back_as_a_whole,
    test_two_children_at_once_take_turns,
    test_two_children_at_once_where_there_is_room,
    tight,
)

__all__ = [
    "test_a_child_inherits_its_parents_task",
    "test_a_child_of_another_model_counts_in_its_own_pool",
    "test_a_child_of_another_model_needs_a_seat_of_its_own_there",
    "test_a_heavier_child_needs_the_difference",
    "test_a_lease_of_another_store_lends_nothing",
    "test_a_parent_that_ends_first_leaves_the_seat_to_its_child",
    "test_a_python_program_under_a_run_borrows_too",
    "test_a_run_inside_a_run_does_not_deadlock",
    "test_the_family_gives_its_seat_back_as_a_whole",
    "test_two_children_at_once_take_turns",
    "test_two_children_at_once_where_there_is_room",
    "tight",
]
