"""Which names in a list may still become tools, by how the names of a source's tools begin."""

from codeagent.core.allow import AllowList
from codeagent.tools.misnamed import unknown_entries
from codeagent.tools.source import Listing
from tests.table import for_each


@for_each(
    ("entry", "prefix", "may"),
    [
        ("mcp__notes__find", "mcp__notes__", True),
        ("mcp__notes__*", "mcp__notes__", True),
        ("mcp__*", "mcp__notes__", True),
        ("m?p__notes__find", "mcp__notes__", True),
        ("*", "mcp__notes__", True),
        ("anything", "", True),
        ("mcp__other__find", "mcp__notes__", False),
        ("mcp__other__*", "mcp__notes__", False),
        ("mcp__notes", "mcp__notes__", False),
        ("raed", "mcp__notes__", False),
        ("raed*", "mcp__notes__", False),
    ],
)
def test_a_name_may_come_from_a_source_whose_names_begin_like_it(
    entry: str, prefix: str, *, may: bool
) -> None:
    assert Listing(prefix=prefix).may_match(entry) == may


def test_only_an_entry_that_nothing_can_bring_is_said_to_be_wrong() -> None:
    allow = AllowList((("read", "wr*", "raed", "later"), ("zzz*",)))
    said = unknown_entries(
        "the list of allowed tools", allow, ["read", "write"], lambda entry: entry == "later"
    )
    assert said == (
        "raed in the list of allowed tools is not a tool; did you mean read?",
        "zzz* in the list of allowed tools is not a tool; there are read, write",
    )
