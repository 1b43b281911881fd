"""The page of the context: what takes the window, if its size is known or not."""

from codeagent.core.model import ModelRequest
from codeagent.tui.context_facts import context_facts
from codeagent.tui.status import UsageStatus


def test_nothing_is_said_of_what_is_free_in_a_window_whose_size_is_not_known() -> None:
    coming = ModelRequest(system="You are an agent.", messages=(), tools=())
    known = context_facts(UsageStatus(context_tokens=50, context_window=200), 0.8, coming, ())
    unknown = context_facts(UsageStatus(context_tokens=50), 0.8, coming, ())
    assert known.note == "50 of 200 tokens, 25%" and "· free" in repr(known.rows)
    assert unknown.note == "50 tokens; the size of the window is unknown" and "· free" not in repr(
        unknown.rows
    )
