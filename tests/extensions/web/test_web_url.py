"""Addresses are read in one way only, and no spelling of a near address passes as a host."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.net.web.url import WebUrl
from tests.table import for_each

_SPELLINGS = r"""
ftp://example.org/ file:///etc/passwd gopher://example.org/ //example.org/ example.org http:/example.org http://
https://user@example.org/ https://user:pass@example.org/ https://example.org@evil.example/ https://example.org\@evil/
http://2130706433/ http://0x7f000001/ http://0x7f.1/ http://0177.0.0.1/ http://127.1/ http://127.0.0.01/
http://017700000001/ http://[::ffff:7f00:1%1]/ http://[0:0:0:0:0:0:0:1]/ http://[::FFFF:127.0.0.1]/ http://::1/
http://intranet/ http://1.2.3/ http://example.org:0/ http://example.org:65536/ http://example.org:x/
http://example.org:080/ http://exa_mple..org/ http://localhost.:80/ http://localhost:99999/ http://①②⑦.0.0.1/
http://ⓔxample.org/ https://exam%70le.org/ http://example.org.%2e/ http://-a.example/
"""
_REFUSED = _SPELLINGS.split()


@for_each(
    "text", [*_REFUSED, "https://a.example/\r\nX: y", "https://a.exa mple/", "http://a.example\t/"]
)
def test_what_another_parser_could_read_as_another_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not an address|not a host"):
        WebUrl.parse(text)


@for_each(
    ("text", "read"),
    [
        ("HTTPS://API.Example.ORG:443/a?b=c#d", "https://api.example.org/a?b=c"),
        ("http://example.org", "http://example.org/"),
        ("https://example.org:8443/a b", "https://example.org:8443/a%20b"),
        ("https://example.org/ä?q=ö&r=%zz", "https://example.org/%C3%A4?q=%C3%B6&r=%25zz"),
        ("http://localhost:8000/x", "http://localhost:8000/x"),
        ("http://127.0.0.1/x", "http://127.0.0.1/x"),
        ("http://[::1]:8080/", "http://[::1]:8080/"),
    ],
)
def test_an_address_has_one_spelling(text: str, read: str) -> None:
    assert str(WebUrl.parse(text)) == read


@given(st.text(max_size=60))
def test_whatever_is_read_is_plain_ascii_and_is_read_the_same_again(text: str) -> None:
    for start in ("", "https://example.org/", "https://example.org/?"):
        try:
            url = WebUrl.parse(start + text)
        except ValueError:
            continue
        assert str(url).isascii() and str(url).isprintable() and " " not in str(url)
        assert WebUrl.parse(str(url)) == url


def test_a_reference_that_leads_to_another_kind_of_address_is_refused() -> None:
    page = WebUrl.parse("https://example.org/a/b")
    assert str(page.joined("../c?d#e")) == "https://example.org/c?d"
    assert str(page.joined("//other.example/x")) == "https://other.example/x"
    with pytest.raises(ValueError, match="not an address"):
        page.joined("javascript:alert(1)")
