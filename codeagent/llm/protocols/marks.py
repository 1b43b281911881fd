"""How a block begins and a code fence ends, recognised while the text is still coming."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

from codeagent.llm.protocols.protocol import BlockStep

_LONGEST = 1500
"""Characters: no mark is longer, with the tool's name in it."""
_MARGIN = re.compile(r" *")
_TRAIL = re.compile(r"[ \t\r]*")
_DEEPEST_MARGIN = 3


@dataclass(frozen=True)
class Characters:
    """A run of characters of one class; with a `name` it is a group of the match."""

    kind: str
    """The class, as a regular expression."""
    least: int = 0
    most: int = 64
    name: str = ""

    @property
    def whole(self) -> str:
        body = f"{self.kind}{{{self.least},{self.most}}}"
        return f"(?P<{self.name}>{body})" if self.name else body

    @property
    def begun(self) -> str:
        return f"{self.kind}{{0,{self.most}}}"


@dataclass(frozen=True)
class Ahead:
    """A literal, or one character of a class, that must follow and is left for the block."""

    literal: str = ""
    characters: str = ""


SPACE = Characters(r"\s")
MarkPart = str | Characters | Ahead


class BlockReader(Protocol):
    """Reads what lies between a mark and its end."""

    def read(self, data: str, position: int) -> BlockStep:
        """Take text. Unless the block ends, it may leave no more than a mark's length."""

    def close(self, rest: str) -> BlockStep:
        """End the block with the answer; `rest` is what it had not taken. The step's `position` means nothing."""


@dataclass(frozen=True)
class Mark:
    """The opening mark of a block."""

    parts: tuple[MarkPart, ...]
    make: Callable[[re.Match[str]], BlockReader] | None
    """None: it only stands around blocks and is dropped there; elsewhere it is text."""
    thinking: Literal["", "begins", "ends"] = ""
    """It begins thinking, or ends thinking whose beginning is not in the answer."""

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
        case Characters():
            return part.whole
        case Ahead(literal, characters):
            return f"(?={re.escape(literal)}{characters})"


def _begun(parts: tuple[MarkPart, ...]) -> str:
    """Return a pattern that matches every beginning of the parts, the empty one included."""
    if not parts:
        return ""
    head, rest = parts[0], _begun(parts[1:])
    match head:
        case Characters():
            return f"{head.begun}{rest}"
        case Ahead(literal, _):
            return _beginnings(literal, "") if literal else ""
        case str():
            return _beginnings(head, rest)


def _beginnings(literal: str, rest: str) -> str:
    shorter = "|".join(re.escape(literal[:size]) for size in range(len(literal) - 1, 0, -1))
    return f"(?:{re.escape(literal)}{rest}|{shorter}|)" if shorter else f"(?:{re.escape(literal)}{rest}|)"


class FenceEnd:
    """Finds the line that closes a code fence, as CommonMark defines it.

    That is at least as many of the same character, alone on a line, indented by three spaces at most.
    """

    def __init__(self, character: str, size: int, *, at_line_start: bool = True) -> None:
        self._size = size
        self._character = character
        self._run = re.compile(re.escape(character) + "*")
        self._part: Literal["margin", "run", "trail", "rest"] = "margin" if at_line_start else "rest"
        self._count = 0

    def read(self, data: str, position: int) -> tuple[int, bool]:
        """Return where it stopped, at the end of `data` at the latest, and whether the fence ended there."""
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
                        self._part, self._count = "margin", 0
        return position, False

    def at_end(self) -> bool:
        """Tell whether the fence is closed if nothing more comes."""
        return self._part == "trail" or (self._part == "run" and self._count >= self._size)

    def _margin(self, data: str, position: int) -> int:
        position = self._counted(_MARGIN, data, position)
        if position < len(data):
            closes = data[position] == self._character and self._count <= _DEEPEST_MARGIN
            self._part, self._count = ("run" if closes else "rest"), 0
        return position

    def _counted(self, pattern: re.Pattern[str], data: str, position: int) -> int:
        found = pattern.match(data, position)
        assert found is not None
        self._count += found.end() - position
        return found.end()
