"""The accumulator: whatever way a server cuts its answer into pieces, the same message comes
out."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.errors import ModelError
from codeagent.core.messages import AssistantMessage, Thinking, ToolCall
from codeagent.core.model import CallClosed, CallGrowing, ModelEvent, ReasoningPiece, TextPiece
from codeagent.llm.stream import Accumulator, CallPiece, Delta


def settled(events: list[ModelEvent]) -> list[ModelEvent]:
    """Leave out the pieces of arguments."""
    return [event for event in events if not isinstance(event, CallGrowing)]


def assemble(
    *deltas: Delta, taken: tuple[str, ...] = ()
) -> tuple[list[ModelEvent], AssistantMessage]:
    accumulator = Accumulator(taken)
    events = [event for delta in deltas for event in settled(accumulator.add(delta))]
    closed, message = accumulator.finish("m")
    return [*events, *closed], message


def call(index: int | None, id: str | None, name: str | None, arguments: str = "") -> Delta:  # noqa: A002  # the wire's word
    return Delta(calls=(CallPiece(index, id, name, arguments),))


def pairs(message: AssistantMessage) -> list[tuple[str, str]]:
    return [(each.name, each.arguments) for each in message.calls]


STOP = Delta(finish="stop")


def test_text_and_reasoning_are_joined_and_streamed() -> None:
    thought = [Delta(thinking=(Thinking(text=piece),)) for piece in ("hm", "m")]
    events, message = assemble(*thought, Delta(text="a"), Delta(text="b"), STOP)
    assert events == [ReasoningPiece("hm"), ReasoningPiece("m"), TextPiece("a"), TextPiece("b")]
    assert message == AssistantMessage(
        text="ab", thinking=(Thinking(text="hmm"),), stop="end", model="m"
    )


def test_a_call_closes_when_the_next_one_begins_and_the_last_at_the_end() -> None:
    accumulator = Accumulator()
    assert settled(accumulator.add(call(0, "call_one_1", "read", '{"path": '))) == []
    assert settled(accumulator.add(call(0, None, None, '"a"}'))) == []
    first = CallClosed(ToolCall(id="call_one_1", name="read", arguments='{"path": "a"}'))
    assert settled(accumulator.add(call(1, "call_two_2", "bash", "{}"))) == [first]
    accumulator.add(STOP)
    closed, message = accumulator.finish("m")
    assert closed == [CallClosed(ToolCall(id="call_two_2", name="bash", arguments="{}"))]
    assert message.stop == "tool_calls"


def test_a_call_that_is_not_whole_waits_though_the_next_one_begins() -> None:
    events, message = assemble(
        call(0, "call_aaaa", "read"),
        call(1, "call_bbbb", "bash"),
        call(0, None, None, '{"path":'),
        call(1, None, None, '{"command":'),
        call(0, None, None, '"a"}'),
        call(1, None, None, '"b"}'),
        STOP,
    )
    assert pairs(message) == [("read", '{"path":"a"}'), ("bash", '{"command":"b"}')]
    assert [event.call for event in events if isinstance(event, CallClosed)] == list(message.calls)


def test_a_call_that_ends_waits_for_those_that_began_before_it() -> None:
    accumulator = Accumulator()
    accumulator.add(
        Delta(
            calls=(
                CallPiece(0, "call_aaaa", "write", '{"path": '),
                CallPiece(1, "call_bbbb", "read"),
            )
        )
    )
    assert settled(accumulator.add(Delta(calls=(CallPiece(1, arguments="{}", ends=True),)))) == []
    closed = settled(accumulator.add(Delta(calls=(CallPiece(0, arguments='"a"}', ends=True),))))
    assert [event.call.id for event in closed if isinstance(event, CallClosed)] == [
        "call_aaaa",
        "call_bbbb",
    ]


@pytest.mark.parametrize(
    "piece", [CallPiece(0, None, "read", "{", ends=True), CallPiece(0, None, None, "{}", True)]
)
def test_a_block_that_ends_without_a_whole_call_closes_none(piece: CallPiece) -> None:
    assert settled(Accumulator().add(Delta(calls=(piece,)))) == []


def test_calls_decide_and_not_the_providers_word() -> None:
    assert assemble(call(0, "call_aaaa", "x", "{}"), Delta(finish="stop"))[1].stop == "tool_calls"
    assert assemble(Delta(text="x"), Delta(finish="tool_calls"))[1].stop == "end"


@pytest.mark.parametrize("word", ["length", "max_tokens", "MAX_TOKENS"])
def test_an_answer_at_its_limit_closes_no_open_call(word: str) -> None:
    events, message = assemble(call(0, "call_aaaa", "write", '{"path": "a'), Delta(finish=word))
    assert message.stop == "length"
    assert events == []
    assert pairs(message) == [("write", '{"path": "a')]


@pytest.mark.parametrize("word", ["content_filter", "refusal", "SAFETY"])
def test_a_refusal_is_told_from_an_end(word: str) -> None:
    assert assemble(Delta(text="no"), Delta(finish=word))[1].stop == "content_filter"


def test_a_stream_without_its_end_is_cut() -> None:
    accumulator = Accumulator()
    accumulator.add(call(0, "call_aaaa", "read", '{"path": "a"}'))
    with pytest.raises(ModelError) as caught:
        accumulator.finish("m")
    assert (caught.value.kind, caught.value.retryable) == ("cut", True)


def test_calls_without_index_are_told_apart_by_id() -> None:
    deltas = [
        call(None, "call_aaaa", "a", '{"x":'),
        call(None, None, None, "1}"),
        call(None, "call_bbbb", "b", '{"y":2}'),
    ]
    assert pairs(assemble(*deltas, STOP)[1]) == [("a", '{"x":1}'), ("b", '{"y":2}')]


def test_calls_without_index_and_id_are_told_apart_by_name() -> None:
    assert pairs(assemble(call(None, None, "a", "{}"), call(None, None, "b", "{}"), STOP)[1]) == [
        ("a", "{}"),
        ("b", "{}"),
    ]


def test_one_index_for_several_calls_is_told_apart_by_id() -> None:
    deltas = [
        call(0, "call_aaaa", "a", '{"x":1}'),
        call(0, "call_bbbb", "b", '{"y"'),
        call(0, None, None, ":2}"),
    ]
    assert pairs(assemble(*deltas, STOP)[1]) == [("a", '{"x":1}'), ("b", '{"y":2}')]


def test_one_index_and_no_ids_is_told_apart_by_whole_calls() -> None:
    assert pairs(
        assemble(call(0, None, "a", '{"x":1}'), call(0, None, "a", '{"x":2}'), STOP)[1]
    ) == [("a", '{"x":1}'), ("a", '{"x":2}')]


def test_missing_short_and_used_ids_are_replaced() -> None:
    used = "call_used_before"
    deltas = [
        call(0, None, "a", "{}"),
        call(1, "0", "b", "{}"),
        call(2, used, "c", "{}"),
        call(3, "call_fresh", "d", "{}"),
    ]
    _, message = assemble(*deltas, STOP, taken=(used,))
    ids = [each.id for each in message.calls]
    assert len(set(ids)) == 4
    assert used not in ids
    assert "0" not in ids
    assert ids[3] == "call_fresh"


def test_the_same_id_for_two_calls_gives_two_ids() -> None:
    _, message = assemble(
        call(0, "call_aaaa", "a", '{"x":1}'), call(1, "call_aaaa", "a", '{"x":2}'), STOP
    )
    assert len({each.id for each in message.calls}) == 2


def test_a_call_that_is_sent_twice_runs_once() -> None:
    events, message = assemble(
        call(0, "call_aaaa", "a", '{"x":1}'), call(1, "call_aaaa", "a", '{"x":1}'), STOP
    )
    assert pairs(message) == [("a", '{"x":1}')]
    assert len(events) == 1


def test_names_and_ids_repeated_in_every_piece_change_nothing() -> None:
    deltas = [
        call(0, "call_aaaa", "read", '{"path"'),
        call(0, "call_aaaa", "read", ':"a"}'),
        call(0, "", "", ""),
    ]
    assert pairs(assemble(*deltas, STOP)[1]) == [("read", '{"path":"a"}')]


def test_a_whole_call_repeated_at_its_end_changes_nothing() -> None:
    deltas = [
        call(0, "call_aaaa", "read", '{"path":"a"}'),
        call(0, "call_aaaa", "read", '{"path":"a"}'),
    ]
    assert pairs(assemble(*deltas, STOP)[1]) == [("read", '{"path":"a"}')]


def test_an_empty_object_before_or_after_the_arguments_is_no_part_of_them() -> None:
    before = [
        call(0, "call_aaaa", "read", "{}"),
        call(0, None, None, '{"path":'),
        call(0, None, None, '"a"}'),
    ]
    after = [call(0, "call_aaaa", "read", '{"path":"a"}'), call(0, None, None, "{}")]
    assert (
        pairs(assemble(*before, STOP)[1])
        == pairs(assemble(*after, STOP)[1])
        == [("read", '{"path":"a"}')]
    )


def test_a_closed_call_that_goes_on_is_an_error() -> None:
    accumulator = Accumulator()
    accumulator.add(call(0, "call_aaaa", "a", '{"x":1}'))
    accumulator.add(call(1, "call_bbbb", "b"))
    with pytest.raises(ModelError, match="continued the call of a"):
        accumulator.add(call(0, None, None, ',"y":2}'))


@pytest.mark.parametrize("prefix", ["srvtoolu_", "mcptoolu_"])
def test_calls_the_provider_runs_itself_are_left_out(prefix: str) -> None:
    events, message = assemble(
        call(0, prefix + "01", "web_search", '{"query": "x"}'),
        call(1, "toolu_01", "read", "{}"),
        STOP,
    )
    assert pairs(message) == [("read", "{}")]
    assert len(events) == 1


def test_signed_and_redacted_thinking_stay_blocks_of_their_own() -> None:
    _, message = assemble(
        Delta(thinking=(Thinking(text="one "),)),
        Delta(thinking=(Thinking(text="more"),)),
        Delta(thinking=(Thinking(signature="s1"),)),
        Delta(thinking=(Thinking(redacted="opaque"),)),
        Delta(thinking=(Thinking(text="two"),)),
        Delta(thinking=(Thinking(signature="s2"),)),
        Delta(text="x"),
        STOP,
    )
    assert message.thinking == (
        Thinking(text="one more", signature="s1"),
        Thinking(redacted="opaque"),
        Thinking(text="two", signature="s2"),
    )


def test_halves_of_a_character_are_joined_and_lone_ones_replaced() -> None:
    events, message = assemble(
        Delta(text="a\ud83d"), Delta(text="\ude00b"), Delta(text="\ud83d"), Delta(text="c"), STOP
    )
    assert message.text == "a😀b�c"
    assert "".join(event.text for event in events if isinstance(event, TextPiece)) == message.text
    assert pairs(
        assemble(call(0, "call_aaaa", "w", '{"x":"\ud83d'), call(0, None, None, '\ude00"}'), STOP)[
            1
        ]
    ) == [("w", '{"x":"😀"}')]


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["read", "write", "bash"]),
        st.dictionaries(
            st.text(max_size=8),
            st.text(max_size=20) | st.integers() | st.lists(st.text(max_size=3)),
            max_size=4,
        ),
    ),
    max_size=4,
)


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]], list[Delta]]:
    """Text and calls, and one way of many to stream them: any pieces, calls in turn or
    interleaved."""
    text = draw(st.text(max_size=40))
    calls = [
        (name, json.dumps(arguments, ensure_ascii=draw(st.booleans())))
        for name, arguments in draw(CALLS)
    ]
    queues = [
        [
            call(index, f"call_number_{index}", name),
            *(call(index, None, None, piece) for piece in draw(cuts(arguments))),
        ]
        for index, (name, arguments) in enumerate(calls)
    ]
    deltas = [Delta(text=piece) for piece in draw(cuts(text))]
    if draw(st.booleans()):
        deltas += [delta for queue in queues for delta in queue]
    else:
        deltas += [queue.pop(0) for queue in queues]
        while any(queues):
            deltas.append(draw(st.sampled_from([queue for queue in queues if queue])).pop(0))
    return text, calls, [*deltas, Delta(finish="stop")]


@st.composite
def cuts(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@given(streams())
def test_any_cutting_into_pieces_gives_the_same_message(
    stream: tuple[str, list[tuple[str, str]], list[Delta]],
) -> None:
    text, calls, deltas = stream
    events, message = assemble(*deltas)
    assert message.text == text
    assert pairs(message) == calls
    closed = [event.call for event in events if isinstance(event, CallClosed)]
    assert sorted(closed, key=lambda each: each.id) == sorted(
        message.calls, key=lambda each: each.id
    )


@given(streams(), st.data())
def test_a_stream_cut_anywhere_gives_no_message_and_no_half_a_call(
    stream: tuple[str, list[tuple[str, str]], list[Delta]], data: st.DataObject
) -> None:
    _, calls, deltas = stream
    accumulator = Accumulator()
    kept = data.draw(st.integers(0, len(deltas) - 1))
    events = [event for delta in deltas[:kept] for event in accumulator.add(delta)]
    closed = [
        (event.call.name, event.call.arguments) for event in events if isinstance(event, CallClosed)
    ]
    assert all(each in calls for each in closed)
    with pytest.raises(ModelError):
        accumulator.finish("m")


def test_the_pieces_of_a_calls_arguments_are_told_as_they_come_and_together_are_the_arguments() -> (
    None
):
    accumulator, whole = Accumulator(), ('{"path": ', '"a.txt"', "}")
    told: list[ModelEvent] = []
    told += accumulator.add(Delta(calls=(CallPiece(0, "call_one_1", "write"),)))
    for piece in whole:
        told += accumulator.add(Delta(calls=(CallPiece(0, arguments=piece),)))
    told += accumulator.add(Delta(calls=(CallPiece(0, "call_one_1", "write", "".join(whole)),)))

    assert told == [CallGrowing("call_one_1", "write", piece) for piece in whole]
