"""The pieces that the parser of a text protocol finds in an answer."""

from typing import Literal

from codeagent.core.dataclass import dataclass

Body = Literal["json", "name and arguments", "lines"]
"""What is between the marks of `delimited`."""


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class ParsedCall:
    """A call whose block was closed."""

    name: str
    arguments: str
    """JSON; if the block held none, its raw text, for the executor to refuse."""


@dataclass(frozen=True)
class BrokenCall:
    """A block that must not run."""

    name: str
    """Of the tool, if it can be read; empty otherwise."""
    raw: str
    """The block as the model wrote it."""
    why: str


@dataclass(frozen=True)
class Retracted:
    """Everything before this was thinking: none of its calls may run."""


AnswerPiece = Text | ParsedCall | BrokenCall | Retracted
