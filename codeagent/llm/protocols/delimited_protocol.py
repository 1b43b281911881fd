"""Calls between marks of the person's choice."""

from collections.abc import Sequence
from functools import partial
from re import Match

from codeagent.core.messages import ToolCall, ToolMessage
from codeagent.core.tool import ToolDefinition
from codeagent.llm.protocols.choice import Body
from codeagent.llm.protocols.json_block import JsonBlock
from codeagent.llm.protocols.marks import SPACE, Ahead, Block, Mark, Run
from codeagent.llm.protocols.protocol import Parser, section
from codeagent.llm.protocols.reader import Reader
from codeagent.llm.protocols.rendering import call_json, result_json

_NAME = Run(r"[^\s{]", 1, 128, name="name")
_RESULT = "the next message holds each result between the same marks, in the order of the calls."


class DelimitedProtocol:
    """The body is JSON with name and arguments, or the name and then the arguments as JSON."""

    name = "delimited"

    def __init__(self, opening: str, closing: str, body: Body = "json") -> None:
        """White space around the marks does not count; neither may be empty."""
        self._opening, self._closing, self._body = opening.strip(), closing.strip(), body
        if not self._opening or not self._closing:
            raise ValueError("a mark is empty")

    def render_tools(self, tools: Sequence[ToolDefinition]) -> str:
        arguments = '{"its": "arguments"}'
        json = f'{{"name": "the tool", "arguments": {arguments}}}'
        return section(self._wrapped(json if self._body == "json" else f"the_tool\n{arguments}"), tools, result=_RESULT)

    def render_call(self, call: ToolCall) -> str:
        if self._body == "json":
            return self._wrapped(call_json(call))
        return self._wrapped(f"{call.name}\n{call.arguments.strip() or '{}'}")

    def render_results(self, results: Sequence[ToolMessage]) -> str:
        return "\n".join(self._wrapped(result_json(number, result)) for number, result in enumerate(results, start=1))

    def parser(self, tools: Sequence[ToolDefinition]) -> Parser:
        named = (_NAME, SPACE, Ahead("{")) if self._body != "json" else (Ahead(characters=r"[{\[]"),)
        return Reader((Mark((self._opening, SPACE, *named), partial(_block, self._closing)),))

    def _wrapped(self, body: str) -> str:
        return f"{self._opening}\n{body}\n{self._closing}"


def _block(closing: str, opened: Match[str]) -> Block:
    return JsonBlock(opened[0], (closing,), name=opened.groupdict().get("name") or "")
