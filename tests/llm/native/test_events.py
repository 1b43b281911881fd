"""Bodies of every kind become events, however their bytes are cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.llm.errors import NotAStream
from codeagent.llm.native import events
from codeagent.llm.native.events import EventParser, EventReader
from tests.servers import Turn, openai_stream

SSE = "text/event-stream"
STANDARD: dict[bytes, list[str]] = {
    b"data: a\n\ndata: b\n\n": ["a", "b"],
    b"data:a\r\n\r\ndata:  b\r\n\r\n": ["a", " b"],
    b"data: a\r\rdata: b\r\r": ["a", "b"],
    b"data: a\ndata: b\n\n": ["a\nb"],
    b"data\ndata\n\n": ["\n"],
    b": a comment\n:\n\ndata: a\n\n": ["a"],
    b"event: x\nid: 3\nretry: 9\ndata: a\nother: y\n\n": ["a"],
    b"event: x\n\ndatax: a\n\n data: b\n\n": [],
    b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n": ["a"],
    "data: größe 😀\u2028x\x0cy\n\n".encode(): ["größe 😀\u2028x\x0cy"],
    b"data: \xff\xfe\n\n": ["\ufffd\ufffd"],
    b"data: the blank line is missing\n": ["the blank line is missing"],
    b"data: the line's end is missing": ["the line's end is missing"],
    b"": [],
}


def parsed(stream: bytes, cuts: list[int]) -> list[str]:
    parser, heard = EventParser(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        heard += parser.feed(stream[start:end])
    return heard + parser.end()


@pytest.mark.parametrize("stream", STANDARD)
@given(data=st.data())
def test_a_stream_gives_the_same_events_wherever_its_bytes_are_cut(
    stream: bytes, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    assert parsed(stream, cuts) == STANDARD[stream]
    assert parsed(stream, list(range(1, len(stream)))) == STANDARD[stream]


def test_an_event_is_passed_on_as_soon_as_its_blank_line_has_come() -> None:
    assert EventParser().feed(b"data: a\r\r") == ["a"]
    assert EventParser().feed(b"data: a\n\ndata: b") == ["a"]


def test_a_line_without_an_end_and_an_event_without_an_end_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "_LARGEST", 1000)
    for chunk in (b"data: " + b"x" * 300, b"data: " + b"x" * 300 + b"\n"):
        parser = EventParser()
        with pytest.raises(ValueError, match="an event of the stream is larger than"):
            for _ in range(5):
                parser.feed(chunk)
    parser = EventParser()
    assert sum(len(parser.feed(b"data: " + b"x" * 300 + b"\n\n")) for _ in range(9)) == 9


def read(
    body: bytes, wire: events.WireFormat = "chat", content_type: str = SSE
) -> list[dict[str, object]]:
    reader = EventReader(wire, content_type)
    return [*reader.feed(body), *reader.end()]


def test_events_are_objects_and_what_follows_the_end_of_a_chat_is_not_read() -> None:
    assert read(b'data: {"a": 1}\n\ndata: 7\n\ndata: null\n\ndata: {"b": 2}\n\n') == [
        {"a": 1},
        {"b": 2},
    ]
    reader = EventReader("chat", SSE)
    assert list(reader.feed(b'data: {"a": 1}\n\ndata: [DONE]\n\ndata: {"b": 2}\n\n')) == [{"a": 1}]
    assert reader.done


def test_an_event_that_stops_in_the_middle_of_its_json_is_an_error() -> None:
    for stream in (b'data: {"a": \n\n', b'data: {"a": 1}\n\ndata: {"b"'):
        with pytest.raises(json.JSONDecodeError):
            read(stream)


def test_a_body_is_known_by_its_first_bytes_and_not_by_what_it_calls_itself() -> None:
    stream = openai_stream(Turn(text="größe"))
    assert read(b"\r\n" + stream, content_type="text/html") == read(stream)
    assert read(b" \n\n", content_type="text/html") == []
    reader = EventReader("chat", SSE)
    one_by_one = [event for byte in stream for event in reader.feed(bytes([byte]))]
    assert one_by_one == read(stream)


def test_the_first_letters_of_a_stream_are_one_that_was_cut() -> None:
    for field in (b"data:", b"event:", b"id:", b"retry:"):
        for size in range(len(field) + 1):
            assert read(field[:size], content_type="text/html") == [], field[:size]


def test_a_huge_body_that_is_not_a_stream_is_not_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_LARGEST", 1000)
    with pytest.raises(NotAStream, match="text that begins: xxx"):
        read(b"x" * 1001)


def test_a_whole_completion_of_another_format_is_not_an_answer() -> None:
    whole = b'{"object": "response", "output": []}'
    assert [event["type"] for event in read(whole, "responses")] == ["response.completed"]
    for wire in ("chat", "anthropic"):
        with pytest.raises(NotAStream, match="JSON that begins: "):
            read(whole, wire)  # type: ignore[arg-type]  # as given


def test_nothing_nested_too_deeply_gets_further() -> None:
    with pytest.raises(NotAStream):
        read(b"[" * 100_000)
