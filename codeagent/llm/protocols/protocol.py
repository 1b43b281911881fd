"""One way to write tools, calls and results as text."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from codeagent.core.messages import ToolCall, ToolMessage
from codeagent.core.tool import ToolDefinition
from codeagent.llm.protocols.pieces import Piece


class Parser(Protocol):
    """The text of one answer, piece by piece."""

    def feed(self, text: str) -> list[Piece]: ...

    def close(self) -> list[Piece]: ...


class TextProtocol(Protocol):
    """What is rendered depends on its input alone, so that a provider's cache holds from turn to turn."""

    @property
    def name(self) -> str: ...

    def render_tools(self, tools: Sequence[ToolDefinition]) -> str:
        """The last section of the system prompt."""

    def render_call(self, call: ToolCall) -> str:
        """As the parser reads it: the same name, and the same arguments where they are a JSON object."""

    def render_results(self, results: Sequence[ToolMessage]) -> str:
        """One user message for the calls of one answer, each result with its place and its tool's name."""

    def parser(self, tools: Sequence[ToolDefinition]) -> Parser:
        """For one answer."""


def section(form: str, tools: Sequence[ToolDefinition], *, result: str) -> str:
    """The text all protocols share; `form` shows a call, `result` says how results look."""
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


Schemas = Mapping[str, Mapping[str, Any]]
"""Tool → the JSON Schema of its arguments."""


def schemas(tools: Sequence[ToolDefinition]) -> Schemas:
    return {tool.name: tool.parameters for tool in tools}
