"""The streams of a command: frames, and the last word behind a NUL."""

import asyncio
from pathlib import Path
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.exec import CallMark, Execution, TrailerFilter
from codeagent.sandbox.exec_stream import ExecStream
from codeagent.sandbox.spare import Wrapper
from tests.sandboxes import Ran

MARK = "0123456789abcdef"
TRAILER = f"\0{MARK} 2 0\n".encode()
tricky = st.lists(
    st.sampled_from(
        [
            b"\0",
            b"\0" + MARK.encode(),
            b"x",
            b"\n",
            MARK[:5].encode(),
            b"\0" + MARK[:7].encode(),
            b" ",
        ]
    )
).map(b"".join)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({place % (len(data) + 1) for place in places})
    return [data[a:b] for a, b in zip([0, *edges], [*edges, len(data)], strict=True)]


def filtered(pieces: list[bytes]) -> tuple[bytes, bytes | None]:
    trailer = TrailerFilter(MARK)
    output = b"".join(trailer.feed(piece) for piece in pieces)
    return output + trailer.flush(), trailer.report


@given(st.binary() | tricky, st.binary(max_size=40), st.lists(st.integers(0, 10_000)))
def test_the_trailer_is_found_and_taken_out_however_the_stream_is_cut(
    before: bytes, after: bytes, places: list[int]
) -> None:
    while (trailer := f"\0{MARK} ".encode()) in before:
        before = before.replace(trailer, b"")
    after = after.replace(b"\0", b"")
    assert filtered(cut(before + TRAILER + after, places)) == (before + after, b"2 0")


def test_reports_without_number_are_taken_out_of_one_piece() -> None:
    trailer = TrailerFilter(MARK)
    assert trailer.feed((b"x" + TRAILER) * 10_000) == b"x" * 10_000
    assert trailer.reports == 10_000


@given(st.integers(100, 6_000), st.lists(st.integers(0, 10_000)))
def test_what_is_too_long_for_a_report_is_output_however_the_stream_is_cut(
    length: int, places: list[int]
) -> None:
    forged = f"\0{MARK} {'9' * length} 0 0\n".encode()
    assert filtered(cut(forged + TRAILER, places)) == (forged, b"2 0")


@given(st.binary() | tricky, st.lists(st.integers(0, 10_000)))
def test_output_without_the_trailer_is_never_changed(data: bytes, places: list[int]) -> None:
    data = data.replace(f"\0{MARK} ".encode(), b"")
    assert filtered(cut(data, places)) == (data, None)


@given(
    st.lists(st.tuples(st.booleans(), st.binary(max_size=300)), max_size=8),
    st.lists(st.integers(0, 10_000), max_size=20),
)
def test_frames_come_apart_however_the_connection_cuts_them(
    frames: list[tuple[bool, bytes]], places: list[int]
) -> None:
    raw = b"".join(
        bytes([2 if err else 1, 0, 0, 0]) + len(data).to_bytes(4, "big") + data
        for err, data in frames
    )

    async def read() -> dict[bool, bytes]:
        reader = asyncio.StreamReader()
        stream = ExecStream(reader, None)  # type: ignore[arg-type]  # nothing is sent
        got = {False: b"", True: b""}
        chunks = cut(raw, places)

        async def feed() -> None:
            for chunk in chunks:
                reader.feed_data(chunk)
                await asyncio.sleep(0)
            reader.feed_eof()

        feeding = asyncio.ensure_future(feed())
        async for is_stderr, piece in stream.pieces():
            got[is_stderr] += piece
        await feeding
        return got

    expected = {
        kind: b"".join(data for err, data in frames if err is kind) for kind in (False, True)
    }
    assert asyncio.run(read()) == expected


@given(st.lists(st.integers(0, 10_000)))
def test_that_a_command_has_begun_is_known_however_the_stream_is_cut(places: list[int]) -> None:
    trailer = TrailerFilter(MARK)
    data = f"\0{MARK} begun\nhello".encode() + TRAILER
    output = b"".join(trailer.feed(piece) for piece in cut(data, places)) + trailer.flush()
    assert (output, trailer.begun, trailer.report) == (b"hello", True, b"2 0")


async def test_output_that_overtakes_the_word_of_its_begin_is_a_begin_too_however_slow_its_reader() -> (
    None
):
    reader, go_on = asyncio.StreamReader(), asyncio.Event()
    stream = ExecStream(reader, None)  # type: ignore[arg-type]  # nothing is sent

    async def on_output(stream: str, data: bytes) -> None:
        await go_on.wait()

    wrapper = Wrapper("exec", stream, stream.pieces())
    execution = Execution(Engine("/nonexistent"), wrapper, CallMark(MARK, 1), on_output)
    reader.feed_data(b"\1\0\0\0\0\0\0\5first")
    reader.feed_eof()
    await asyncio.wait_for(execution._begun.wait(), 30)
    assert not execution._pump.done()
    go_on.set()
    await execution._pump


class FullPipe:
    """A connection whose other side reads nothing more."""

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None:
        await asyncio.Event().wait()

    def close(self) -> None: ...


async def test_a_stop_that_cannot_be_sent_is_given_up_for_an_exec_of_its_own() -> None:
    stream = ExecStream(asyncio.StreamReader(), cast(asyncio.StreamWriter, FullPipe()))
    wrapper = Wrapper("exec", stream, stream.pieces())
    execution = Execution(Engine("/nonexistent"), wrapper, CallMark(MARK, 1), Ran())
    assert await asyncio.wait_for(execution.stop(), 30) == (None, False)
    await execution.close()


async def test_output_that_arrives_with_the_answers_headers_is_not_lost(tmp_path: Path) -> None:
    """An engine on a busy machine is read late; docker-py loses what has come by then (ADR 13)."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n"
            + b"\1\0\0\0\0\0\0\5first"
            + b"\2\0\0\0\0\0\0\1e"
        )
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "engine")
    stream = await ExecStream.open(Engine(str(tmp_path / "engine")), "exec", tty=False)
    assert [piece async for piece in stream.pieces()] == [(False, b"first"), (True, b"e")]
    stream.close()
    server.close()
