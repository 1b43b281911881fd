"""Which spellings are a host, and which hosts a rule is for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.hosts import HostRule, host_name, is_address, split_port
from tests.table import for_each


@for_each(
    "text",
    [
        "pypi.org",
        "files.pythonhosted.org",
        "xn--bcher-kva.example",
        "a-b.c1.example",
        "93.184.215.14",
        "[2606:2800:220:1::1]",
    ],
)
def test_a_name_in_its_one_spelling_is_itself(text: str) -> None:
    assert host_name(text) == text
    assert host_name(text.upper()) == text or is_address(text)


@for_each(
    "text",
    [
        "",
        ".",
        "org",
        "localhost",
        "pypi.org.",
        ".pypi.org",
        "pypi..org",
        "-a.example",
        "a-.example",
        "a_b.example",
        "pypi.org\0",
        "pypi.org ",
        " pypi.org",
        "pypi.org\n",
        "pypi%2eorg",
        "user@pypi.org",
        "pypi.org/x",
        "pypi.org#",
        "b\u00fccher.example",
        "pypi\u3002org",
        "p\u0443pi.org",
        "127.1",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "2130706433",
        "0x7f000001",
        "1.2.3.4.",
        "01.2.3.4",
        "1.2.3",
        "1.2.3.4.5",
        "256.1.1.1",
        "a.0x7f",
        "a.1",
        "::1",
        "[::1",
        "[0:0::1]",
        "[::ffff:1.2.3.4%1]",
        "[fe80::1%eth0]",
        "[::FFFF:127.0.0.1]",
        "a" * 64 + ".example",
        ".".join(["a" * 60] * 5),
    ],
)
def test_another_spelling_is_no_host(text: str) -> None:
    assert host_name(text) is None


def test_a_rule_for_a_name_is_for_that_name_on_the_ports_of_the_web() -> None:
    rule = HostRule.parse("PyPI.org")
    assert rule.matches("pypi.org", 443) and rule.matches("pypi.org", 80)
    assert not any(
        rule.matches(name, 443)
        for name in ("a.pypi.org", "xpypi.org", "pypi.org.evil.example", "org")
    )
    assert not rule.matches("pypi.org", 22)


def test_a_rule_with_a_port_is_for_that_port_alone() -> None:
    rule = HostRule.parse("example.org:8443")
    assert rule.matches("example.org", 8443)
    assert not rule.matches("example.org", 443)


def test_a_star_in_front_is_for_what_is_below_and_not_for_the_name_itself() -> None:
    rule = HostRule.parse("*.example.org")
    assert rule.matches("a.example.org", 443) and rule.matches("a.b.example.org", 80)
    assert not any(
        rule.matches(name, 443)
        for name in ("example.org", "evilexample.org", "a.example.org.evil.example")
    )


def test_a_star_is_every_name_and_no_address() -> None:
    rule = HostRule.parse("*")
    assert rule.matches("anything.example", 443)
    assert not any(rule.matches(name, 443) for name in ("93.184.215.14", "[2606:2800:220:1::1]"))
    assert not rule.matches("anything.example", 22)


def test_an_address_is_reached_only_by_a_rule_that_is_this_address() -> None:
    assert HostRule.parse("93.184.215.14").matches("93.184.215.14", 443)
    assert HostRule.parse("[2606:2800:220:1::1]:8443").matches("[2606:2800:220:1::1]", 8443)
    assert not HostRule.parse("93.184.215.14").matches("93.184.215.15", 443)


@for_each(
    "text",
    [
        "",
        "*.",
        "*.org",
        "**",
        "*x.org",
        "a.*.org",
        "example.org:0",
        "example.org:70000",
        "example.org:x",
        "*:80",
        "https://example.org",
        "example.org/path",
        "*.1.2.3.4",
        "localhost",
        "a b.example",
    ],
)
def test_a_rule_that_says_nothing_clear_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"host|wide|below"):
        HostRule.parse(text)


@given(st.text(max_size=30))
def test_no_text_is_read_as_a_host_but_in_one_spelling(text: str) -> None:
    name = host_name(text)
    assert name is None or (name == text.lower() and host_name(name) == name and name.isascii())


@given(st.text(max_size=30), st.sampled_from(["pypi.org", "*.pypi.org"]))
def test_a_rule_never_matches_what_is_neither_the_name_nor_below_it(text: str, rule: str) -> None:
    name, port = split_port(text)
    if name is not None and HostRule.parse(rule).matches(name, port or 443):
        assert name == "pypi.org" or name.endswith(".pypi.org")


@for_each(
    ("wider", "narrower"),
    [
        ("*", "a.org"),
        ("*", "*.a.org"),
        ("*", "*"),
        ("*.a.org", "x.a.org"),
        ("*.a.org", "*.x.a.org"),
        ("*.a.org", "*.a.org"),
        ("a.org", "a.org"),
        ("a.org", "a.org:443"),
        ("a.org:8443", "a.org:8443"),
        ("1.1.1.1", "1.1.1.1"),
    ],
)
def test_a_rule_covers_what_lets_nothing_more_through(wider: str, narrower: str) -> None:
    assert HostRule.parse(wider).covers(HostRule.parse(narrower))


@for_each(
    ("rule", "other"),
    [
        ("a.org", "b.org"),
        ("a.org", "x.a.org"),
        ("*.a.org", "a.org"),
        ("*.a.org", "*"),
        ("a.org", "*.a.org"),
        ("a.org", "*"),
        ("*", "a.org:8443"),
        ("a.org:443", "a.org"),
        ("*", "1.1.1.1"),
        ("*.a.org", "xa.org"),
    ],
)
def test_a_rule_does_not_cover_what_lets_anything_else_through(rule: str, other: str) -> None:
    assert not HostRule.parse(rule).covers(HostRule.parse(other))
