"""How a block begins: literal marks and short runs between them, recognised while they are still coming."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

from codeagent.llm.protocols.pieces import Step

_LONGEST = 1500
"""No mark with its name is longer; what is can no longer become one."""


@dataclass(frozen=True)
class Run:
    """Characters of one class; `name` makes them a group of the match."""

    characters: str
    least: int = 0
    most: int = 64
    name: str = ""

    @property
    def whole(self) -> str:
        body = f"{self.characters}{{{self.least},{self.most}}}"
        return f"(?P<{self.name}>{body})" if self.name else body

    @property
    def begun(self) -> str:
        return f"{self.characters}{{0,{self.most}}}"


@dataclass(frozen=True)
class Ahead:
    """A literal, or one of some characters, that must follow and is left for the block."""

    literal: str = ""
    characters: str = ""


SPACE = Run(r"\s")
Part = str | Run | Ahead


class Block(Protocol):
    """What lies between a mark and its end."""

    def read(self, data: str, position: int) -> Step:
        """Take text in. Without an end, no more than a mark's length may be left over."""

    def close(self, rest: str) -> Step:
        """The answer ended within the block, with a `rest` it had not taken; `position` means nothing here."""


@dataclass(frozen=True)
class Mark:
    parts: tuple[Part, ...]
    make: Callable[[re.Match[str]], Block] | None
    """None: it only stands around blocks and is dropped there; elsewhere it is text."""
    thinking: Literal["", "begins", "ends"] = ""
    """It begins thinking, or ends thinking that nothing here began."""

    @property
    def head(self) -> str:
        """The literal it begins with."""
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
        """Whether what is there could still become this mark."""
        return len(data) - position < _LONGEST and self._begun.match(data, position) is not None


def _whole(part: Part) -> str:
    match part:
        case str():
            return re.escape(part)
        case Run():
            return part.whole
        case Ahead(literal, characters):
            return f"(?={re.escape(literal)}{characters})"


def _begun(parts: tuple[Part, ...]) -> str:
    """A pattern for every beginning of the parts, the empty one included."""
    if not parts:
        return ""
    head, rest = parts[0], _begun(parts[1:])
    match head:
        case Run():
            return f"{head.begun}{rest}"
        case Ahead(literal, _):
            return _beginnings(literal, "") if literal else ""
        case str():
            return _beginnings(head, rest)


def _beginnings(literal: str, rest: str) -> str:
    shorter = "|".join(re.escape(literal[:size]) for size in range(len(literal) - 1, 0, -1))
    return f"(?:{re.escape(literal)}{rest}|{shorter}|)" if shorter else f"(?:{re.escape(literal)}{rest}|)"
