"""Bytes as a network may hand them over: cut anywhere."""

from itertools import pairwise

from hypothesis import strategies as st


def cuts() -> st.SearchStrategy[list[int]]:
    """Where to cut, as places that may lie beyond the end."""
    return st.lists(st.integers(0, 400), max_size=12) | st.just(list(range(2_000)))


def chunked(body: bytes, at: list[int]) -> list[bytes]:
    """The same bytes, cut at these places; some chunks may be empty."""
    places = [0, *sorted(min(place, len(body)) for place in at), len(body)]
    return [body[start:end] for start, end in pairwise(places)]
