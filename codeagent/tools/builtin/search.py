"""The `search` tool: ripgrep finds matches, and every shown line is read again inside the
workspace."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import field
from typing import Annotated

from codeagent.changes.diff import count
from codeagent.changes.keys import path_key
from codeagent.core.dataclass import dataclass
from codeagent.core.deferred import AfterValidator, Field
from codeagent.core.display import FilesBlock
from codeagent.core.errors import WorkspaceError
from codeagent.core.json_types import JsonValue
from codeagent.core.paths import hidden_secret, secret_reason
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import spelled
from codeagent.core.text_files import NotText, read_text, shown
from codeagent.core.tool import Denied, Failed, NotFound, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.arguments import Count, PathText
from codeagent.tools.edit.reads import LARGEST_FILE, Lines, ReadTracker, content, shown_files
from codeagent.tools.ripgrep import LeftOut, MatchedLine, Query, digest_of, find_ripgrep, search

_LIMIT = 100
_WIDEST = 400
_BEFORE_MATCH = 120
_MOST_CHARACTERS = 36_000
_NOTES = {
    "cut": "more of these left out: too much text. Narrow the search.",
    "changed": "matching lines changed while searching and are not shown.",
    "secret": "matching lines are in files that look like secrets and are not shown.",
    "denied": "matching lines are in files that a rule keeps from being read and are not shown.",
    "binary": "matching binary files are not shown.",
}
_SINGLE_LINE = "a pattern matches within one line and cannot hold a newline"


def _pattern(value: str) -> str:
    if not value:
        raise ValueError("the pattern is empty")
    if "\n" in value or "\0" in value:
        raise ValueError(_SINGLE_LINE)
    return value


class SearchArgs(ToolArgs):
    pattern: Annotated[str, AfterValidator(_pattern)]
    path: PathText = "."
    glob: str | None = None
    literal: bool = False
    ignore_case: bool = False
    context: Annotated[int, Field(ge=0, le=20)] = 0
    limit: Annotated[Count, Field(le=1000)] = _LIMIT


class Search(Tool[SearchArgs]):
    name = "search"
    label = "Search"
    description = (
        "Search files for a regular expression (ripgrep) or literal text, without ignored and binary "
        "files. glob: *.py, src/**."
    )
    Args = SearchArgs
    permission = "auto"
    concurrency = "shared"
    effect = "nothing"

    def __init__(self, workspace: Workspace, reads: ReadTracker) -> None:
        self._workspace = workspace
        self._reads = reads
        self._program = find_ripgrep(workspace.root)

    def approval_key(self, args: SearchArgs) -> ApprovalKey:
        return path_key(self._workspace, args.path, reading=True)

    def target(self, args: SearchArgs) -> str:
        where = "" if args.path == "." else f" in {spelled(args.path)}"
        return f"{args.pattern}{where}"

    def refuse(self, args: SearchArgs, ctx: ToolContext) -> None:
        workspace = ctx.workspace
        asked = workspace.relative(args.path)
        if (why := hidden_secret(asked, workspace.key(args.path))) is not None:
            raise Denied(why)

    async def run(self, args: SearchArgs, ctx: ToolContext) -> ToolResult:
        if self._program is None:
            raise Failed(
                "ripgrep is missing: install codeagent with its dependencies, or put rg on PATH"
            )
        path = ctx.workspace.resolve(args.path)
        status = ctx.workspace.stat(path)
        if status.kind not in ("file", "directory"):
            raise NotFound(f"{spelled(args.path)} is neither a file nor a directory")
        if status.kind == "file" and status.size > LARGEST_FILE:
            raise Failed(
                f"{spelled(args.path)} is larger than {LARGEST_FILE >> 20} MiB, so it is not searched; "
                "page through it with read, or use grep in bash"
            )
        query = Query(
            args.pattern,
            path,
            args.glob,
            literal=args.literal,
            ignore_case=args.ignore_case,
            from_above=ctx.workspace.ignores().from_above,
            largest=LARGEST_FILE,
        )
        hits, left_out = list[MatchedLine](), LeftOut()
        async with aclosing(
            search(self._program, ctx.workspace.descriptor(), query, left_out)
        ) as found:
            async for hit in found:
                hits.append(hit)
                if len(hits) > args.limit:
                    break
        more = len(hits) > args.limit
        # If the named file itself holds secrets, the user was asked about it.
        page = _Results(
            args.context,
            self._reads,
            ctx.reading.withheld,
            allowed=path if status.kind == "file" else None,
        )
        await asyncio.to_thread(page.fill, ctx.workspace, hits[: args.limit])
        return page.result(more, args.limit, left_out)


@dataclass
class _Results:
    """The verified lines of all files, and counts of what was left out."""

    context: int
    reads: ReadTracker
    withheld: Callable[[str], bool]
    allowed: str | None
    lines: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    shown: list[dict[str, JsonValue]] = field(default_factory=list)
    """By file, the details of the lines that are shown in full."""
    size: int = 0
    matches: int = 0
    unseen: Counter[str] = field(default_factory=Counter)
    """How many matches are not shown, by the key of the note about them."""

    def fill(self, workspace: Workspace, hits: list[MatchedLine]) -> None:
        """Read each file once, inside the workspace, and keep the matches that are really there."""
        by_path: dict[str, list[MatchedLine]] = {}
        for hit in hits:
            by_path.setdefault(hit.path, []).append(hit)
        for path in sorted(by_path):
            self._file(workspace, path, sorted(by_path[path], key=lambda hit: hit.line))

    def result(self, more: bool, limit: int, left_out: LeftOut) -> ToolResult:
        notes = [*self._notes(more, limit), *self._left_out(left_out)]
        lines = self.lines if self.lines or self.unseen.total() else ["No matches."]
        text = "\n".join([*lines, *notes])
        blocks = (
            (FilesBlock(paths=tuple(map(spelled, self.files))),)
            if self.files and not self.lines
            else ()
        )
        details: dict[str, JsonValue] = {
            "matches": self.matches,
            "files": len(self.files),
            "changed": self.unseen["changed"],
            "more": more,
            **shown_files(self.shown),
        }
        return ToolResult.from_text(text, blocks=blocks, details=details)

    def _file(self, workspace: Workspace, path: str, hits: list[MatchedLine]) -> None:
        if secret_reason(path) is not None and path != self.allowed:
            self.unseen["secret"] += len(hits)
            return
        if self.withheld(path):
            self.unseen["denied"] += len(hits)
            return
        try:
            with workspace.open(path) as file:
                data = content(file)
        except (WorkspaceError, OSError):
            self.unseen["changed"] += len(hits)
            return
        if data is None:  # it has grown since
            self.unseen["changed"] += len(hits)
            return
        try:
            text = read_text(data).text
        except NotText:
            self.unseen["binary"] += 1
            return
        lines = text.removesuffix("\n").split("\n")
        raw = (
            None
            if data.startswith((b"\xff\xfe", b"\xfe\xff"))
            else data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        )
        good = [hit for hit in hits if _is_there(hit, raw, lines)]
        self.unseen["changed"] += len(hits) - len(good)
        if good:
            self.files.append(path)
            if runs := self._show(path, good, lines):
                self.shown.append(self.reads.read(path, data, runs, len(lines)))

    def _show(self, path: str, hits: list[MatchedLine], lines: list[str]) -> list[Lines]:
        """Return the lines that are shown in full."""
        runs: list[Lines] = []
        matched = {hit.line: hit for hit in hits}
        around = {
            number
            for line in matched
            for number in range(
                max(1, line - self.context), min(len(lines), line + self.context) + 1
            )
        }
        last = 0
        for number in sorted(around):
            if self.context and last and number > last + 1:
                self.lines.append("--")
            hit, last = matched.get(number), number
            mark = ":" if hit is not None else "-"
            whole = lines[number - 1].removesuffix("\r")
            piece = _around(whole, hit)
            line = f"{spelled(path)}{mark}{number}{mark}{shown(piece)}"
            self.size += len(line) + 1
            if self.size > _MOST_CHARACTERS:
                self.unseen["cut"] += hit is not None
                continue
            self.matches += hit is not None
            self.lines.append(line)
            if piece == whole:
                runs.append((number, number))
        return runs

    def _notes(self, more: bool, limit: int) -> Iterator[str]:
        if more:
            yield f"[There is more: only {count(limit, 'matching line')} shown. Narrow the search, or raise limit.]"
        for why, note in _NOTES.items():
            if self.unseen[why]:
                yield f"[{self.unseen[why]} {note}]"

    def _left_out(self, left_out: LeftOut) -> Iterator[str]:
        if left_out.large:
            named = [
                name
                for name in left_out.names
                if secret_reason(name) is None and not self.withheld(name)
            ]
            rest = left_out.large - len(named)
            listed = ", ".join(
                [*map(spelled, named), *([f"{rest} more"] if named and rest else [])]
            )
            files = count(left_out.large, "file")
            yield f"[Not searched: {files} over {LARGEST_FILE >> 20} MiB{f' ({listed})' if listed else ''}.]"
        if left_out.records:
            yield f"[{count(left_out.records, 'matching line')} too long to be shown left out.]"
        if left_out.ended_early:
            yield f"[The search is incomplete: {left_out.ended_early}. Narrow it to a path or a glob.]"


def _is_there(hit: MatchedLine, raw: list[bytes] | None, lines: list[str]) -> bool:
    """Whether the line that ripgrep saw is the line that was read inside the workspace."""
    if not 0 < hit.line <= len(lines):
        return False
    if raw is None:
        return digest_of(lines[hit.line - 1].encode("utf-8", "replace")) == hit.digest
    return digest_of(raw[hit.line - 1]) == hit.digest


def _around(line: str, hit: MatchedLine | None) -> str:
    """Return the line or, if it is long, the part around its match."""
    if len(line) <= _WIDEST:
        return line
    start = 0 if hit is None else max(0, hit.before - _BEFORE_MATCH)
    piece = line[start : start + _WIDEST]
    return f"{'…' if start else ''}{piece}{'…' if start + _WIDEST < len(line) else ''}"
