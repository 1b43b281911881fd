"""Splits a model's streamed text into words, code, and the blocks that are calls."""

import json
import re
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from codeagent.llm.protocols.json_blocks import INFOS, UNCLOSED, BareJson, FencedJson
from codeagent.llm.protocols.marks import BlockReader, FenceEnd, Mark
from codeagent.llm.protocols.protocol import AnswerPiece, BlockStep, BrokenCall, ParsedCall, Retracted, Text
from codeagent.llm.protocols.thinking import ThinkingBlock, thinking_marks

UNSURE = "the thinking before this block was never closed and continues after it, so nothing ran"
DOUBT = "a block before this one was broken, so it is uncertain where this one begins; nothing ran"
_SLICE = 4096
"""Characters read at a time: this bounds the cost of reading text again."""
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


@dataclass(frozen=True)
class _Held:
    space: str
    """White space before the pieces."""
    text: str
    """What the pieces become if the answer has words; empty if they are calls in any case."""
    pieces: tuple[AnswerPiece, ...]


class Reader:
    """Reads the text of one answer. Marks within code are text; white space around blocks is dropped.

    Each character is read a bounded number of times, whatever the text and however it is cut.
    """

    def __init__(self, marks: Sequence[Mark], *, bare: Collection[str] | None = None) -> None:
        """`bare` are the tools whose calls may also be plain JSON, on its own or in a fence; None if no tool's may."""
        calls = [mark.head for mark in marks if mark.make is not None]
        self._marks = (*marks, *thinking_marks([*calls, *_BARE_HEADS] if bare else calls))
        self._heads = sorted({mark.head for mark in self._marks}, key=len, reverse=True)
        self._by_head = {
            head: tuple(mark for mark in self._marks if head.startswith(mark.head)) for head in self._heads
        }
        self._begun_heads = {head[:size] for head in self._heads for size in range(1, len(head))}
        self._bare = bare
        self._as_written = {json.dumps(name, ensure_ascii=False)[1:-1] for name in bare or ()}
        self._interest = re.compile("|".join([*map(re.escape, self._heads), "[`~{[]" if bare else "[`~]"]))
        self._out: list[AnswerPiece] = []
        self._pending: deque[str] = deque()
        self._tail = ""
        self._state: Literal["text", "run", "info", "fence", "inline", "inline run", "block"] = "text"
        self._block: BlockReader | None = None
        self._space: list[str] = []
        self._after_block = self._begun = self._doubt = False
        self._is_thinking = False
        self._worded = False
        self._held: list[_Held] = []
        self._ends_of: tuple[str, list[int]] = ("", [])
        self._margin, self._last = 0, "\n"
        self._run_character, self._run, self._run_in_margin, self._inline = "`", 0, False, 0
        self._info, self._holds_info = "", False
        self._fence = FenceEnd("`", _SMALLEST_FENCE)

    def feed(self, text: str) -> list[AnswerPiece]:
        self._pending.extend(_slices(text))
        self._drive()
        return self._taken()

    def close(self) -> list[AnswerPiece]:
        """End the answer: open blocks are reported, what was held back becomes text."""
        unsure = None
        while self._block is not None:
            if unsure is None and isinstance(self._block, ThinkingBlock):
                unsure = len(self._out)
            rest, self._tail = self._tail, ""
            self._take(self._block.close(rest), "")
            self._drive()
        self._close_text()
        self._settle_held(as_text=False)
        if unsure is not None and _goes_on(self._out[unsure:]):
            self._out[unsure:] = [_unsure(piece) for piece in self._out[unsure:]]
        if not self._after_block:
            self._release("")
        return self._taken()

    def _taken(self) -> list[AnswerPiece]:
        """Return what was found, with the text between two blocks in one piece."""
        found: list[AnswerPiece] = []
        for is_text, group in groupby(self._out, lambda piece: isinstance(piece, Text)):
            pieces = list(group)
            whole = "".join(piece.text for piece in pieces if isinstance(piece, Text))
            found += [Text(whole)] if is_text else pieces
        self._out.clear()
        return found

    def _drive(self) -> None:
        while self._pending:
            data, position = self._tail + self._pending.popleft(), 0
            self._tail = ""
            while position < len(data):
                if self._state == "block":
                    assert self._block is not None
                    step = self._block.read(data, position)
                    rest = data[step.position :] if step.ended else ""
                    self._take(step, rest)
                    if not step.ended:
                        self._tail = data[step.position :]
                    break
                moved = self._advance(data, position)
                if moved is None:
                    self._tail = data[position:]
                    break
                position = moved

    def _take(self, step: BlockStep, rest: str) -> None:
        if step.tentative and self._worded:
            self._emit(step.tentative)
        elif step.tentative:
            self._hold(step.tentative, step.pieces)
        else:
            for piece in step.pieces:
                self._give(piece)
        if step.ended:
            self._block, self._state = None, "text"
            self._last = "\n" if self._is_thinking else self._last
            self._is_thinking = False
            if step.fence:
                self._state, self._fence = "fence", FenceEnd("`", step.fence)
            self._pending.extendleft(reversed([*_slices(step.again), rest] if rest else _slices(step.again)))
        self._doubt = self._doubt or step.doubt

    def _give(self, piece: AnswerPiece) -> None:
        if isinstance(piece, Text):
            self._emit(piece.text)
            return
        if self._held:
            self._hold("", (piece,))
            return
        if self._doubt and isinstance(piece, ParsedCall):
            piece = BrokenCall(piece.name, f"{piece.name} {piece.arguments}", DOUBT)
        self._space.clear()
        self._after_block = self._begun = True
        self._margin, self._last = 0, "\n"
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
        self._begun, self._after_block = True, False

    def _hold(self, text: str, pieces: tuple[AnswerPiece, ...]) -> None:
        """Keep the pieces until it is known whether words follow, which makes them `text`."""
        self._held.append(_Held("".join(self._space), text, pieces))
        self._space.clear()
        self._after_block = self._begun = True
        self._margin, self._last = 0, "\n"

    def _settle_held(self, *, as_text: bool) -> None:
        held, self._held = self._held, []
        for one in held:
            if as_text and one.text:
                self._out.append(Text(one.space + one.text))
                self._after_block = False
                continue
            behind, self._space = self._space, [one.space]
            for piece in one.pieces:
                self._give(piece)
            self._space = behind

    def _release(self, text: str) -> None:
        whole = "".join(self._space) + text
        self._space.clear()
        if whole:
            self._out.append(Text(whole))

    def _advance(self, data: str, position: int) -> int | None:
        """Return how far the text was taken, None if a mark may be coming."""
        match self._state:
            case "text":
                return self._text(data, position)
            case "run":
                return self._count_run(data, position)
            case "info":
                return self._read_info(data, position)
            case "fence":
                end, ended = self._fence.read(data, position)
                self._emit(data[position:end])
                self._state = "text" if ended else "fence"
                return end
            case "inline":
                return self._read_inline(data, position)
            case "inline run":
                return self._count_inline_run(data, position)
            case "block":
                raise AssertionError("blocks are read by _drive")

    def _text(self, data: str, position: int) -> int | None:
        found = self._interest.search(data, position)
        begun = self._begun_at(data, position)
        if found is None or begun <= found.start():
            self._emit(data[position:begun])
            return begun if begun > position else None
        at, character = found.start(), data[found.start()]
        self._emit(data[position:at])
        for mark in self._by_head.get(found[0], ()):
            opened = mark.match(data, at)
            if opened is not None:
                self._open(mark, opened)
                return opened.end()
            if mark.may_begin(data, at):
                return at if at > position else None
        if character in "`~":
            self._state, self._run, self._run_character = "run", 0, character
            self._run_in_margin = self._margin <= _DEEPEST_MARGIN
            return at
        if character in "{[" and self._bare and (self._last.isspace() or self._last in _BEFORE_JSON):
            if _BARE_MAY_BEGIN.match(data, at):
                return at if at > position else None
            if _BARE_BEGINS.match(data, at):
                self._block, self._state = BareJson(self._bare, self._as_written), "block"
                return at
        self._emit(character)
        return at + 1

    def _begun_at(self, data: str, position: int) -> int:
        """Return where a mark may have begun that is cut off by the end of the data; else the data's length."""
        if data is not self._ends_of[0]:
            start = max(0, len(data) - len(self._heads[0]))
            ends = [at for at in range(start, len(data)) if data[at:] in self._begun_heads]
            self._ends_of = (data, ends)
        return next((at for at in self._ends_of[1] if at >= position), len(data))

    def _open(self, mark: Mark, opened: re.Match[str]) -> None:
        self._is_thinking = mark.thinking == "begins"
        if mark.make is not None:
            self._block, self._state = mark.make(opened), "block"
        elif mark.thinking == "ends":
            self._emit(opened[0])
            self._last = "\n"
            self._worded = False
            self._out.append(Retracted())
        else:
            self._space.append("" if self._after_block else opened[0])

    def _count_run(self, data: str, position: int) -> int:
        end = _past(data, position, self._run_character)
        self._run += end - position
        if end == len(data):
            return end
        if self._run >= _SMALLEST_FENCE and self._run_in_margin:
            self._state, self._info = "info", ""
            self._holds_info = bool(self._bare) and self._run_character == "`"
            if self._holds_info:
                return end
        else:
            self._state, self._inline = ("inline" if self._run_character == "`" else "text"), self._run
        self._emit(self._run_character * self._run)
        return end

    def _read_info(self, data: str, position: int) -> int:
        line_break = data.find("\n", position)
        part = data[position : line_break if line_break >= 0 else len(data)]
        tick = part.find("`") if self._run_character == "`" else -1
        if tick >= 0:
            self._emit_info(part[:tick])
            self._state, self._inline = "inline", self._run
            return position + tick
        end = position + len(part)
        if self._holds_info and len(self._info) + len(part) <= _LONGEST_INFO:
            self._info += part
        else:
            self._emit_info(part)
        if line_break < 0:
            return end
        if self._holds_info and self._info.strip().lower() in INFOS:
            opened = self._run_character * self._run + self._info + "\n"
            self._block, self._state = FencedJson(opened, self._run, self._bare or (), self._as_written), "block"
        else:
            self._emit_info("\n")
            self._state, self._fence = "fence", FenceEnd(self._run_character, self._run)
        return line_break + 1

    def _emit_info(self, part: str) -> None:
        held = self._run_character * self._run + self._info if self._holds_info else ""
        self._holds_info = False
        self._emit(held + part)

    def _read_inline(self, data: str, position: int) -> int:
        found = _INLINE.search(data, position)
        if found is None:
            self._emit(data[position:])
            return len(data)
        at = found.start()
        if found[0] == "\n":
            self._emit(data[position : at + 1])
            self._state = "text"
            return at + 1
        self._emit(data[position:at])
        self._state, self._run = "inline run", 0
        return at

    def _count_inline_run(self, data: str, position: int) -> int:
        end = _past(data, position, "`")
        self._run += end - position
        self._emit(data[position:end])
        if end < len(data):
            self._state = "text" if self._run == self._inline else "inline"
        return end

    def _close_text(self) -> None:
        tail, self._tail = self._tail, ""
        if self._state == "run":
            self._emit(self._run_character * self._run)
        if self._state == "info":
            self._emit_info("")
        if any(tail.startswith(mark.head) for mark in self._marks if mark.make is not None and not mark.thinking):
            self._give(BrokenCall("", tail, UNCLOSED))
        else:
            self._emit(tail)


def _goes_on(pieces: Sequence[AnswerPiece]) -> bool:
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


def _slices(text: str) -> list[str]:
    return [text[start : start + _SLICE] for start in range(0, len(text), _SLICE)]


def _past(data: str, position: int, character: str) -> int:
    """Return the end of the run of `character`."""
    found = _RUNS[character].match(data, position)
    assert found is not None
    return found.end()
