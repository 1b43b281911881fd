"""What a text protocol is: how it is chosen, what it writes, and the pieces its parser finds in an answer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, Protocol

from codeagent.core.messages import ToolCall, ToolMessage
from codeagent.core.tool import ToolDefinition

Body = Literal["json", "name and arguments"]
"""What stands between the marks of `delimited`."""
ProtocolName = Literal["json", "xml", "hermes", "delimited"]
Schemas = Mapping[str, Mapping[str, Any]]
"""Tool → the JSON Schema of its arguments."""


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
    """The first that matches counts."""
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
    """JSON; where the block held no JSON, its raw text, for the executor to refuse."""


@dataclass(frozen=True)
class BrokenCall:
    """A block that must not run."""

    name: str
    """Of the tool where it can be read; empty otherwise."""
    raw: str
    """The block as the model wrote it."""
    why: str


@dataclass(frozen=True)
class Retracted:
    """Everything before this was thinking: none of its calls may run."""


AnswerPiece = Text | ParsedCall | BrokenCall | Retracted


@dataclass(frozen=True)
class BlockStep:
    """What a block reader made of the text it was given."""

    position: int
    """It has taken the text up to here; the rest is given to it again, with what follows."""
    pieces: tuple[AnswerPiece, ...] = ()
    ended: bool = False
    again: str = ""
    """Text the block had taken that must be read again, before the rest."""
    doubt: bool = False
    """It is uncertain where the block ended: no later block of the answer may run."""
    tentative: str = ""
    """What the calls become, as text, if the answer has any other text."""
    fence: int = 0
    """The block was an ordinary code fence of that many backticks, and what follows is inside."""


class AnswerParser(Protocol):
    """Splits the text of one answer into pieces as it comes in."""

    def feed(self, text: str) -> list[AnswerPiece]: ...

    def close(self) -> list[AnswerPiece]: ...


class TextProtocol(Protocol):
    """One way to write tools, calls and results as text.

    Rendering depends on its input alone, so that a provider's cache holds from turn to turn.
    """

    @property
    def name(self) -> str: ...

    def render_tools(self, tools: Sequence[ToolDefinition]) -> str:
        """Return the last section of the system prompt."""

    def render_call(self, call: ToolCall) -> str:
        """Write the call so that the parser reads the same name, and the same arguments if they are a JSON object."""

    def render_results(self, results: Sequence[ToolMessage]) -> str:
        """Return one user message for the calls of one answer: each result with its number and its tool's name."""

    def parser(self, tools: Sequence[ToolDefinition]) -> AnswerParser:
        """Return a parser for one answer."""


def section(form: str, tools: Sequence[ToolDefinition], *, result: str) -> str:
    """Return the text all protocols share; `form` shows a call, `result` says how results look."""
    listed = "\n".join(_listed(tool) for tool in tools)
    return (
        "# Tools\n\n"
        "You act by calling tools. Each line below is one tool, as JSON with the JSON Schema of its arguments:\n\n"
        f"{listed}\n\n"
        f"To call a tool, write exactly this, outside of code blocks other than shown here:\n\n{form}\n\n"
        "You may call several tools one after the other. Close every block; one that is not closed is not run. "
        f"Then end your answer and wait: {result} Never write a result yourself. "
        "When no tool is needed any more, answer without a block."
    )


def _listed(tool: ToolDefinition) -> str:
    about = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return json.dumps(about, ensure_ascii=False)


def schemas(tools: Sequence[ToolDefinition]) -> Schemas:
    return {tool.name: tool.parameters for tool in tools}
