"""How a text protocol is chosen, and the pieces that its parser finds in an answer."""

from fnmatch import fnmatchcase
from typing import Literal

from codeagent.core.dataclass import dataclass

Body = Literal["json", "name and arguments", "lines"]
"""What is between the marks of `delimited`."""
ProtocolName = Literal["json", "xml", "hermes", "bracket", "tags", "delimited"]


@dataclass(frozen=True)
class ProtocolChoice:
    """The protocol of the models whose names match one pattern."""

    model: str
    """Glob over the model's name."""
    protocol: ProtocolName | Literal["native"]
    opening: str = ""
    closing: str = ""
    """The marks of `delimited`."""
    body: Body = "json"


@dataclass(frozen=True)
class TextTools:
    """How models without native tool calls are told about tools."""

    choices: tuple[ProtocolChoice, ...] = ()
    """The first that matches applies."""
    when_refused: Literal["json", "xml", "hermes"] = "json"
    """For a model without a choice, once its provider refused native tools."""

    def choice(self, model: str) -> ProtocolChoice | None:
        return next((choice for choice in self.choices if fnmatchcase(model, choice.model)), None)


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
