"""A slow reader delays nobody and loses nothing durable."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.agent.emitter import Emitter, EventChannel
from codeagent.core.events import KnownEvent, Notice, TextDelta, ToolProgress, ToolUpdated
from tests.agent.doubles import MemoryJournal
from tests.effort import times


def event(kind: str, seq: int, text: str) -> KnownEvent:
    head: dict[str, Any] = {"seq": seq, "ts": 0.0, "session": "s"}
    match kind:
        case "text":
            return TextDelta(**head, text=text)
        case "a" | "b":
            return ToolUpdated(**head, call_id=kind, name="bash", text=text)
        case "progress":
            return ToolProgress(**head, call_id="a", name="bash", text=text)
        case _:
            return Notice(**head, code="x", text=text)


async def read_all(channel: EventChannel) -> list[KnownEvent]:
    channel.close()
    return [item async for item in channel]


@settings(max_examples=times(15))
@given(
    st.lists(
        st.tuples(st.sampled_from(["text", "a", "b", "durable"]), st.text(max_size=5)), max_size=60
    )
)
def test_durable_events_all_arrive_in_order_and_merged_deltas_keep_every_letter(
    items: list[tuple[str, str]],
) -> None:
    channel = EventChannel()
    for seq, (kind, text) in enumerate(items):
        channel.put(event(kind, seq, text))
    got = asyncio.run(read_all(channel))
    assert [e.text for e in got if e.type == "notice"] == [
        text for kind, text in items if kind == "durable"
    ]
    for kind in ("text", "a", "b"):
        arrived = "".join(
            e.text for e in got if getattr(e, "call_id", "text") == kind and e.type != "notice"
        )
        assert arrived == "".join(text for k, text in items if k == kind)


def test_a_reader_that_never_comes_does_not_fill_the_memory() -> None:
    channel = EventChannel()
    for seq in range(1000):
        channel.put(event("a", seq, "x" * 1000))
    (merged,) = asyncio.run(read_all(channel))
    assert isinstance(merged, ToolUpdated)
    assert len(merged.text) <= 65_536


def test_of_unread_progress_only_the_last_word_counts() -> None:
    channel = EventChannel()
    for seq, text in enumerate(["one", "two", "three"]):
        channel.put(event("progress", seq, text))
    (last,) = asyncio.run(read_all(channel))
    assert last.text == "three"


def test_a_quick_reader_gets_every_delta_as_it_comes() -> None:
    async def follow() -> list[str]:
        channel = EventChannel()
        reading = asyncio.ensure_future(_texts(channel))
        for seq, text in enumerate("abc"):
            channel.put(event("text", seq, text))
            await asyncio.sleep(0)
        channel.close()
        return await reading

    assert asyncio.run(follow()) == ["a", "b", "c"]


async def _texts(channel: EventChannel) -> list[str]:
    return [item.text async for item in channel if isinstance(item, TextDelta)]


def test_an_observer_gets_only_events_of_the_type_that_it_asked_for() -> None:
    emitter, every, notices = Emitter(MemoryJournal()), list[KnownEvent](), list[Notice]()
    emitter.observe(every.append)
    emitter.observe(notices.append, Notice)
    emitter.emit(TextDelta(text="hello"))
    emitter.notice("x", "y")
    assert [one.type for one in every] == ["text.delta", "notice"]
    assert [one.code for one in notices] == ["x"]
