"""The tools `json_read` and `json_write`: read and change one place of a JSON file, without the
rest."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Annotated, Self

from codeagent.changes.diff import diff_block
from codeagent.core.deferred import AfterValidator, Field, model_validator
from codeagent.core.json_types import JsonValue
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import spelled
from codeagent.core.text_files import NotText, Splice, TextFile, read_text, shown
from codeagent.core.tool import Access, Failed, NotFound, Preview, ToolContext, ToolResult
from codeagent.extensions.file_tools.json_text import (
    JsonText,
    Member,
    NotJson,
    Value,
    parse_place,
    pointer,
)
from codeagent.tools.arguments import Count
from codeagent.tools.changes import ChangeTool, PathArgs, ReadingTool, whole_file
from codeagent.tools.edit.accepted import change_set
from codeagent.tools.edit.reads import Lines, ReadTracker, line_of, text_lines
from codeagent.tools.edit.replacing import Edited, Replacing
from codeagent.tools.paging import fitting, shortened

_MOST_CHARACTERS = 16_000
_MOST_MEMBERS = 200
_MOST_CHANGES = 100
_SHORT = 80


def _place(text: str) -> str:
    parse_place(text)
    return text


Place = Annotated[str, AfterValidator(_place)]
"""A JSON pointer or a dotted path."""


class JsonReadArgs(PathArgs):
    at: Place = ""
    offset: Count = 1
    limit: Annotated[Count, Field(le=_MOST_MEMBERS)] = _MOST_MEMBERS


class JsonWriteArgs(PathArgs):
    set: Annotated[dict[str, JsonValue], Field(max_length=_MOST_CHANGES)] = Field(
        default_factory=dict
    )
    remove: Annotated[tuple[Place, ...], Field(max_length=_MOST_CHANGES)] = ()

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.set and not self.remove:
            raise ValueError("give at least one place in set or in remove")
        for place in self.set:
            parse_place(place)
        return self


class JsonRead(ReadingTool[JsonReadArgs]):
    name = "json_read"
    label = "Read JSON"
    description = (
        "Read one place of a JSON file: at is a pointer (/scripts/test) or a path (jobs[0].name). What is large is "
        "listed entry by entry, from the entry number offset on."
    )
    Args = JsonReadArgs

    def __init__(self, workspace: Workspace, reads: ReadTracker) -> None:
        super().__init__(workspace)
        self._reads = reads

    def access(self, args: JsonReadArgs, workspace: Workspace) -> Access:
        return Access("shared", workspace.key(args.path))

    def target(self, args: JsonReadArgs) -> str:
        return f"{spelled(args.path)} {args.at}".rstrip()

    async def run(self, args: JsonReadArgs, ctx: ToolContext) -> ToolResult:
        path = ctx.workspace.resolve(args.path)
        return await asyncio.to_thread(self._read, path, args, ctx.workspace)

    def _read(self, path: str, args: JsonReadArgs, workspace: Workspace) -> ToolResult:
        data = whole_file(path, workspace, "read it with a command instead").data
        document = _document(path, _text_file(path, data))
        try:
            value = document.find(parse_place(args.at))
        except NotJson as error:
            raise NotFound(f"{path}: {error}") from None
        total = len(text_lines(document.text))
        source = document.text[value.start : value.end]
        if len(source) <= _MOST_CHARACTERS and args.offset == 1:
            inside = _lines_inside(document, value)
            seen = [(1, total)] if not args.at else [inside] if inside is not None else []
            return ToolResult.from_text(
                shown(source), details=self._reads.read(path, data, seen, total)
            )
        details = self._reads.read(path, data, (), total)
        return ToolResult.from_text(_outline(document, value, args), details=details)


class JsonWrite(ChangeTool[JsonWriteArgs]):
    name = "json_write"
    label = "Change JSON"
    description = (
        "Set or remove places of a JSON file that was read: set maps pointers (/scripts/test) or paths (a.b[0]) to "
        "values, /list/- adds to a list. All is changed or nothing, and everything else stays as it is written."
    )
    Args = JsonWriteArgs

    async def preview(self, args: JsonWriteArgs, ctx: ToolContext) -> Preview:
        change = await asyncio.to_thread(self._change, args, ctx, again=ctx.base is not None)
        return change_set([change]).preview()

    async def run(self, args: JsonWriteArgs, ctx: ToolContext) -> ToolResult:
        return self._written(
            args, ctx, await asyncio.to_thread(self._change, args, ctx, again=False)
        )

    def _answer(self, args: JsonWriteArgs, edited: Edited) -> ToolResult:
        details = self._reads.wrote(edited.path, edited.data, edited.seen, whole=edited.whole)
        did = [f"set {_named(place)}" for place in args.set] + [
            f"removed {_named(place)}" for place in args.remove
        ]
        text = "\n".join([f"{spelled(edited.path)}: {', '.join(did)}.", *edited.notes])
        block = diff_block(edited.path, *edited.texts)
        return ToolResult.from_text(text, blocks=(block,), details=details)

    def _change(self, args: JsonWriteArgs, ctx: ToolContext, *, again: bool) -> Edited:
        """Compute the change; call it in a thread, as the document is parsed again for each
        place."""
        work = self._replacing(args.path, ctx, again=again)
        path = spelled(args.path)
        # A text with escapes and only ASCII letters keeps using escapes, and Latin-1 cannot have
        # other letters.
        text = work.file.text
        ascii_only = work.file.encoding == "latin-1" or (text.isascii() and "\\u" in text)
        for place in map(parse_place, args.remove):
            self._put(work, path, place, partial(JsonText.remove, place=place))
        for name, value in args.set.items():
            place = parse_place(name)
            change = partial(JsonText.set, place=place, value=value, ascii_only=ascii_only)
            self._put(work, path, place, change)
        _document(path, work.file)
        return work.change()

    def _put(
        self,
        work: Replacing,
        path: str,
        place: tuple[str, ...],
        change: Callable[[JsonText], Splice],
    ) -> None:
        """Raises Failed."""
        document = _document(path, work.file)
        try:
            splice = change(document)
        except NotJson as error:
            raise Failed(f"nothing was changed in {path}: {error}") from None
        there = document.value_at(place)
        inside = None if there is None else _lines_inside(document, there)
        if inside is not None and not work.knows(*inside):
            raise Failed(
                f"nothing was changed in {path}: {pointer(place)}, lines {inside[0] - 1} to {inside[1] + 1}, was not "
                "read. Read it first, with json_read."
            )
        work.put([splice], "", proven=True)


def _named(place: str) -> str:
    return pointer(parse_place(place))


def _text_file(path: str, data: bytes) -> TextFile:
    """Raises Failed."""
    try:
        return read_text(data)
    except NotText as error:
        raise Failed(f"{path} is {error}") from None


def _document(path: str, file: TextFile) -> JsonText:
    """Raises Failed."""
    try:
        return JsonText.checked(file.text)
    except NotJson as error:
        raise Failed(
            f"{path} was not changed or shown: {error}. Use read and edit for what is not strictly JSON"
        ) from None


def _lines_inside(document: JsonText, value: Value) -> Lines | None:
    """Return the lines that belong to the value completely; None if there are none."""
    first, last = (
        line_of(document.text, value.start) + 1,
        line_of(document.text, max(value.start, value.end - 1)) - 1,
    )
    return (first, last) if first <= last else None


def _outline(document: JsonText, value: Value, args: JsonReadArgs) -> str:
    """Return the entries of a value that is too large to be shown, or the beginning of a long
    text."""
    kind = document.kind(value)
    if kind == "value":
        return shortened(shown(document.text[value.start : value.end]), _MOST_CHARACTERS)
    members = list(document.members(value))
    page = members[args.offset - 1 : args.offset - 1 + args.limit]
    lines = list(fitting((_line(document, kind, member) for member in page), _MOST_CHARACTERS))
    first, last = args.offset, args.offset + len(lines) - 1
    lines.insert(0, f"{kind} with {len(members)} {'entry' if len(members) == 1 else 'entries'}")
    if last < len(members):
        lines.append(
            f"[Entries {first}-{last} of {len(members)}. Continue with offset={last + 1}.]"
        )
    return "\n".join(lines)


def _line(document: JsonText, kind: str, member: Member) -> str:
    source, inner = document.text[member.start : member.end], Value(member.start, member.end)
    name = (
        f"[{member.name}]"
        if kind == "list"
        else json.dumps(member.name[:_SHORT], ensure_ascii=False)
    )
    if len(source) <= _SHORT:
        return shown(f"{name}: {' '.join(source.split())}")
    what = document.kind(inner)
    size = (
        f"text of {len(source) - 2} characters"
        if what == "value"
        else f"{what}, {len(source)} characters"
    )
    return shown(f"{name}: {size}")
