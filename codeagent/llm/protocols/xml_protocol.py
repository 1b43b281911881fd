"""Calls as XML-like tags, one per argument."""

import json
from collections.abc import Sequence
from functools import partial
from re import Match
from xml.sax.saxutils import escape, unescape

from codeagent.core.coercion import as_said, as_string
from codeagent.core.messages import ToolCall, ToolMessage
from codeagent.core.tool import ToolDefinition
from codeagent.llm.protocols.argument_block import ENTITIES, ArgumentBlock
from codeagent.llm.protocols.json_block import JsonBlock
from codeagent.llm.protocols.json_calls import members
from codeagent.llm.protocols.marks import SPACE, Ahead, Block, Mark, Run
from codeagent.llm.protocols.protocol import Parser, Schemas, schemas, section
from codeagent.llm.protocols.reader import Reader
from codeagent.llm.protocols.rendering import result_text
from codeagent.llm.protocols.tags import Tags, attribute_tags

_FORM = (
    '<invoke name="the tool">\n<parameter name="text argument">its text, as it is</parameter>\n'
    '<parameter name="other argument" type="json">["as", "JSON"]</parameter>\n</invoke>\n\n'
    "Nothing is escaped in a value. Only where a value itself contains such tags, write it as "
    "<![CDATA[...]]>, with ]]> inside written as ]]]]><![CDATA[>."
)
_RESULT = "the next message holds each result in <result> tags, in the order of the calls."
_PREFIXES = ("", "antml:", "｜DSML｜", "｜DSML｜ ")
"""What models put before `invoke` and `parameter`."""
_AROUND = (
    *(f"{prefix}{name}" for prefix in _PREFIXES for name in ("function_calls", "tool_calls", "calls")),
    "tool_call",
    "minimax:tool_call",
    "dots_function_call",
)
_FUNCTION = attribute_tags("function", "param")
_NAME = Run(r'[^"<>\n]', 1, 1000, name="name")
_CDATA_NEEDED = ("<![CDATA[", "<parameter", "</parameter", "<invoke", "</invoke", "<result", "</result")
_WORDS = ("true", "false", "null")


class XmlProtocol:
    """Values are taken byte for byte; types come from `type`, or else from the tool's schema."""

    name = "xml"

    def render_tools(self, tools: Sequence[ToolDefinition]) -> str:
        return section(_FORM, tools, result=_RESULT)

    def render_call(self, call: ToolCall) -> str:
        name = _attribute(call.name)
        if not call.arguments.strip():
            return f'<invoke name="{name}">\n</invoke>'
        given = members(call.arguments)
        if given is None:
            return f'<invoke name="{name}">\n{call.arguments}\n</invoke>'
        lines = "".join(_argument(key, value) + "\n" for key, value in given.items())
        return f'<invoke name="{name}">\n{lines}</invoke>'

    def render_results(self, results: Sequence[ToolMessage]) -> str:
        return "\n".join(_result(number, result) for number, result in enumerate(results, start=1))

    def parser(self, tools: Sequence[ToolDefinition]) -> Parser:
        known = schemas(tools)
        formats = [attribute_tags(f"{prefix}invoke", f"{prefix}parameter") for prefix in _PREFIXES]
        marks: list[Mark] = []
        for tags in (*formats, _FUNCTION):
            head = (tags.nested, Run(r"\s", 0), 'name="', _NAME, '"', SPACE, ">")
            marks.append(Mark((*head, SPACE, Ahead("{")), partial(_json_block, tags)))
            marks.append(Mark(head, partial(_argument_block, tags, known)))
        marks.append(Mark(("<dots_function_call>", SPACE, Ahead("{")), _dots))
        marks += [Mark((f"<{slash}{name}>",), None) for name in _AROUND for slash in ("", "/")]
        return Reader(marks)


def _json_block(tags: Tags, opened: Match[str]) -> Block:
    return JsonBlock(opened[0], (tags.end,), name=unescape(opened["name"], ENTITIES))


def _dots(opened: Match[str]) -> Block:
    return JsonBlock(opened[0], ("</dots_function_call>",))


def _argument_block(tags: Tags, known: Schemas, opened: Match[str]) -> Block:
    name = unescape(opened["name"], ENTITIES)
    return ArgumentBlock(tags, opened[0], name, known.get(name, {}))


def _attribute(text: str) -> str:
    return escape(text, {character: entity for entity, character in ENTITIES.items()})


def _argument(key: str, value: str) -> str:
    """`type` is left out only where nothing but text can be meant."""
    if not value.startswith('"'):
        return f'<parameter name="{_attribute(key)}" type="json">{_body(value)}</parameter>'
    text = str(json.loads(value))
    looks_typed = as_said(text) != as_string(text) or text.strip().lower() in _WORDS
    said = ' type="string"' if looks_typed else ""
    return f'<parameter name="{_attribute(key)}"{said}>{_body(text)}</parameter>'


def _result(number: int, result: ToolMessage) -> str:
    error = ' error="true"' if result.is_error else ""
    body = _body(result_text(result.content))
    return f'<result call="{number}" name="{_attribute(result.name)}"{error}>{body}</result>'


def _body(text: str) -> str:
    if not any(mark in text for mark in _CDATA_NEEDED):
        return text
    return f"<![CDATA[{text.replace(']]>', ']]]]><![CDATA[>')}]]>"
