"""Chunk objects of every flavour become plain deltas."""

from types import SimpleNamespace
from typing import Any

from codeagent.core.messages import Thinking, WebSource
from codeagent.llm.native.chat import ChatReader, read_delta
from codeagent.llm.stream import CallPiece, Delta


def chunk(finish: str | None = None, **delta: Any) -> SimpleNamespace:
    return SimpleNamespace(
        choices=[SimpleNamespace(delta=SimpleNamespace(**delta), finish_reason=finish)]
    )


def test_a_chunk_without_choices_or_delta_is_empty() -> None:
    assert read_delta(SimpleNamespace(choices=[])) == Delta()
    assert read_delta(SimpleNamespace()) == Delta()
    assert read_delta(
        SimpleNamespace(choices=[SimpleNamespace(delta=None, finish_reason="stop")])
    ) == Delta(finish="stop")


def test_text_reasoning_and_refusal_are_found_under_each_name() -> None:
    assert read_delta(chunk(content="a", reasoning_content="b")) == Delta(
        text="a", thinking=(Thinking(text="b"),)
    )
    assert read_delta(chunk(content=None, reasoning="b")) == Delta(thinking=(Thinking(text="b"),))
    assert read_delta(chunk(content=None, refusal="no")) == Delta(text="no")


def test_content_in_parts_is_text_and_thinking() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "a"},
        "b",
    ]
    assert read_delta(chunk(content=parts)) == Delta(text="ab", thinking=(Thinking(text="hm"),))


def test_thinking_blocks_replace_the_reasoning_they_repeat() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
    ]
    assert read_delta(chunk(reasoning_content="hm", thinking_blocks=blocks)) == Delta(
        thinking=(Thinking(text="hm", signature="s"), Thinking(redacted="d"))
    )


def test_call_pieces_may_lack_anything() -> None:
    full = {"index": 1, "id": "x", "function": {"name": "read", "arguments": "{"}}
    bare = SimpleNamespace(function=SimpleNamespace(name=None, arguments=None))
    assert read_delta(chunk(tool_calls=[full, bare, None])).calls == (
        CallPiece(1, "x", "read", "{"),
        CallPiece(),
    )
    legacy = SimpleNamespace(name="read", arguments="{}")
    assert read_delta(chunk(function_call=legacy)).calls == (CallPiece(0, None, "read", "{}"),)


def test_what_a_server_cites_beside_its_choices_is_read_from_an_event_and_from_an_object_of_a_library() -> (
    None
):
    """Perplexity and xAI cite there; what strangers wrote must not go unnoticed."""
    found = {
        "search_results": [{"title": "A", "url": "https://a.example"}],
        "citations": ["https://b.example", 1],
    }
    cited = WebSource(title="A", url="https://a.example"), WebSource(url="https://b.example")
    for event in (
        {"choices": [], **found},
        SimpleNamespace(choices=chunk(content="So.").choices, **found),
    ):
        work = read_delta(event).work
        assert work is not None and work.cited == cited
    reader = ChatReader()
    list(reader.read({"choices": [], "usage": {"prompt_tokens": 1}, **found}))
    assert [piece.delta.finish for piece in reader.end()] == ["stop"]
