"""Calls in `<tool_call>` tags, as Hermes and Qwen models write them, and the special tokens of their relatives."""

from collections.abc import Sequence
from functools import partial
from re import Match

from codeagent.core.messages import ToolCall, ToolMessage
from codeagent.core.tool import ToolDefinition
from codeagent.llm.protocols.argument_block import ArgumentBlock
from codeagent.llm.protocols.json_block import AROUND_LLAMA, LLAMA, JsonBlock, llama_block
from codeagent.llm.protocols.marks import SPACE, Ahead, Block, Mark, Part, Run
from codeagent.llm.protocols.protocol import Parser, Schemas, schemas, section
from codeagent.llm.protocols.reader import Reader
from codeagent.llm.protocols.rendering import call_json, result_json
from codeagent.llm.protocols.tags import GLM, QWEN, Tags

_FORM = '<tool_call>\n{"name": "the tool", "arguments": {"its": "arguments"}}\n</tool_call>'
_RESULT = "the next message holds each result in <tool_response> tags, in the order of the calls."
_JSON = Ahead(characters=r"[{\[]")
_OBJECT = Ahead("{")
_NAME = Run(r"[^\s<>\"'{}\[\]()=,:|]", 1, 128, name="name")
_FENCE = "```json"

_BODIES: tuple[tuple[tuple[Part, ...], tuple[str, ...], bool], ...] = (
    (("<tool_call>", SPACE, _JSON), ("</tool_call>",), False),
    (("<tool_call>", SPACE, _FENCE, SPACE, _JSON), ("</tool_call>",), True),
    (("<tool_calls>", SPACE, _JSON), ("</tool_calls>",), False),
    (("<longcat_tool_call>", SPACE, _JSON), ("</longcat_tool_call>",), False),
    (("<function_call>", SPACE, _OBJECT), (), False),
    (("<|tool_call|>", SPACE, Ahead("[")), (), False),
    (("<|action_start|>", SPACE, "<|plugin|>", SPACE, _JSON), ("<|action_end|>",), False),
    (("[TOOL_CALLS]", SPACE, _JSON), (), False),
    (("[TOOL_CALLS]", SPACE, _NAME, SPACE, _OBJECT), (), False),
    (("[TOOL_CALLS]", SPACE, _NAME, "[ARGS]", SPACE, _OBJECT), (), False),
    (("[TOOL_CALLS]", SPACE, _NAME, "[CALL_ID]", Run(r"\w"), "[ARGS]", SPACE, _OBJECT), (), False),
    (
        ("<|tool_call_begin|>", SPACE, "functions.", _NAME, ":", Run(r"\d"), SPACE, "<|tool_call_argument_begin|>",
         SPACE, _OBJECT),
        ("<|tool_call_end|>",),
        False,
    ),
    (
        ("<|tool_call_begin|>", SPACE, _NAME, ":", Run(r"\d"), SPACE, "<|tool_call_argument_begin|>", SPACE, _OBJECT),
        ("<|tool_call_end|>",),
        False,
    ),
    (
        ("<｜tool▁call▁begin｜>", "function<｜tool▁sep｜>", _NAME, SPACE, _FENCE, SPACE, _OBJECT),
        ("<｜tool▁call▁end｜>",),
        True,
    ),
    (("<｜tool▁call▁begin｜>", _NAME, "<｜tool▁sep｜>", SPACE, _OBJECT), ("<｜tool▁call▁end｜>",), False),
    (("<function=", _NAME, ">", SPACE, _OBJECT), ("</function>",), False),
)  # fmt: skip  # a table, one format to the line
"""How JSON begins and ends, and whether a code fence is around it. No end: the JSON's own end is enough."""
_TAGS: tuple[tuple[tuple[Part, ...], Tags], ...] = (
    (("<function=", _NAME, ">"), QWEN),
    (("<tool_call>", SPACE, _NAME, SPACE, Ahead("<arg_key>")), GLM),
    (("<tool_call>", SPACE, _NAME, SPACE, Ahead("</tool_call>")), GLM),
)
_UNFINISHED: tuple[Part, ...] = ("<function=", _NAME, Run(r"\s", 1))
"""The `>` is missing."""
_AROUND = (
    "<tool_call>",
    "</tool_call>",
    "<tool_calls>",
    "</tool_calls>",
    "<seed:tool_call>",
    "</seed:tool_call>",
    "</function_call>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
)
"""Stands around blocks."""


class HermesProtocol:
    """Writes `<tool_call>` with JSON; reads the whole family. Values in tags of their own get the schema's types."""

    name = "hermes"

    def render_tools(self, tools: Sequence[ToolDefinition]) -> str:
        return section(_FORM, tools, result=_RESULT)

    def render_call(self, call: ToolCall) -> str:
        return f"<tool_call>\n{call_json(call)}\n</tool_call>"

    def render_results(self, results: Sequence[ToolMessage]) -> str:
        return "\n".join(
            f"<tool_response>\n{result_json(number, result)}\n</tool_response>"
            for number, result in enumerate(results, start=1)
        )

    def parser(self, tools: Sequence[ToolDefinition]) -> Parser:
        marks = [Mark(parts, partial(_json_block, closers, fenced)) for parts, closers, fenced in _BODIES]
        marks += [Mark(parts, partial(_argument_block, tags, schemas(tools))) for parts, tags in _TAGS]
        marks += [Mark(LLAMA, llama_block), Mark(_UNFINISHED, _unfinished), *AROUND_LLAMA]
        marks += [Mark((around,), None) for around in _AROUND]
        return Reader(marks)


def _json_block(closers: tuple[str, ...], fenced: bool, opened: Match[str]) -> Block:
    return JsonBlock(opened[0], closers, name=opened.groupdict().get("name") or "", fenced=fenced)


def _unfinished(opened: Match[str]) -> Block:
    return ArgumentBlock(QWEN, opened[0], opened["name"], {}, well_formed=False)


def _argument_block(tags: Tags, known: Schemas, opened: Match[str]) -> Block:
    return ArgumentBlock(tags, opened[0], opened["name"], known.get(opened["name"], {}))
