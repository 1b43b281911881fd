"""Calls as JSON in a fence, or as bare JSON: for models without a format of their own."""

from collections.abc import Sequence

from codeagent.core.messages import ToolCall, ToolMessage
from codeagent.core.tool import ToolDefinition
from codeagent.llm.protocols.json_block import AROUND_LLAMA, LLAMA, llama_block
from codeagent.llm.protocols.marks import Mark
from codeagent.llm.protocols.protocol import Parser, section
from codeagent.llm.protocols.reader import Reader
from codeagent.llm.protocols.rendering import call_json, result_json

_FORM = '```json\n{"name": "the tool", "arguments": {"its": "arguments"}}\n```'
_RESULT = "the next message holds the results, in the order of the calls."


class JsonProtocol:
    """Only what has exactly the shape of a call, with the name of a tool, is one."""

    name = "json"

    def render_tools(self, tools: Sequence[ToolDefinition]) -> str:
        return section(_FORM, tools, result=_RESULT)

    def render_call(self, call: ToolCall) -> str:
        return f"```json\n{call_json(call)}\n```"

    def render_results(self, results: Sequence[ToolMessage]) -> str:
        listed = ",\n".join(result_json(number, result) for number, result in enumerate(results, start=1))
        return f'```json\n{{"tool_results": [\n{listed}\n]}}\n```'

    def parser(self, tools: Sequence[ToolDefinition]) -> Parser:
        return Reader((Mark(LLAMA, llama_block), *AROUND_LLAMA), bare=frozenset(tool.name for tool in tools))
