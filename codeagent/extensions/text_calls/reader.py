"""Splits a model's streamed text into words, code, and the blocks that are calls."""

import json
import re
from collections.abc import Collection, Generator, Sequence
from contextlib import suppress
from itertools import groupby

from codeagent.core.dataclass import dataclass
from codeagent.extensions.text_calls.json_blocks import INFOS, UNCLOSED, FencedJson, bare_json
from codeagent.extensions.text_calls.marks import (
    Block,
    BlockEnd,
    FenceEnd,
    Literals,
    Mark,
    Source,
    thinking_marks,
)
from codeagent.extensions.text_calls.protocol import (
    AnswerPiece,
    BrokenCall,
    ParsedCall,
    Retracted,
    Text,
)

UNSURE = "the thinking before this block was never closed and continues after it, so nothing ran"
DOUBT = "a block before this one was broken, so it is uncertain where this one begins; nothing ran"
_LONGEST_INFO = 20
_SMALLEST_FENCE = 3
_DEEPEST_MARGIN = 3
_BEFORE_JSON = ";"
_BARE_BEGINS = re.compile(r'\{\s{0,64}"|\[\s{0,64}\{')
_BARE_MAY_BEGIN = re.compile(r"[{\[]\s{0,64}\Z")
_BARE_HEADS = ('{"', "```json")
"""The usual beginnings of calls as plain JSON."""
_RUNS = {"`": re.compile("`*"), "~": re.compile("~*")}
_INLINE = re.compile(r"[`\n]")
_Reading = Generator[None, bool, None]
"""Waits for more of the answer where it yields; it is sent False when nothing more comes."""


@dataclass(frozen=True)
class _Held:
    space: str
    """White space before the pieces."""
    text: str
    """What the pieces become if words follow; empty if they are calls in any case."""
    pieces: tuple[AnswerPiece, ...]
    doubt: bool
    """As of a BlockEnd."""


class Reader:
    """Reads the text of one answer. Marks within code are text; white space around blocks is
    dropped.

    Each character is read a bounded number of times, whatever the text and however it is cut.
    """

    def __init__(self, marks: Sequence[Mark], *, bare: Collection[str] | None = None) -> None:
        """`bare` are the tools whose calls may also be plain JSON, on its own or in a fence; None
        if no tool's may."""
        calls = [mark.head for mark in marks if mark.read is not None]
        self._call_heads = tuple(calls)
        marks = (*marks, *thinking_marks([*calls, *_BARE_HEADS] if bare else calls))
        heads = {mark.head for mark in marks}
        self._by_head = {
            head: tuple(mark for mark in marks if head.startswith(mark.head)) for head in heads
        }
        self._interest = Literals(heads, "[`~{[]" if bare else "[`~]")
        self._bare = bare
        self._as_written = {json.dumps(name, ensure_ascii=False)[1:-1] for name in bare or ()}
        self._source = Source()
        self._out: list[AnswerPiece] = []
        self._space: list[str] = []
        self._after_block = self._doubt = False
        self._is_thinking = False
        self._unsure: int | None = None
        """Where in the output thinking ended that was never closed."""
        self._worded = False
        self._held: list[_Held] = []
        self._margin = 0
        self._last = "\n"
        self._answer = self._read()
        next(self._answer)

    def feed(self, text: str) -> list[AnswerPiece]:
        self._source.feed(text)
        self._read_pending()
        return self._taken()

    def close(self) -> list[AnswerPiece]:
        """End the answer: open blocks are reported, what was held back becomes text."""
        with suppress(StopIteration):
            while True:
                self._read_pending()
                self._answer.send(False)
        self._settle_held(as_text=False)
        if self._unsure is not None and _words_follow(self._out[self._unsure :]):
            self._out[self._unsure :] = [_unsure(piece) for piece in self._out[self._unsure :]]
        if not self._after_block:
            self._release("")
        return self._taken()

    def _read_pending(self) -> None:
        while self._source.pending:
            self._source.next_slice()
            self._answer.send(True)

    def _taken(self) -> list[AnswerPiece]:
        """Return what was found, with the text between two blocks in one piece."""
        found: list[AnswerPiece] = []
        for is_text, group in groupby(self._out, lambda piece: isinstance(piece, Text)):
            pieces = list(group)
            whole = "".join(piece.text for piece in pieces if isinstance(piece, Text))
            found += [Text(whole)] if is_text else pieces
        self._out.clear()
        return found

    def _read(self) -> _Reading:
        """Read the answer: words, code and blocks."""
        source = self._source
        while True:
            found, certain = self._interest.find(source.data, source.at)
            self._emit(source.skip(certain))
            waits = False
            if found is None:
                waits = True
            elif (mark := self._mark(found[0])) is None:
                waits = yield from self._read_character(found[0][0])
            elif (opened := mark.match(source.data, source.at)) is None:
                waits = True
            else:
                yield from self._open(mark, opened)
            if waits and not (yield):
                break
        tail = source.rest
        if tail.startswith(self._call_heads):
            self._give(BrokenCall("", tail, UNCLOSED))
        else:
            self._emit(tail)

    def _mark(self, head: str) -> Mark | None:
        """Return the first mark that is there, or that may be coming."""
        data, at = self._source.data, self._source.at
        begins_line = self._margin <= _DEEPEST_MARGIN
        known = [mark for mark in self._by_head.get(head, ()) if begins_line or not mark.line]
        return next(
            (mark for mark in known if mark.match(data, at) or mark.may_begin(data, at)), None
        )

    def _open(self, mark: Mark, opened: re.Match[str]) -> _Reading:
        self._source.skip(opened.end())
        self._is_thinking = mark.thinking == "begins"
        if mark.read is not None:
            yield from self._read_block(mark.read(self._source, opened))
        elif mark.thinking == "ends":
            self._emit(opened[0])
            self._last = "\n"
            self._worded = False
            self._out.append(Retracted())
        else:
            self._space.append("" if self._after_block else opened[0])

    def _read_character(self, character: str) -> Generator[None, bool, bool]:
        """Read what no mark begins with: code, plain JSON, or only the character; True if more must
        be known first."""
        source = self._source
        if character in "`~":
            yield from self._read_code(character)
            return False
        if (
            character in "{["
            and self._bare
            and (self._last.isspace() or self._last in _BEFORE_JSON)
        ):
            if _BARE_MAY_BEGIN.match(source.data, source.at):
                return True
            if _BARE_BEGINS.match(source.data, source.at):
                yield from self._read_block(bare_json(source, self._bare, self._as_written))
                return False
        self._emit(source.skip(source.at + 1))
        return False

    def _read_block(self, block: Block) -> _Reading:
        more = True
        self._source.block()
        try:
            self._emit(next(block))
            while True:
                more = yield
                self._emit(block.send(more))
        except StopIteration as stop:
            end: BlockEnd = stop.value
        if not more:
            self._source.skip(len(self._source.data))
        if not more and self._is_thinking and self._unsure is None:
            self._unsure = len(self._out)
        if end.tentative and self._worded and end.alone:
            self._emit(end.tentative)
        elif end.tentative or (
            self._held and not any(isinstance(piece, Text) for piece in end.pieces)
        ):
            self._hold(end)
        else:
            for piece in end.pieces:
                self._give(piece)
            self._doubt = self._doubt or end.doubt
        self._last = "\n" if self._is_thinking else self._last
        self._is_thinking = False
        if end.again:
            self._source.again(end.again)
        if end.fence:
            yield from self._read_fence("`", end.fence)

    def _read_code(self, character: str) -> _Reading:
        """Read what begins with backticks or tildes: a code fence, code within a line, or words."""
        source, in_margin, run = self._source, self._margin <= _DEEPEST_MARGIN, 0
        while True:
            run += len(source.skip(_past(source.data, source.at, character)))
            if source.at < len(source.data):
                break
            if not (yield):
                self._emit(character * run)
                return
        if run >= _SMALLEST_FENCE and in_margin:
            yield from self._read_info(character * run)
            return
        self._emit(character * run)
        if character == "`":
            yield from self._read_inline(run)

    def _read_info(self, run: str) -> _Reading:
        """Read the line that opens a code fence, after its `run`; it is held back while the fence
        may be a call."""
        source, info = self._source, ""
        held = run if self._bare and run[0] == "`" else ""
        if not held:
            self._emit(run)
        while True:
            line_break = source.data.find("\n", source.at)
            part = source.data[source.at : line_break if line_break >= 0 else len(source.data)]
            part, tick, _ = part.partition("`") if run[0] == "`" else (part, "", "")
            source.skip(source.at + len(part))
            info += part
            if held and len(info) <= _LONGEST_INFO:
                held += part
            else:
                self._emit(held + part)
                held = ""
            if tick:
                self._emit(held)
                yield from self._read_inline(len(run))
                return
            if line_break >= 0:
                break
            if not (yield):
                self._emit(held)
                return
        source.skip(line_break + 1)
        if held and info.strip().lower() in INFOS:
            fenced = FencedJson(source, held + "\n", len(run), self._bare or (), self._as_written)
            yield from self._read_block(fenced.read())
        else:
            self._emit(held + "\n")
            yield from self._read_fence(run[0], len(run))

    def _read_fence(self, character: str, size: int) -> _Reading:
        source, fence, ended = self._source, FenceEnd(character, size), False
        while not ended:
            end, ended = fence.read(source.data, source.at)
            self._emit(source.skip(end))
            if not ended and not (yield):
                return

    def _read_inline(self, size: int) -> _Reading:
        """Read code within a line, up to the next run of `size` backticks or to the end of the
        line."""
        source, run = self._source, 0
        while True:
            found = _INLINE.search(source.data, source.at)
            self._emit(source.skip(found.start() if found else len(source.data)))
            if found is None:
                if not (yield):
                    return
                continue
            if found[0] == "\n":
                self._emit(source.skip(found.end()))
                return
            run = 0
            while True:
                ticks = source.skip(_past(source.data, source.at, "`"))
                run += len(ticks)
                self._emit(ticks)
                if source.at < len(source.data):
                    break
                if not (yield):
                    return
            if run == size:
                return

    def _give(self, piece: AnswerPiece) -> None:
        if isinstance(piece, Text):
            self._emit(piece.text)
            return
        if self._held:
            self._hold(BlockEnd((piece,)))
            return
        if self._doubt and isinstance(piece, ParsedCall):
            piece = BrokenCall(piece.name, f"{piece.name} {piece.arguments}", DOUBT)
        self._after_a_block()
        self._out.append(piece)

    def _emit(self, text: str) -> None:
        """Pass on text; white space waits until it is known whether a block follows."""
        if not text:
            return
        line = text[text.rfind("\n") + 1 :]
        blank = len(line) - len(line.lstrip(" "))
        whole_line_blank = blank == len(line)
        if "\n" in text:
            self._margin = 0
        self._margin = self._margin + blank if whole_line_blank else _DEEPEST_MARGIN + 1
        self._last = text[-1]
        between = ";, \t\r\n" if self._after_block and self._bare else None
        if not text.strip(between):
            self._space.append(text)
            return
        kept = text.rstrip()
        if not self._is_thinking:
            self._worded = True
            self._settle_held(as_text=True)
        self._release(kept)
        self._space.append(text[len(kept) :])
        self._after_block = False

    def _hold(self, end: BlockEnd) -> None:
        """Keep the pieces until it is known whether words follow."""
        self._held.append(_Held("".join(self._space), end.tentative, end.pieces, end.doubt))
        self._after_a_block()

    def _after_a_block(self) -> None:
        """Drop the white space before it; a line may begin."""
        self._space.clear()
        self._after_block = True
        self._margin = 0
        self._last = "\n"

    def _settle_held(self, *, as_text: bool) -> None:
        held = self._held
        self._held = []
        for one in held:
            if as_text and one.text:
                self._out.append(Text(one.space + one.text))
                self._after_block = False
                continue
            behind = self._space
            self._space = [one.space]
            for piece in one.pieces:
                self._give(piece)
            self._doubt = self._doubt or one.doubt
            self._space = behind

    def _release(self, text: str) -> None:
        whole = "".join(self._space) + text
        self._space.clear()
        if whole:
            self._out.append(Text(whole))


def _words_follow(pieces: Sequence[AnswerPiece]) -> bool:
    """Tell whether words follow a call."""
    called = False
    for piece in pieces:
        if called and isinstance(piece, Text) and piece.text.strip():
            return True
        called = called or isinstance(piece, ParsedCall)
    return False


def _unsure(piece: AnswerPiece) -> AnswerPiece:
    if isinstance(piece, ParsedCall):
        return BrokenCall(piece.name, f"{piece.name} {piece.arguments}", UNSURE)
    return piece


def _past(data: str, position: int, character: str) -> int:
    """Return the end of the run of `character`."""
    found = _RUNS[character].match(data, position)
    assert found is not None
    return found.end()
