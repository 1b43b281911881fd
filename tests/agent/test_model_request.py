"""What a model streams as events: the first piece at once, and nothing lost or out of order."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.agent.batches import EarlyCalls
from codeagent.agent.emitter import Emitter
from codeagent.agent.model_request import StreamedAnswer
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import ModelError
from codeagent.core.events import KnownEvent, Notice, ProviderToolUsed
from codeagent.core.messages import AssistantMessage, ImagePart, ToolCall, Usage
from codeagent.core.model import (
    Adapted,
    AnswerBegun,
    CallClosed,
    CallGrowing,
    FellBack,
    ModelAnswer,
    ModelEvent,
    ModelRequest,
    ProviderUse,
    ReasoningPiece,
    Retrying,
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


def streamed_answer(
    emitter: Emitter, executor: Any, *, stops: bool = False, most: int = 500
) -> StreamedAnswer:
    early = EarlyCalls(executor, lambda call, number: False, lambda results: None, CancelToken())
    return StreamedAnswer(
        emitter, executor, set(), executor, early, most_repeated=most, attended=not stops
    )


async def emitted(things: Sequence[Any]) -> list[tuple[str, str]]:
    """Type of each event, and its text."""
    events: list[KnownEvent] = []
    emitter = Emitter(MemoryJournal())
    emitter.observe(events.append)
    executor: Any = None  # only an answer that breaks off within a call needs it
    try:
        await streamed_answer(emitter, executor).receive(Streamed(things), ModelRequest("", (), ()))
    except ModelError:
        pass
    count = len(events)
    await asyncio.sleep(0)
    assert len(events) == count
    return [(event.type, getattr(event, "text", "")) for event in events]


async def test_the_first_piece_is_an_event_and_what_comes_in_the_same_turn_of_the_loop_another() -> (
    None
):
    pieces = [TextPiece("a"), TextPiece("b"), TextPiece("c"), TURN, TextPiece("d"), TextPiece("e")]
    assert await emitted([*pieces, CallClosed(CALL), ANSWER]) == [
        ("text.delta", "a"),
        ("text.delta", "bc"),
        ("text.delta", "d"),
        ("text.delta", "e"),
        ("tool.call", ""),
    ]


async def test_what_the_provider_did_is_an_event_where_it_came_and_an_image_that_cannot_be_saved_is_said() -> (
    None
):
    events: list[KnownEvent] = []
    emitter = Emitter(MemoryJournal())
    emitter.observe(events.append)
    executor: Any = SimpleNamespace(outputs=MemoryOutputs())
    drawn = ProviderUse(
        tool="image_generation", images=(ImagePart(media_type="image/png", data=PNG),)
    )
    things = [
        TextPiece("a"),
        TextPiece("b"),
        drawn,
        TextPiece("c"),
        ToolsLeftOut("m", ("web_search",)),
        ANSWER,
    ]
    await streamed_answer(emitter, executor).receive(Streamed(things), ModelRequest("", (), ()))
    assert [event.type for event in events] == [
        "text.delta",
        "text.delta",
        "provider.used",
        "text.delta",
        "notice",
        "tool.call",
    ]
    use, notice = events[2], events[4]
    assert isinstance(use, ProviderToolUsed) and isinstance(notice, Notice)
    assert (use.images, use.error) == (
        (),
        "an image could not be saved: nothing but text is kept here",
    )
    assert use.told() == f"image_generation\n  failed: {use.error}"
    assert (
        notice.text == "m has no web_search of its provider's own that can be used here: not sent"
    )


async def test_the_arguments_of_two_calls_are_never_joined_in_one_event() -> None:
    pieces = [
        CallGrowing("c1", "write", "{"),
        CallGrowing("c1", "write", "}"),
        CallGrowing("c2", "write", "{"),
    ]
    assert await emitted([*pieces, ModelAnswer(AssistantMessage(), Usage())]) == [
        ("tool.arguments", "{"),
        ("tool.arguments", "}"),
        ("tool.arguments", "{"),
    ]


async def test_what_came_before_a_stream_breaks_is_an_event() -> None:
    broken = ModelError("it broke", kind="cut")
    assert await emitted([TextPiece("a"), TextPiece("b"), broken]) == [
        ("text.delta", "a"),
        ("text.delta", "b"),
    ]


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
    kinds = {
        TextPiece: "text.delta",
        ReasoningPiece: "reasoning.delta",
        CallGrowing: "tool.arguments",
    }
    expected = [(kinds[type(thing)], thing.text) for thing in things if thing != TURN]

    def joined(events: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return [
            (kind, "".join(text for _, text in group))
            for kind, group in groupby(events, lambda event: event[0])
        ]

    assert joined(
        asyncio.run(emitted([*things, ModelAnswer(AssistantMessage(), Usage())]))
    ) == joined(expected)


class Closing(Streamed):
    """Says whether its stream was closed."""

    closed = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            async for event in super().stream(request):
                yield event
        finally:
            self.closed = True


def began(price: float | None = 0.001) -> AnswerBegun:
    """Counts a token for each character."""

    def count(said: AssistantMessage) -> Usage:
        told = len(said.text)
        return Usage(
            output_tokens=told, cost_usd=None if price is None else told * price, estimated=True
        )

    return AnswerBegun(count)


async def test_an_answer_that_repeats_itself_is_pointed_out_once_while_it_streams() -> None:
    events = await emitted([began(), *[TextPiece("1/")] * 2000, TURN, TextPiece("end"), ANSWER])
    told = [text for kind, text in events if kind == "notice"]
    assert told == [
        "the answer repeats “1/”, so far for about 512 tokens; stop it if it is of no use"
    ]
    before = events[: next(at for at, (kind, _) in enumerate(events) if kind == "notice")]
    assert 1000 <= len("".join(text for kind, text in before if kind == "text.delta")) <= 2048
    assert "".join(text for kind, text in events if kind == "text.delta") == "1/" * 2000 + "end"


@pytest.mark.parametrize(
    "piece", [TextPiece("1/"), ReasoningPiece("1/"), CallGrowing("c1", "write", "1/")]
)
async def test_it_is_stopped_if_nobody_is_there_and_what_came_is_kept_and_counted(
    piece: Any,
) -> None:
    emitter, executor = Emitter(MemoryJournal()), SimpleNamespace()
    answer, model = (
        streamed_answer(emitter, executor, stops=True),
        Closing([began(), *[piece] * 5000, ANSWER]),
    )
    with pytest.raises(ModelError, match="the answer repeats “1/”, so far for about") as caught:
        await answer.receive(model, ModelRequest("", (), ()))
    assert caught.value.kind == "cut" and model.closed
    kept = await answer.partial()
    if isinstance(piece, TextPiece):
        assert kept is not None and answer.usage.output_tokens == len(kept.text)
    assert 1000 < answer.usage.output_tokens < 8000 and answer.usage.estimated
    assert answer.usage.cost_usd == answer.usage.output_tokens * 0.001


@pytest.mark.parametrize(
    "void", [Retrying("it broke", 2, 0.0), FellBack("it broke", "other"), Adapted("asked again")]
)
async def test_what_an_attempt_said_that_failed_does_not_count_for_the_next(
    void: ModelEvent,
) -> None:
    emitter, executor = Emitter(MemoryJournal()), SimpleNamespace()
    answer = streamed_answer(emitter, executor, stops=True)
    half, broken = [TextPiece("1/")] * 400, ModelError("it broke", kind="cut")
    with pytest.raises(ModelError, match="it broke"):
        await answer.receive(
            Streamed([began(), *half, void, began(), *half, broken]), ModelRequest("", (), ())
        )
    assert answer.usage.output_tokens == 800


async def test_a_request_that_was_not_answered_counts_nothing_and_a_whole_answer_is_what_the_provider_says() -> (
    None
):
    emitter, executor = Emitter(MemoryJournal()), SimpleNamespace()
    for things in (
        [ModelError("no", kind="server")],
        [began(), Retrying("it broke", 2, 0.0), ModelError("no", kind="server")],
    ):
        answer = streamed_answer(emitter, executor)
        with pytest.raises(ModelError):
            await answer.receive(Streamed(things), ModelRequest("", (), ()))
        assert answer.usage == Usage()
    said = Usage(input_tokens=3, output_tokens=4, cost_usd=0.5)
    answer = streamed_answer(emitter, executor)
    await answer.receive(
        Streamed([began(), TextPiece("a"), ModelAnswer(AssistantMessage(text="a"), said)]),
        ModelRequest("", (), ()),
    )
    assert answer.usage == said
