"""Which names may still become tools of a source, by how the names of its tools begin."""

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
