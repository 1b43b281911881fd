"""How blocks begin and code fences end, recognised while the text is still coming, and the blocks
of thinking.

Thinking that a server leaves in the text is shown, and its calls do not run.
"""

import re
from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import cached_property, partial
from itertools import product
from typing import Literal

from codeagent.core.dataclass import dataclass
from codeagent.extensions.text_calls.protocol import AnswerPiece, Text

_SLICE = 4096
"""Characters read at a time: this bounds the cost of reading text again."""
_LONGEST = 1500
"""Characters: no mark is longer, with the tool's name in it."""
_MARGIN = re.compile(r" *")
_TRAIL = re.compile(r"[ \t\r]*")
_DEEPEST_MARGIN = 3
_THINKING_NAMES = (
    "think",
    "thinking",
    "thought",
    "thoughts",
    "reasoning",
    "reflection",
    "analysis",
    "scratchpad",
    "think_fast",
)
_THINKING_TAGS = tuple(
    (f"{left}{cased}{right}", (f"{left}/{cased}{right}",))
    for name, (left, right) in product(_THINKING_NAMES, (("<", ">"), ("[", "]")))
    for cased in (name, name.upper(), name.capitalize())
)
_THINKING_TOKENS = (
    ("<seed:think>", ("</seed:think>",)),
    ("<mm:think>", ("</mm:think>",)),
    ("◁think▷", ("◁/think▷",)),
    ("<|think|>", ("<|/think|>",)),
    ("<|begin_of_thought|>", ("<|end_of_thought|>",)),
    ("<|START_THINKING|>", ("<|END_THINKING|>",)),
    ("<|inner_prefix|>", ("<|inner_suffix|>",)),
    ("<|channel>thought", ("<channel|>",)),
)
_THINKING_PHRASES = (
    ("<|channel|>analysis<|message|>", ("<|end|>", "<|start|>", "<|channel|>")),
    ("Here is my thought process:", ("Here is my response:",)),
    ("Here's my thought process:", ("Here's my response:",)),
)
"""The ends of these may also occur elsewhere in an answer."""


@dataclass(frozen=True)
class Characters:
    """A run of characters of one class; with a `name` it is a group of the match."""

    kind: str
    """The class, as a regular expression."""
    least: int = 0
    most: int = 64
    name: str = ""


@dataclass(frozen=True)
class Lookahead:
    """A literal, or one character of a class, that must follow and is left for the block."""

    literal: str = ""
    characters: str = ""


SPACE = Characters(r"\s")
MarkPart = str | Characters | Lookahead


class AnswerEnded(Exception):
    """The answer ended in the middle of a block."""


class Source:
    """The text of one answer as it comes in, and how far it was read."""

    def __init__(self) -> None:
        self.data = ""
        """What can be read now."""
        self.at = 0
        self.pending: deque[str] = deque()
        """What comes next."""
        self._taken: list[str] = []

    def feed(self, text: str) -> None:
        self.pending.extend(_slices(text))

    def next_slice(self) -> None:
        self.data = self.data[self.at :] + self.pending.popleft()
        self.at = 0

    @property
    def rest(self) -> str:
        return self.data[self.at :]

    def skip(self, end: int) -> str:
        """Read on to `end`, and return what is before it."""
        text = self.data[self.at : end]
        self.at = end
        return text

    def take(self, end: int) -> str:
        """Read on to `end`, as a part of the block that is being read."""
        text = self.skip(end)
        self._taken.append(text)
        return text

    def block(self) -> str:
        """Return what was taken since the last time."""
        text = "".join(self._taken)
        self._taken.clear()
        return text

    def take_until(self, mark: str) -> Generator[str, bool, None]:
        """Take text until the block holds the mark, and what came with that. Raises AnswerEnded."""
        tail = "".join(self._taken)
        while mark not in (searched := tail + self.take(len(self.data))):
            tail = searched[-len(mark) :]
            yield from more()

    def again(self, text: str) -> None:
        """Put text back, to be read before the rest."""
        self.pending.extendleft(reversed([*_slices(text), self.rest]))
        self.data = ""
        self.at = 0


@dataclass(frozen=True)
class BlockEnd:
    """What a block turned out to be."""

    pieces: tuple[AnswerPiece, ...] = ()
    again: str = ""
    """Text the block had taken that must be read again, before the rest."""
    doubt: bool = False
    """It is uncertain where the block ended: no later block of the answer may run."""
    tentative: str = ""
    """What the pieces become, as text, if words follow; empty if they are calls in any case."""
    alone: bool = False
    """A tentative block is text also if words come before it."""
    fence: int = 0
    """The block was an ordinary code fence of that many backticks, and what follows is inside."""


Block = Generator[str, bool, BlockEnd]
"""Reads what lies between a mark and its end.

When it needs more of the answer it yields what is text in any case, mostly nothing, and leaves at
most a mark's length unread; it is sent False when nothing more comes.
"""


def more() -> Generator[str, bool, None]:
    """Wait for more of the answer. Raises AnswerEnded when nothing more comes."""
    if not (yield ""):
        raise AnswerEnded


@dataclass(frozen=True)
class Mark:
    """The opening mark of a block."""

    parts: tuple[MarkPart, ...]
    read: Callable[[Source, re.Match[str]], Block] | None
    """Begins to read the block. None: it only surrounds blocks and is dropped there; elsewhere it
    is text."""
    thinking: Literal["", "begins", "ends"] = ""
    """It begins thinking, or ends thinking whose beginning is not in the answer."""
    line: bool = False
    """Whether it counts only at the beginning of a line."""

    @property
    def head(self) -> str:
        """The literal the mark begins with."""
        head = self.parts[0]
        assert isinstance(head, str)
        return head

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        return re.compile("".join(map(_whole, self.parts)))

    @cached_property
    def _begun(self) -> re.Pattern[str]:
        return re.compile(_begun(self.parts) + r"\Z")

    def match(self, data: str, position: int) -> re.Match[str] | None:
        return self._whole.match(data, position)

    def may_begin(self, data: str, position: int) -> bool:
        """Tell whether the text there could still become this mark."""
        return len(data) - position < _LONGEST and self._begun.match(data, position) is not None


def _whole(part: MarkPart) -> str:
    match part:
        case str():
            return re.escape(part)
        case Characters(kind, least, most, name):
            run = f"{kind}{{{least},{most}}}"
            return f"(?P<{name}>{run})" if name else run
        case Lookahead(literal, characters):
            return f"(?={re.escape(literal)}{characters})"


def _begun(parts: tuple[MarkPart, ...]) -> str:
    """Return a pattern that matches every beginning of the parts, the empty one included."""
    if not parts:
        return ""
    head, rest = parts[0], _begun(parts[1:])
    match head:
        case Characters(kind, _, most):
            return f"{kind}{{0,{most}}}{rest}"
        case Lookahead(literal, _):
            return _beginnings(literal, "") if literal else ""
        case str():
            return _beginnings(head, rest)


def _beginnings(literal: str, rest: str) -> str:
    shorter = "|".join(re.escape(literal[:size]) for size in range(len(literal) - 1, 0, -1))
    return (
        f"(?:{re.escape(literal)}{rest}|{shorter}|)"
        if shorter
        else f"(?:{re.escape(literal)}{rest}|)"
    )


class Literals:
    """Finds the first of several literals in text that comes in pieces."""

    def __init__(self, literals: Iterable[str], *others: str) -> None:
        """`others` are regular expressions of what is found, too, and not cut off at the end of the
        text."""
        known = sorted(set(literals), key=len, reverse=True)
        self._pattern = re.compile("|".join([*map(re.escape, known), *others]))
        self._begun = {literal[:size] for literal in known for size in range(1, len(literal))}
        self._longest = len(known[0])
        self._ends: tuple[str, list[int]] = "", []

    def find(self, data: str, position: int) -> tuple[re.Match[str] | None, int]:
        """Return the first and its place, or None and the end of the text in which none can have
        begun."""
        if data is not self._ends[0]:
            last = range(max(0, len(data) - self._longest), len(data))
            self._ends = data, [at for at in last if data[at:] in self._begun]
        begun = next((at for at in self._ends[1] if at >= position), len(data))
        found = self._pattern.search(data, position)
        return (None, begun) if found is None or begun <= found.start() else (found, found.start())


class FenceEnd:
    """Finds the line that closes a code fence, as CommonMark defines it.

    That is at least as many of the same character, alone on a line, indented by three spaces at
    most.
    """

    def __init__(self, character: str, size: int, *, at_line_start: bool = True) -> None:
        self._size = size
        self._character = character
        self._run = re.compile(re.escape(character) + "*")
        self._part: Literal["margin", "run", "trail", "rest"] = (
            "margin" if at_line_start else "rest"
        )
        self._count = 0

    def read(self, data: str, position: int) -> tuple[int, bool]:
        """Return where it stopped, at the end of `data` at the latest, and whether the fence ended
        there."""
        while position < len(data):
            match self._part:
                case "margin":
                    position = self._margin(data, position)
                case "run":
                    position = self._counted(self._run, data, position)
                    if position < len(data):
                        self._part = "trail" if self._count >= self._size else "rest"
                case "trail":
                    position = self._counted(_TRAIL, data, position)
                    if position < len(data) and data[position] == "\n":
                        return position + 1, True
                    self._part = "trail" if position == len(data) else "rest"
                case "rest":
                    position = data.find("\n", position) + 1 or len(data)
                    if data[position - 1] == "\n":
                        self._part = "margin"
                        self._count = 0
        return position, False

    def at_end(self) -> bool:
        """Tell whether the fence is closed if nothing more comes."""
        return self._part == "trail" or (self._part == "run" and self._count >= self._size)

    def _margin(self, data: str, position: int) -> int:
        position = self._counted(_MARGIN, data, position)
        if position < len(data):
            closes = data[position] == self._character and self._count <= _DEEPEST_MARGIN
            self._part = "run" if closes else "rest"
            self._count = 0
        return position

    def _counted(self, pattern: re.Pattern[str], data: str, position: int) -> int:
        found = pattern.match(data, position)
        assert found is not None
        self._count += found.end() - position
        return found.end()


def thinking_block(
    ends: tuple[str, ...], calls: tuple[str, ...], source: Source, opened: re.Match[str]
) -> Block:
    """Read up to the mark that ends the thinking.

    `opened` is the mark that began it, `ends` are those that may end it, `calls` the beginnings of
    calls. If no end comes, the calls at the end of the answer may be meant: from the first one on,
    the text is held back, to be read as if the thinking had ended before it.
    """
    text, marks = opened[0], Literals((*ends, *calls))
    while True:
        found, certain = marks.find(source.data, source.at)
        text += source.skip(certain)
        if found is not None:
            break
        if not (yield text):
            return BlockEnd((Text(source.rest),))
        text = ""
    marks = Literals(ends)
    while True:
        found, certain = marks.find(source.data, source.at)
        source.take(certain if found is None else found.end())
        if found is not None:
            return BlockEnd((Text(text + source.block()),))
        if not (yield text):
            return BlockEnd(again=source.block() + source.rest)
        text = ""


def thinking_marks(calls: Iterable[str]) -> tuple[Mark, ...]:
    """Return the marks of thinking; `calls` are the literals that blocks of calls begin with.

    An end without a beginning belongs to thinking that the prompt opened: calls before it do not
    count.
    """
    heads = tuple(calls)
    opening = [
        Mark((opened,), partial(thinking_block, ends, heads), thinking="begins")
        for opened, ends in (*_THINKING_TAGS, *_THINKING_TOKENS, *_THINKING_PHRASES)
    ]
    closing = [
        Mark((end,), None, thinking="ends")
        for _, ends in (*_THINKING_TAGS, *_THINKING_TOKENS)
        for end in ends
    ]
    return (*opening, *closing)


def _slices(text: str) -> list[str]:
    return [text[start : start + _SLICE] for start in range(0, len(text), _SLICE)]
