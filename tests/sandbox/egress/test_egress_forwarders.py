"""The inner end of the way out, in each of its languages: bytes pass both ways, whole, and so do
their ends."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from codeagent.sandbox.egress.containers import _source
from codeagent.sandbox.exec_stream import script_text

SIZE = 3_000_000
LETTERS = (b"a", b"b", b"c", b"d")


@pytest.fixture(params=["python3", "perl"])
def language(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"no {name} on this machine")
    return name


@asynccontextmanager
async def forwarding(folder: Path, language: str, serve: object) -> AsyncIterator[int]:
    """The port of a forwarder that finds nothing but bash and one interpreter, before a server on
    its socket."""
    programs = folder / "programs"
    programs.mkdir()
    (programs / language).symlink_to(
        sys.executable if language == "python3" else shutil.which(language) or ""
    )
    os.chdir(folder)
    server = await asyncio.start_unix_server(serve, "s.sock")  # type: ignore[arg-type]  # a callback for streams
    arguments = ["-c", script_text("forward"), "codeagent", "s.sock", _source("py"), _source("pl")]
    process = await asyncio.create_subprocess_exec(
        "/bin/bash",
        "--norc",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": str(programs)},
    )
    try:
        assert process.stdout is not None
        word, port = (await process.stdout.readline()).split()
        assert word == b"ready"
        yield int(port)
    finally:
        process.kill()
        await process.wait()
        server.close()


async def test_many_bytes_pass_both_ways_on_many_connections_and_ends_are_passed_on(
    tmp_path: Path, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        whole = await reader.read(-1)
        writer.write(whole[::-1])
        await writer.drain()
        writer.close()

    async with forwarding(tmp_path, language, echo) as port:

        async def one(letter: bytes) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(letter * SIZE + b"end")
            writer.write_eof()
            answer = await reader.read(-1)
            writer.close()
            return answer

        answers = await asyncio.gather(*(one(letter) for letter in LETTERS))
        assert [
            answer == b"dne" + letter * SIZE
            for letter, answer in zip((b"a", b"b", b"c", b"d"), answers, strict=True)
        ] == [True] * 4


async def test_a_server_that_goes_away_ends_the_connection_and_the_next_one_works(
    tmp_path: Path, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hi")
        await writer.drain()
        writer.close()

    async with forwarding(tmp_path, language, leave) as port:
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read(-1) == b"hi"
            writer.write(b"x" * 100_000)
            writer.close()


async def test_with_neither_language_it_says_so(tmp_path: Path) -> None:
    arguments = ["-c", script_text("forward"), "codeagent", "s", "x", "y"]
    process = await asyncio.create_subprocess_exec(
        "/bin/bash",
        "--norc",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": str(tmp_path)},
    )
    out, _ = await process.communicate()
    assert out == b"none\n"
