"""What is said about the entries of a list of tools that no tool matches."""

from codeagent.core.patterns import AllowList
from codeagent.tools.misnamed import unknown_entries


def test_only_an_entry_that_nothing_can_bring_is_said_to_be_wrong() -> None:
    allow = AllowList((("read", "wr*", "raed", "later"), ("zzz*",)))
    said = unknown_entries(
        "the list of allowed tools", allow, ["read", "write"], lambda entry: entry == "later"
    )
    assert said == (
        "raed in the list of allowed tools is not a tool; did you mean read?",
        "zzz* in the list of allowed tools is not a tool; there are read, write",
    )
