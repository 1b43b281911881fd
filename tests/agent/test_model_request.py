"""What a model streams as events: the first piece at once, and nothing lost or out of order."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from codeagent.agent.emitter import Emitter
from codeagent.agent.model_request import StreamedAnswer
from codeagent.core.errors import ModelError
from codeagent.core.events import KnownEvent, Notice, ProviderToolUsed
from codeagent.core.messages import AssistantMessage, ImagePart, ToolCall, Usage
from codeagent.core.model import (
    CallClosed,
    CallGrowing,
    ModelAnswer,
    ModelEvent,
    ModelRequest,
    ProviderUse,
    ReasoningPiece,
    TextPiece,
    ToolsLeftOut,
)
from tests.agent.doubles import MemoryJournal, MemoryOutputs
from tests.provider_streams import PNG

TURN = "the event loop turns"
CALL = ToolCall(id="c1", name="read", arguments="{}")
ANSWER = ModelAnswer(AssistantMessage(text="ab", calls=(CALL,)), Usage())


class Streamed:
    """A model that gives these things; `TURN` stands for a wait."""

    name, context_window = "streamed", None

    def __init__(self, things: Sequence[Any]) -> None:
        self._things = things

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for thing in self._things:
            if thing == TURN:
                await asyncio.sleep(0)
            elif isinstance(thing, Exception):
                raise thing
            else:
                yield thing

    async def close(self) -> None:
        return None


async def emitted(things: Sequence[Any]) -> list[tuple[str, str]]:
    """Type of each event, and its text."""
    events: list[KnownEvent] = []
    emitter = Emitter(MemoryJournal())
    emitter.observe(events.append)
    executor: Any = None  # only an answer that breaks off within a call needs it
    try:
        await StreamedAnswer(emitter, executor, set(), executor).receive(Streamed(things), ModelRequest("", (), ()))
    except ModelError:
        pass
    count = len(events)
    await asyncio.sleep(0)
    assert len(events) == count
    return [(event.type, getattr(event, "text", "")) for event in events]


async def test_the_first_piece_is_an_event_and_what_comes_in_the_same_turn_of_the_loop_another() -> None:
    pieces = [TextPiece("a"), TextPiece("b"), TextPiece("c"), TURN, TextPiece("d"), TextPiece("e")]
    assert await emitted([*pieces, CallClosed(CALL), ANSWER]) == [
        ("text.delta", "a"),
        ("text.delta", "bc"),
        ("text.delta", "d"),
        ("text.delta", "e"),
        ("tool.call", ""),
    ]


async def test_what_the_provider_did_is_an_event_where_it_came_and_an_image_that_cannot_be_saved_is_said() -> None:
    events: list[KnownEvent] = []
    emitter = Emitter(MemoryJournal())
    emitter.observe(events.append)
    executor: Any = SimpleNamespace(outputs=MemoryOutputs())
    drawn = ProviderUse(tool="image_generation", images=(ImagePart(media_type="image/png", data=PNG),))
    things = [TextPiece("a"), TextPiece("b"), drawn, TextPiece("c"), ToolsLeftOut("m", ("web_search",)), ANSWER]
    await StreamedAnswer(emitter, executor, set(), executor).receive(Streamed(things), ModelRequest("", (), ()))
    assert [event.type for event in events] == [
        "text.delta", "text.delta", "provider.used", "text.delta", "notice", "tool.call"
    ]  # fmt: skip
    use, notice = events[2], events[4]
    assert isinstance(use, ProviderToolUsed) and isinstance(notice, Notice)
    assert (use.images, use.error) == ((), "an image could not be saved: nothing but text is kept here")
    assert use.told() == f"image_generation\n  failed: {use.error}"
    assert notice.text == "m has no web_search of its provider's own that can be used here: not sent"


async def test_the_arguments_of_two_calls_are_never_joined_in_one_event() -> None:
    pieces = [CallGrowing("c1", "write", "{"), CallGrowing("c1", "write", "}"), CallGrowing("c2", "write", "{")]
    assert await emitted([*pieces, ModelAnswer(AssistantMessage(), Usage())]) == [
        ("tool.arguments", "{"),
        ("tool.arguments", "}"),
        ("tool.arguments", "{"),
    ]


async def test_what_came_before_a_stream_breaks_is_an_event() -> None:
    broken = ModelError("it broke", kind="cut")
    assert await emitted([TextPiece("a"), TextPiece("b"), broken]) == [("text.delta", "a"), ("text.delta", "b")]


@given(
    st.lists(
        st.one_of(
            st.just(TURN),
            st.builds(TextPiece, st.text("ab", min_size=1)),
            st.builds(ReasoningPiece, st.text("xy", min_size=1)),
            st.builds(CallGrowing, st.just("call_1"), st.just("write"), st.text("{}", min_size=1)),
        )
    )
)
def test_merged_pieces_are_the_same_text_in_the_same_order(things: list[Any]) -> None:
    kinds = {TextPiece: "text.delta", ReasoningPiece: "reasoning.delta", CallGrowing: "tool.arguments"}
    expected = [(kinds[type(thing)], thing.text) for thing in things if thing != TURN]

    def joined(events: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return [(kind, "".join(text for _, text in group)) for kind, group in groupby(events, lambda event: event[0])]

    assert joined(asyncio.run(emitted([*things, ModelAnswer(AssistantMessage(), Usage())]))) == joined(expected)
