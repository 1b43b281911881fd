"""Reads thinking that a server leaves in the text: it is shown, and its calls do not run."""

import re
from collections.abc import Iterable
from itertools import product

from codeagent.llm.protocols.marks import Mark
from codeagent.llm.protocols.protocol import BlockStep, Text

_NAMES = ("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "analysis", "scratchpad", "think_fast")
_TAGGED = tuple(
    (f"{left}{cased}{right}", (f"{left}/{cased}{right}",))
    for name, (left, right) in product(_NAMES, (("<", ">"), ("[", "]")))
    for cased in (name, name.upper(), name.capitalize())
)
_SPECIAL = (
    ("<seed:think>", ("</seed:think>",)),
    ("<mm:think>", ("</mm:think>",)),
    ("◁think▷", ("◁/think▷",)),
    ("<|think|>", ("<|/think|>",)),
    ("<|begin_of_thought|>", ("<|end_of_thought|>",)),
    ("<|START_THINKING|>", ("<|END_THINKING|>",)),
    ("<|inner_prefix|>", ("<|inner_suffix|>",)),
    ("<|channel>thought", ("<channel|>",)),
)
_SPOKEN = (
    ("<|channel|>analysis<|message|>", ("<|end|>", "<|start|>", "<|channel|>")),
    ("Here is my thought process:", ("Here is my response:",)),
    ("Here's my thought process:", ("Here's my response:",)),
)
"""The ends of these may also stand elsewhere in an answer."""


class ThinkingBlock:
    """Reads up to the mark that ends the thinking.

    If that mark never comes, the calls at the end may be meant: from the first one on, the text is held back.
    """

    def __init__(self, opened: str, ends: tuple[str, ...], calls: tuple[str, ...]) -> None:
        """`opened` is the mark that began it, `ends` are those that may end it, `calls` the beginnings of calls."""
        self._opened = opened
        self._ends, self._calls = _OneOf(ends), _OneOf((*ends, *calls))
        self._held: list[str] | None = None

    def read(self, data: str, position: int) -> BlockStep:
        if self._held is None:
            found, certain = self._calls.find(data, position)
            if found is None or data.startswith(self._ends.marks, found.start()):
                return self._step(data, position, certain if found is None else found.end(), ended=found is not None)
            self._held = []
            before = self._step(data, position, found.start(), ended=False)
            after = self.read(data, found.start())
            return BlockStep(after.position, (*before.pieces, *after.pieces), after.ended)
        found, certain = self._ends.find(data, position)
        end = certain if found is None else found.end()
        self._held.append(data[position:end])
        if found is None:
            return BlockStep(end)
        return BlockStep(end, (Text("".join(self._held)),), ended=True)

    def _step(self, data: str, position: int, end: int, *, ended: bool) -> BlockStep:
        text, self._opened = self._opened + data[position:end], ""
        return BlockStep(end, (Text(text),), ended=ended)

    def close(self, rest: str) -> BlockStep:
        """End the block: what was held back is read as if the thinking had ended before it."""
        if self._held is None:
            return BlockStep(0, (Text(self._opened + rest),), ended=True)
        return BlockStep(0, ended=True, again="".join(self._held) + rest)


class _OneOf:
    """Finds the first of several literal marks in text that comes in pieces."""

    def __init__(self, marks: tuple[str, ...]) -> None:
        self.marks = marks
        self._pattern = re.compile("|".join(map(re.escape, sorted(marks, key=len, reverse=True))))
        self._begun = {mark[:size] for mark in marks for size in range(1, len(mark))}
        self._longest = max(map(len, marks))

    def find(self, data: str, position: int) -> tuple[re.Match[str] | None, int]:
        """Return the mark and where it is, or None and the end of the text in which no mark can have begun."""
        found = self._pattern.search(data, position)
        if found is not None:
            return found, found.start()
        for at in range(max(position, len(data) - self._longest + 1), len(data)):
            if data[at:] in self._begun:
                return None, at
        return None, len(data)


def thinking_marks(calls: Iterable[str]) -> tuple[Mark, ...]:
    """Return the marks of thinking; `calls` are the literals that blocks of calls begin with.

    An end without a beginning belongs to thinking that the prompt opened: calls before it do not count.
    """
    heads = tuple(calls)
    opening = [_mark(opened, ends, heads) for opened, ends in (*_TAGGED, *_SPECIAL, *_SPOKEN)]
    closing = [Mark((end,), None, thinking="ends") for _, ends in (*_TAGGED, *_SPECIAL) for end in ends]
    return (*opening, *closing)


def _mark(opened: str, ends: tuple[str, ...], calls: tuple[str, ...]) -> Mark:
    return Mark((opened,), lambda found: ThinkingBlock(found[0], ends, calls), thinking="begins")
