"""Finds the line that closes a code fence, in text that comes in pieces."""

import re
from typing import Literal

_MARGIN = re.compile(r" *")
_TRAIL = re.compile(r"[ \t\r]*")
_DEEPEST_MARGIN = 3


class FenceEnd:
    """As CommonMark has it: at least as many of the same character, alone on a line, hardly indented."""

    def __init__(self, character: str, size: int, *, at_line_start: bool = True) -> None:
        self._size = size
        self._character = character
        self._run = re.compile(re.escape(character) + "*")
        self._part: Literal["margin", "run", "trail", "rest"] = "margin" if at_line_start else "rest"
        self._count = 0

    def read(self, data: str, position: int) -> tuple[int, bool]:
        """Where it stopped, at the end of `data` at the latest, and whether the fence ended there."""
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
        """Whether the fence is closed if nothing more comes."""
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
