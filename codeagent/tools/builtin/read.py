"""The `read` tool: pages through text files, shows images."""

import asyncio
import base64
import os
import time
from typing import BinaryIO

from codeagent.core.dataclass import dataclass
from codeagent.core.display import ImageBlock, TextBlock
from codeagent.core.messages import ImagePart, TextPart
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import spelled
from codeagent.core.text_files import NotText, is_binary, read_text, shown
from codeagent.core.tool import Access, Failed, InvalidArgs, Preview, ToolContext, ToolResult
from codeagent.tools.arguments import Count
from codeagent.tools.changes import PathArgs, ReadingTool
from codeagent.tools.edit.reads import LARGEST_FILE, Lines, ReadTracker, content, text_lines
from codeagent.tools.paging import fitting, shortened

_LINES = 2000
_PAGE_CHARACTERS = 32_000
_LONGEST_LINE = 2000
_NUMBER_SIZE = 8
"""Characters counted for a line's number and newline."""
_LARGEST_IMAGE = 20 << 20
"""Bytes; a large one is scaled down before the model gets it (`tools.pictures`)."""
_CHUNK = 1 << 20
_SECONDS = 10.0
"""How long a page of a file too large for memory may be looked for."""
_IN_PLACE = 1 << 20
"""Bytes up to which reading is faster than starting a thread for it."""
_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)
_BINARIES = (
    (b"\x7fELF", "an ELF program"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"%PDF", "a PDF document"),
    (b"SQLite format 3", "an SQLite database"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x00asm", "WebAssembly"),
    (b"\xca\xfe\xba\xbe", "Java or Mach-O code"),
)


class ReadArgs(PathArgs):
    offset: Count = 1
    limit: Count = _LINES


@dataclass(frozen=True)
class _Page:
    lines: list[str]
    """The lines without their newlines, at most as many as requested."""
    total: int | None
    """The number of lines in the whole file; None if they were not counted."""


@dataclass(frozen=True)
class _ShownPage:
    """A page as the model reads it."""

    lines: tuple[str, ...]
    """Each with its number; empty if the file is empty."""
    range: Lines
    where: str
    """The range in words, and of how many lines."""
    more: str
    """How to continue; empty at the end of the file."""
    whole: list[Lines]
    """The lines that are shown in full."""

    @property
    def text(self) -> str:
        if not self.lines:
            return "[The file is empty.]"
        return "\n".join([*self.lines, *([f"[{self.where}. {self.more}]"] if self.more else [])])


class Read(ReadingTool[ReadArgs]):
    name = "read"
    label = "Read"
    description = (
        "Read a text file or an image. Each line comes with its number and a tab, which are "
        "not part of the file."
    )
    Args = ReadArgs

    def __init__(self, workspace: Workspace, reads: ReadTracker) -> None:
        super().__init__(workspace)
        self._reads = reads

    def access(self, args: ReadArgs, workspace: Workspace) -> Access:
        return Access("shared", workspace.key(args.path))

    async def preview(self, args: ReadArgs, ctx: ToolContext) -> Preview:
        path = ctx.workspace.relative(args.path)
        return Preview(
            spelled(path), (TextBlock(text=f"Read {spelled(path)} and show it to the model."),)
        )

    async def run(self, args: ReadArgs, ctx: ToolContext) -> ToolResult:
        path = ctx.workspace.resolve(args.path)
        if ctx.workspace.stat(path).size > _IN_PLACE:
            return await asyncio.to_thread(self._read, path, args, ctx)
        return self._read(path, args, ctx)

    def _read(self, path: str, args: ReadArgs, ctx: ToolContext) -> ToolResult:
        with ctx.workspace.open(path) as file:
            head = file.read(4096)
            media_type = _image_type(head)
            file.seek(0)
            if media_type is not None:
                return _image(path, media_type, file)
            if (data := content(file)) is None:
                return self._huge(path, args, head, file)
        return self._whole(path, args, data, ctx)

    def _whole(self, path: str, args: ReadArgs, data: bytes, ctx: ToolContext) -> ToolResult:
        try:
            lines = text_lines(read_text(data).text)
        except NotText as error:
            raise _not_text(path, str(error), data[:4096], len(data)) from None
        _check_offset(path, args.offset, len(lines))
        page = _Page(lines[args.offset - 1 : args.offset - 1 + args.limit], len(lines))
        shown_page = _numbered(page, args.offset)
        if (before := self._shown_before(path, data, shown_page, ctx)) is not None:
            self._reads.read(path, data, shown_page.whole, len(lines))
            # The details do not say that lines were seen: the earlier result shows them, and it may
            # be lost first.
            return ToolResult.from_text(
                f"[{spelled(path)} is unchanged since line {args.offset} of your last read, which is still above. "
                f"{' '.join(filter(None, (f'{shown_page.where}.', shown_page.more)))}]",
                details={"path": spelled(path), "unchanged": before},
            )
        details = self._reads.read(
            path, data, shown_page.whole, len(lines), (ctx.call_id, shown_page.range)
        )
        return ToolResult.from_text(shown_page.text, details=details)

    def _shown_before(
        self, path: str, data: bytes, page: "_ShownPage", ctx: ToolContext
    ) -> str | None:
        """Return the last call whose result shows this page of the same content and is still in the
        context."""
        calls = self._reads.shown_by(path, data, page.range) if page.lines else ()
        wanted = "\n{}\n".format("\n".join(page.lines))
        return next((call for call in calls if wanted in f"\n{ctx.caller.recall(call)}\n"), None)

    def _huge(self, path: str, args: ReadArgs, head: bytes, file: BinaryIO) -> ToolResult:
        """Return one page of a file that is too large for memory; it is not recorded, so it cannot
        be edited."""
        if is_binary(head):
            raise _not_text(path, "a binary file", head, file.seek(0, 2))
        file.seek(0)
        try:
            page = _page_of(file, args.offset, args.limit)
        except NotText as error:
            raise _not_text(path, str(error), head, file.seek(0, 2)) from None
        except TimeoutError:
            raise Failed(
                f"line {args.offset} of {spelled(path)} was not found in {_SECONDS:g} s; use sed or tail in bash"
            ) from None
        if not page.lines:
            _check_offset(path, args.offset, page.total or 0)
        text = _numbered(page, args.offset).text
        text += f"\n[The file is larger than {LARGEST_FILE >> 20} MiB: it can be paged through, not edited.]"
        return ToolResult.from_text(text, details={"path": spelled(path)})


def _numbered(page: _Page, first: int) -> _ShownPage:
    lines = list(
        fitting(
            (shortened(line, _LONGEST_LINE) for line in page.lines), _PAGE_CHARACTERS, _NUMBER_SIZE
        )
    )
    out = tuple(f"{number}\t{shown(line)}" for number, line in enumerate(lines, first))
    whole = [
        (number, number)
        for number, line in enumerate(page.lines[: len(out)], first)
        if len(line) <= _LONGEST_LINE
    ]
    last = first + len(out) - 1
    where = f"Lines {first}-{last}" + ("" if page.total is None else f" of {page.total}")
    more = len(out) < len(page.lines) or page.total is None or last < page.total
    return _ShownPage(
        out, (first, last), where, f"Continue with offset={last + 1}." if more else "", whole
    )


def _page_of(file: BinaryIO, offset: int, limit: int) -> _Page:
    """Return lines of a file of any size, in memory bounded by the page; most of an endless line is
    dropped.

    Raises NotText at a NUL, as a hole in a sparse file reads, and TimeoutError.
    """
    skip = offset - 1
    open_end = False
    deadline = time.monotonic() + _SECONDS
    while skip and (chunk := _text_of(file.read(_CHUNK), deadline)):
        open_end = not chunk.endswith(b"\n")
        found = chunk.count(b"\n")
        if found < skip:
            skip -= found
            continue
        at = -1
        for _ in range(skip):
            at = chunk.index(b"\n", at + 1)
        file.seek(at + 1 - len(chunk), os.SEEK_CUR)
        skip = 0
    if skip:
        return _Page([], offset - 1 - skip + open_end)
    lines: list[str] = []
    kept = 0
    while len(lines) < limit and kept <= _PAGE_CHARACTERS:
        line = rest = _text_of(file.readline(2 * _CHUNK), deadline)
        if not line:
            return _Page(lines, offset - 1 + len(lines))
        while rest and not rest.endswith(b"\n"):
            rest = _text_of(file.readline(2 * _CHUNK), deadline)
        lines.append(line.removesuffix(b"\n").decode("utf-8", "surrogateescape").removesuffix("\r"))
        kept += len(line)
    return _Page(lines, None)


def _text_of(piece: bytes, deadline: float) -> bytes:
    if b"\0" in piece:
        raise NotText("a file with binary parts")
    if time.monotonic() > deadline:
        raise TimeoutError
    return piece


def _check_offset(path: str, offset: int, total: int) -> None:
    if offset > max(total, 1):
        raise InvalidArgs(f"{spelled(path)} has {total} lines; offset {offset} is past its end")


def _image(path: str, media_type: str, file: BinaryIO) -> ToolResult:
    data = file.read(_LARGEST_IMAGE + 1)
    if len(data) > _LARGEST_IMAGE:
        raise Failed(
            f"{spelled(path)} is an image of more than {_LARGEST_IMAGE >> 20} MiB, too large to show"
        )
    part = ImagePart(media_type=media_type, data=base64.b64encode(data).decode())
    text = TextPart(text=f"{spelled(path)}: {media_type}, {len(data)} bytes")
    return ToolResult(
        content=(text, part), blocks=(ImageBlock(path=spelled(path), media_type=media_type),)
    )


def _image_type(head: bytes) -> str | None:
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for magic, media_type in _IMAGES if head.startswith(magic)), None)


def _not_text(path: str, what: str, head: bytes, size: int) -> Failed:
    guess = next((f"{what} ({kind})" for magic, kind in _BINARIES if head.startswith(magic)), what)
    return Failed(f"{spelled(path)} is {guess} of {size} bytes; it cannot be shown as text")
