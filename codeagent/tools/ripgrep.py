"""Runs ripgrep over an open directory and yields its matches, which are only hints: callers read the files again."""

import asyncio
import base64
import json
import os
import signal
import sysconfig
from asyncio import StreamReader
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.programs import find_program
from codeagent.core.tool import Failed, InvalidArgs

_CHUNK = 1 << 18
_LAST_WORDS_SECONDS = 2.0
"""Seconds to wait for a killed ripgrep, whose end must not delay the answer."""
_LONGEST_RECORD = 24 << 20
_SAME_FILES = (
    "--no-config",
    "--no-follow",
    "--no-messages",
    "--hidden",
    "--no-require-git",
    "--no-ignore-global",
    "--glob=!.git",
)
"""The options that select files: hidden ones as well, and only ignore rules of the workspace."""
_USAGE_ERRORS = ("regex parse error", "error parsing glob", "regex could not be compiled", "not allowed in a regex")


@dataclass(frozen=True)
class Query:
    pattern: str
    path: str
    """The directory or file to search, relative to the root."""
    glob: str | None = None
    literal: bool = False
    ignore_case: bool = False
    from_above: bool = False
    """Whether ignore files of folders above the root apply."""


@dataclass(frozen=True)
class MatchedLine:
    """A matching line, as ripgrep read it by path."""

    path: str
    line: int
    """From 1."""
    text: bytes
    """The line without its newline; UTF-8 if the file is UTF-16."""
    start: int
    end: int
    """Bytes of the first match in `text`."""


def find_ripgrep(workspace: Path) -> str | None:
    """Return the `rg` installed with codeagent, else one on PATH that is not in the workspace."""
    own = Path(sysconfig.get_path("scripts")) / "rg"
    if os.access(own, os.X_OK):
        return str(own)
    return find_program("rg", workspace)


async def search(program: str, root: int, query: Query) -> AsyncGenerator[MatchedLine, None]:
    """Yield matching lines in no particular order, as they are found; ending the iteration early stops ripgrep.

    `root` is a directory's descriptor, the child's working directory. Raises InvalidArgs with
    ripgrep's message for a bad pattern, Failed if it could not search.
    """
    found = False
    async with (
        _running(program, root, _arguments(query)) as (process, stdout, errors),
        aclosing(_records(stdout)) as records,
    ):
        async for record in records:
            hit = _hit(record)
            if hit is not None:
                found = True
                yield hit
        code = await process.wait()
        message = await errors
        if code not in (0, 1) and not found and message:
            raise _failure(message)


async def list_files(program: str, root: int, most: int, *, from_above: bool = False) -> list[str]:
    """Return the paths of at most `most` files that a search would look at, in no particular order.

    `root` as with `search`, `from_above` as in Query. Raises Failed if ripgrep could not list them.
    """
    parents = [] if from_above else ["--no-ignore-parent"]
    paths: list[str] = []
    rest = b""
    async with _running(program, root, ["--files", "--null", *_SAME_FILES, *parents, "./"]) as (_, stdout, errors):
        while len(paths) < most and (chunk := await stdout.read(_CHUNK)):
            *whole, rest = (rest + chunk).split(b"\0")
            paths += [os.fsdecode(path).removeprefix("./") for path in whole]
        if not paths and (message := await errors):
            raise _failure(message)
        return paths[:most]


@asynccontextmanager
async def _running(
    program: str, root: int, arguments: list[str]
) -> AsyncIterator[tuple[Process, StreamReader, "asyncio.Future[str]"]]:
    """Yield running ripgrep, its output, and its first words on standard error; at the end it is killed if needed."""
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        cwd=f"/proc/self/fd/{root}",
        pass_fds=(root,),
        env={"LC_ALL": "C.UTF-8"},
    )
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("both streams were asked for")
    errors = asyncio.ensure_future(_errors(process.stderr))
    try:
        yield process, process.stdout, errors
    finally:
        if process.returncode is None:
            _kill(process.pid)
        await asyncio.wait(
            {asyncio.ensure_future(_ended(process, process.stdout, errors))}, timeout=_LAST_WORDS_SECONDS
        )


def _kill(pid: int) -> None:
    """Kill a process; not with `Process.kill`, which steals the exit status from asyncio if it has just ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


async def _ended(process: Process, stdout: StreamReader, errors: "asyncio.Future[str]") -> None:
    """Wait for the end, after reading the pipes: asyncio reports an exit only once they were read to their end."""
    while await stdout.read(_CHUNK):
        pass
    await errors
    await process.wait()


def _arguments(query: Query) -> list[str]:
    arguments = ["--json", *_SAME_FILES]
    if query.path == "." and not query.from_above:
        arguments.append("--no-ignore-parent")
    if query.literal:
        arguments.append("--fixed-strings")
    arguments.append("--ignore-case" if query.ignore_case else "--case-sensitive")
    if query.glob is not None:
        arguments.append(f"--glob={query.glob}")
        arguments.append("--glob=!.git")
    return [*arguments, f"--regexp={query.pattern}", "--", f"./{query.path}"]


async def _records(stdout: StreamReader) -> AsyncGenerator[bytes, None]:
    """Yield the lines of standard output, without any that is longer than the largest file."""
    buffer = bytearray()
    dropping = False
    while chunk := await stdout.read(_CHUNK):
        buffer += chunk
        *lines, rest = bytes(buffer).split(b"\n") if b"\n" in chunk else (bytes(buffer),)
        buffer = bytearray(rest)
        for line in lines:
            if not dropping:
                yield line
            dropping = False
        if len(buffer) > _LONGEST_RECORD:
            dropping = True
            buffer.clear()


async def _errors(stderr: StreamReader) -> str:
    """Return the first words on standard error; the rest is read and dropped."""
    kept = b""
    while chunk := await stderr.read(_CHUNK):
        kept = (kept + chunk)[:2000]
    return kept.decode("utf-8", "replace").strip()


def _hit(record: bytes) -> MatchedLine | None:
    if not record.startswith(b'{"type":"match"'):
        return None
    data = json.loads(record)["data"]
    text = _bytes(data["lines"]).removesuffix(b"\n")
    matches = data["submatches"]
    start, end = (matches[0]["start"], matches[0]["end"]) if matches else (0, 0)
    path = os.fsdecode(_bytes(data["path"])).removeprefix("./").removeprefix("./")
    return MatchedLine(path, data["line_number"] or 0, text, start, min(end, len(text)))


def _bytes(value: dict[str, str]) -> bytes:
    return base64.b64decode(value["bytes"]) if "bytes" in value else value["text"].encode()


def _failure(message: str) -> InvalidArgs | Failed:
    said = message.removeprefix("rg: ")
    if any(words in message for words in _USAGE_ERRORS):
        return InvalidArgs(f"{said}\nSet literal to search for the text as it is.")
    return Failed(f"the search did not work: {said}")
