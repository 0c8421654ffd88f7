"""What a wire replaces can be put back."""

from headgate.core.agents.replaced_variables import VARIABLE, put_back, remember


def test_what_was_replaced_is_put_back() -> None:
    """Values come back, and what was not there before is gone."""
    before = {"HTTPS_PROXY": "http://mine:1", "PATH": "/bin"}
    ours = {"HTTPS_PROXY": "http://127.0.0.1:2", "SSL_CERT_FILE": "/x.pem"}
    within = {**before, **ours, VARIABLE: remember(ours, before)}
    assert {n: v for n, v in put_back(within).items() if n != VARIABLE} == before


def test_a_wire_within_a_wire_remembers_the_outside() -> None:
    """What the outer one has set is not what was there before."""
    before = {"A": "1"}
    outer = {**before, "A": "2", VARIABLE: remember({"A": "2"}, before)}
    inner = {**outer, "A": "3", "B": "4", VARIABLE: remember({"A": "3", "B": "4"}, outer)}
    assert {n: v for n, v in put_back(inner).items() if n != VARIABLE} == before


def test_what_cannot_be_read_changes_nothing() -> None:
    """A value that is no object of texts is as good as none."""
    for text in ("", "{", "[1]", "3"):
        assert put_back({"A": "1", VARIABLE: text})["A"] == "1"
