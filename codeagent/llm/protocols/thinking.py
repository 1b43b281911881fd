"""Reads thinking that a server leaves in the text: it is shown, and its calls do not run."""

from collections.abc import Iterable
from itertools import product

from codeagent.llm.protocols.marks import Block, BlockEnd, Literals, Mark, Source
from codeagent.llm.protocols.protocol import Text

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


def thinking_block(source: Source, opened: str, ends: tuple[str, ...], calls: tuple[str, ...]) -> Block:
    """Read up to the mark that ends the thinking.

    `opened` is the mark that began it, `ends` are those that may end it, `calls` the beginnings of calls. If no end
    comes, the calls at the end of the answer may be meant: from the first one on, the text is held back, to be read as
    if the thinking had ended before it.
    """
    text, marks = opened, Literals((*ends, *calls))
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

    An end without a beginning belongs to thinking that the prompt opened: calls before it do not count.
    """
    heads = tuple(calls)
    opening = [_mark(opened, ends, heads) for opened, ends in (*_TAGGED, *_SPECIAL, *_SPOKEN)]
    closing = [Mark((end,), None, thinking="ends") for _, ends in (*_TAGGED, *_SPECIAL) for end in ends]
    return (*opening, *closing)


def _mark(opened: str, ends: tuple[str, ...], calls: tuple[str, ...]) -> Mark:
    return Mark((opened,), lambda source, found: thinking_block(source, found[0], ends, calls), thinking="begins")
