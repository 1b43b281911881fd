"""A list of allowed tools can only take away from what other lists allow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.errors import ConfigError
from codeagent.core.patterns import AllowList, split_names


def test_without_a_list_every_tool_may_be_used() -> None:
    assert (
        AllowList().allows("bash") and not AllowList() and AllowList().narrowed(None) == AllowList()
    )


def test_an_empty_list_allows_nothing() -> None:
    assert not AllowList().narrowed(()).allows("bash")


def test_names_and_patterns_over_whole_names() -> None:
    allow = AllowList().narrowed(["read", "mcp__github__*"])
    assert [
        name
        for name in ("read", "read_all", "Read", "mcp__github__x", "mcp__git")
        if allow.allows(name)
    ] == ["read", "mcp__github__x"]


def test_what_is_in_no_list_of_tools_is_found() -> None:
    assert AllowList().narrowed(["read", "mcp__*", "raed"]).unknown(["read", "bash"]) == (
        "mcp__*",
        "raed",
    )


def test_the_names_of_a_command_line_are_split_and_checked() -> None:
    assert split_names(" read, bash,,read ") == ("read", "bash")
    with pytest.raises(ConfigError, match="'bash\\(ls\\)' is not a tool's name"):
        split_names("read,bash(ls)")


_LISTS = st.lists(
    st.lists(st.sampled_from(["a", "b", "ab", "a*", "?", "*"]), max_size=3), max_size=3
)


@given(
    _LISTS,
    st.lists(st.sampled_from(["a", "b*", "*"]), max_size=3),
    st.sampled_from(["a", "b", "ab", "abc"]),
)
def test_a_further_list_never_allows_more(
    lists: list[list[str]], more: list[str], name: str
) -> None:
    allow = AllowList()
    for one in lists:
        allow = allow.narrowed(one)
    assert not (allow.narrowed(more).allows(name) and not allow.allows(name))
