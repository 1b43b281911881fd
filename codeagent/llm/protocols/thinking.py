"""Reasoning that a server leaves in the text: shown, and never searched for calls."""

from codeagent.llm.protocols.marks import Mark
from codeagent.llm.protocols.pieces import Step, Text

_END = "</think>"


class ThinkingBlock:
    def __init__(self, opened: str) -> None:
        self._opened = opened

    def read(self, data: str, position: int) -> Step:
        found = data.find(_END, position)
        ended = found >= 0
        end = found + len(_END) if ended else _certain(data, position)
        text = self._opened + data[position:end]
        self._opened = ""
        return Step(end, (Text(text),), ended=ended)

    def close(self, rest: str) -> Step:
        return Step(0, (Text(self._opened + rest),), ended=True)


def _certain(data: str, position: int) -> int:
    """Up to where the end cannot have begun."""
    for size in range(len(_END) - 1, 0, -1):
        if data.endswith(_END[:size], position):
            return len(data) - size
    return len(data)


THINKING = Mark(("<think>",), lambda opened: ThinkingBlock(opened[0]), only_first=True)
