"""Which URLs are taken, and their parts."""

import pytest

from headgate.core.urls import Url, is_loopback, split_url


@pytest.mark.parametrize(
    "text, url",
    [
        ("http://h", Url("http", "h", 80, "/", "", "")),
        ("HTTPS://Api.Example:8443/a?b=c#d", Url("https", "api.example", 8443, "/a", "b=c", "")),
        ("https://me:p%40ss@h/", Url("https", "h", 443, "/", "", "me:p%40ss")),
        ("http://[::1]:0080?q", Url("http", "::1", 80, "/", "q", "")),
        ("https://bücher.example/ü", Url("https", "xn--bcher-kva.example", 443, "/ü", "", "")),
    ],
)
def test_urls(text: str, url: Url) -> None:
    """Scheme and host are in lower case, the port is the usual one unless it is said."""
    assert split_url(text) == url


@pytest.mark.parametrize(
    "text",
    ["", "h", "h:80", "ftp://h/", "//h/", "http://", "http:///a", "http://u@/", "http://h:/",
     "http://h:0/", "http://h:65536/", "http://h:x/", "http://h:-1/", "http://a b/", "http://h/ ",
     "http://h/\n", "http://a..b/", "http://.a/", "http://a%41/", "http://a\\b/", "http://[::1/",
     "http://[::1]x/", "http://[::g]/", "http://" + "a" * 64, "http://ü..b/"],
)  # fmt: skip
def test_no_urls(text: str) -> None:
    """Whatever cannot be asked is none."""
    assert split_url(text) is None


def test_what_is_sent_of_it() -> None:
    """A request has what HTTP allows; the usual port is left out where a server expects that."""
    url = split_url("http://me@[::1]:80/a b/ü?x=[1]&y=ä".replace(" ", "%20"))
    assert url is not None
    assert url.target == "/a%20b/%C3%BC?x=[1]&y=%C3%A4"
    assert (url.authority, url.host_and_port) == ("[::1]", "[::1]:80")
    assert url._replace(port=8080).authority == "[::1]:8080"


def test_it_shows_its_host_only() -> None:
    """Its path, its query and its user may be secret."""
    assert repr(split_url("http://me:hush@h/T0/xyz?t=token")) == "<Url h>"


@pytest.mark.parametrize(
    "host, own",
    [("localhost", True), ("a.localhost.", True), ("127.8.9.1", True), ("::1", True),
     ("localhost.example", False), ("10.0.0.1", False), ("::2", False), ("notlocalhost", False)],
)  # fmt: skip
def test_loopback(host: str, own: bool) -> None:  # noqa: FBT001
    """Names and addresses of this machine itself."""
    assert is_loopback(host) is own
