"""Runs ripgrep over an open directory and yields its matches, which are only hints: callers read
the files again.

Whatever the tree holds, memory stays bounded: files above a limit are not opened, none is mapped, a
record is at most 24 MB, and of a line no more than its digest is kept.
"""

import asyncio
import base64
import json
import os
import signal
from asyncio import StreamReader
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import field
from hashlib import blake2b
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.host_programs import SEARCH, start_program
from codeagent.core.lazy_regex import lazy_regex
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
_BOUNDED = ("--no-mmap", "--debug")
"""Read, never map; and say on standard error which files `--max-filesize` leaves out."""
_LEFT_OUT = lazy_regex(rb"(?:.*: ignoring \./)?(.*): [0-9]+ bytes")
"""The last line of what `--debug` says of a file above the limit; its name may contain newlines."""
_DEBUG = b"rg: DEBUG|"
_MOST_NAMED = 3
_BOM = b"\xef\xbb\xbf"
_USAGE_ERRORS = (
    "regex parse error",
    "error parsing glob",
    "regex could not be compiled",
    "not allowed in a regex",
)


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
    largest: int = 16 << 20
    """Bytes; a larger file is not searched."""
    seconds: float = 60.0
    """When the search is stopped, with what was found by then."""


@dataclass(frozen=True)
class MatchedLine:
    """A matching line, as ripgrep read it by path."""

    path: str
    line: int
    """From 1."""
    digest: bytes
    """Of the line without its newline, see `digest_of`; of its UTF-8 if the file is UTF-16."""
    before: int
    """Characters before the first match."""


@dataclass
class LeftOut:
    """What a search did not look at; complete once it has ended."""

    large: int = 0
    """Files above the limit."""
    names: list[str] = field(default_factory=list)
    """The first of them."""
    records: int = 0
    """Matching lines that were too long to be told."""
    ended_early: str = ""
    """Why the rest of the tree was not searched, as a clause."""


def digest_of(line: bytes) -> bytes:
    return blake2b(line, digest_size=16).digest()


def find_ripgrep(workspace: Path) -> str | None:
    """Return the `rg` installed with codeagent, else one on PATH that is not in the workspace."""
    import sysconfig  # reads a large module, and a start searches nothing

    own = Path(sysconfig.get_path("scripts")) / "rg"
    if os.access(own, os.X_OK):
        return str(own)
    return find_program("rg", workspace)


async def search(
    program: str, root: int, query: Query, left_out: LeftOut
) -> AsyncGenerator[MatchedLine, None]:
    """Yield matching lines in no particular order, as they are found; ending the iteration early
    stops ripgrep.

    `root` is a directory's descriptor, the child's working directory. `left_out` is filled. Raises
    InvalidArgs with ripgrep's message for a bad pattern, Failed if it could not search.
    """
    found = False
    async with (
        _running(program, root, _arguments(query), left_out) as (process, stdout, errors),
        aclosing(_records(stdout, left_out)) as records,
    ):
        stopping = asyncio.get_running_loop().call_later(
            query.seconds, _stop, process, query.seconds, left_out
        )
        try:
            async for record in records:
                hit = _hit(record)
                if hit is not None:
                    found = True
                    yield hit
            code = await process.wait()
        finally:
            stopping.cancel()
        message = await errors
        if code not in (0, 1) and not found and message and not left_out.ended_early:
            raise _failure(message)
        if code < 0 and not left_out.ended_early:
            left_out.ended_early = (
                f"ripgrep was ended by signal {-code}, perhaps for want of memory"
            )


def _stop(process: Process, seconds: float, left_out: LeftOut) -> None:
    if process.returncode is None:
        left_out.ended_early = f"it took longer than {seconds:g} s"
        _kill(process.pid)


async def list_files(program: str, root: int, most: int, *, from_above: bool = False) -> list[str]:
    """Return the paths of at most `most` files that a search would look at, in no particular order.

    `root` as with `search`, `from_above` as in Query. Raises Failed if ripgrep could not list them.
    """
    parents = [] if from_above else ["--no-ignore-parent"]
    paths: list[str] = []
    rest = b""
    arguments = ["--files", "--null", *_SAME_FILES, *parents, "./"]
    async with _running(program, root, arguments, LeftOut()) as (_, stdout, errors):
        while len(paths) < most and (chunk := await stdout.read(_CHUNK)):
            *whole, rest = (rest + chunk).split(b"\0")
            paths += [os.fsdecode(path).removeprefix("./") for path in whole]
        if not paths and (message := await errors):
            raise _failure(message)
        return paths[:most]


@asynccontextmanager
async def _running(
    program: str, root: int, arguments: list[str], left_out: LeftOut
) -> AsyncIterator[tuple[Process, StreamReader, "asyncio.Future[str]"]]:
    """Yield running ripgrep, its output, and its first words on standard error; at the end it is
    killed if needed."""
    process = await start_program(
        SEARCH,
        [program, *arguments],
        folder=f"/proc/self/fd/{root}",
        environment={"LC_ALL": "C.UTF-8"},
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        pass_fds=(root,),
    )
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("both streams were asked for")
    errors = asyncio.ensure_future(_errors(process.stderr, left_out))
    try:
        yield process, process.stdout, errors
    finally:
        if process.returncode is None:
            _kill(process.pid)
        await asyncio.wait(
            {asyncio.ensure_future(_ended(process, process.stdout, errors))},
            timeout=_LAST_WORDS_SECONDS,
        )


def _kill(pid: int) -> None:
    """Kill a process; not with `Process.kill`, which steals the exit status from asyncio if it has
    just ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


async def _ended(process: Process, stdout: StreamReader, errors: "asyncio.Future[str]") -> None:
    """Wait for the end, after reading the pipes: asyncio reports an exit only once they were read
    to their end."""
    while await stdout.read(_CHUNK):
        pass
    await errors
    await process.wait()


def _arguments(query: Query) -> list[str]:
    arguments = ["--json", *_SAME_FILES, *_BOUNDED, f"--max-filesize={query.largest}"]
    if query.path == "." and not query.from_above:
        arguments.append("--no-ignore-parent")
    if query.literal:
        arguments.append("--fixed-strings")
    arguments.append("--ignore-case" if query.ignore_case else "--case-sensitive")
    if query.glob is not None:
        arguments.append(f"--glob={query.glob}")
        arguments.append("--glob=!.git")
    return [*arguments, f"--regexp={query.pattern}", "--", f"./{query.path}"]


async def _records(stdout: StreamReader, left_out: LeftOut) -> AsyncGenerator[bytes, None]:
    """Yield the lines of standard output, without any that is too long to be kept; those are
    counted."""
    pieces: list[bytes] = []
    size, dropping = 0, False
    while chunk := await stdout.read(_CHUNK):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            if not dropping:
                yield b"".join((*pieces, end))
            pieces.clear()
            size, dropping = 0, False
        pieces.append(rest)
        size += len(rest)
        if size > _LONGEST_RECORD:
            left_out.records += not dropping
            dropping = True
            pieces.clear()
            size = 0


async def _errors(stderr: StreamReader, left_out: LeftOut) -> str:
    """Return the first words on standard error that are not about single files; count the files
    left out."""
    kept, rest = b"", b""
    while chunk := await stderr.read(_CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[-_CHUNK:]
        for line in lines:
            large = _LEFT_OUT.fullmatch(line)
            if large is not None:
                left_out.large += 1
                if len(left_out.names) < _MOST_NAMED:
                    left_out.names.append(os.fsdecode(large[1]))
            elif not line.startswith(_DEBUG):
                kept = (kept + line + b"\n")[:2000]
    return (kept + rest)[:2000].decode("utf-8", "replace").strip()


def _hit(record: bytes) -> MatchedLine | None:
    if not record.startswith(b'{"type":"match"'):
        return None
    data = json.loads(record)["data"]
    text = _bytes(data["lines"]).removesuffix(b"\n")
    matches = data["submatches"]
    before = len(text[: matches[0]["start"]].decode("utf-8", "replace")) if matches else 0
    path = os.fsdecode(_bytes(data["path"])).removeprefix("./").removeprefix("./")
    return MatchedLine(path, data["line_number"] or 0, digest_of(text.removeprefix(_BOM)), before)


def _bytes(value: dict[str, str]) -> bytes:
    return base64.b64decode(value["bytes"]) if "bytes" in value else value["text"].encode()


def _failure(message: str) -> InvalidArgs | Failed:
    said = message.removeprefix("rg: ")
    if any(words in message for words in _USAGE_ERRORS):
        return InvalidArgs(f"{said}\nSet literal to search for the text as it is.")
    return Failed(f"the search did not work: {said}")
