"""The text protocols by name: json, xml, hermes, and delimited by marks of the user's choice.

Each writes one format and reads its whole family, since models mix them up.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from re import Match
from typing import Literal
from xml.sax.saxutils import escape, unescape

from codeagent.core.coercion import as_said, as_string
from codeagent.core.messages import ContentPart, TextPart, ToolCall, ToolMessage
from codeagent.core.tool import ToolDefinition
from codeagent.llm.protocols.argument_tags import ENTITIES, GLM, QWEN, ArgumentBlock, Tags, attribute_tags
from codeagent.llm.protocols.json_blocks import AROUND_LLAMA, LLAMA, JsonBlock, llama_block
from codeagent.llm.protocols.json_calls import is_object, members
from codeagent.llm.protocols.marks import SPACE, Ahead, BlockReader, Characters, Mark, MarkPart
from codeagent.llm.protocols.protocol import AnswerParser, Body, ProtocolChoice, Schemas, TextProtocol, schemas, section
from codeagent.llm.protocols.reader import Reader

_NO_TEXT = "(no output)"
_IMAGE_FOLLOWS = "(the image follows this message's text)"
_JSON = Ahead(characters=r"[{\[]")
_OBJECT = Ahead("{")
_FENCE = "```json"
_NAME = Characters(r"[^\s<>\"'{}\[\]()=,:|]", 1, 128, name="name")
_DIGITS = Characters(r"\d")
_DELIMITED_NAME = Characters(r"[^\s{]", 1, 128, name="name")
_QUOTED_NAME = Characters(r'[^"<>\n]', 1, 1000, name="quoted")
"""Of an attribute: the entities in it are decoded."""
_BODIES: tuple[tuple[tuple[MarkPart, ...], tuple[str, ...], bool], ...] = (
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
    (("[TOOL_CALLS]", SPACE, _NAME, "[CALL_ID]", Characters(r"\w"), "[ARGS]", SPACE, _OBJECT), (), False),
    (
        ("<|tool_call_begin|>", SPACE, "functions.", _NAME, ":", _DIGITS, SPACE, "<|tool_call_argument_begin|>",
         SPACE, _OBJECT),
        ("<|tool_call_end|>",),
        False,
    ),
    (
        ("<|tool_call_begin|>", SPACE, _NAME, ":", _DIGITS, SPACE, "<|tool_call_argument_begin|>", SPACE, _OBJECT),
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
_TAGS: tuple[tuple[tuple[MarkPart, ...], Tags], ...] = (
    (("<function=", _NAME, ">"), QWEN),
    (("<tool_call>", SPACE, _NAME, SPACE, Ahead("<arg_key>")), GLM),
    (("<tool_call>", SPACE, _NAME, SPACE, Ahead("</tool_call>")), GLM),
)
_UNFINISHED: tuple[MarkPart, ...] = ("<function=", _NAME, Characters(r"\s", 1))
"""The `>` is missing."""
_AROUND_HERMES = (
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
"""Marks around Hermes-like blocks."""
_PREFIXES = ("", "antml:", "｜DSML｜", "｜DSML｜ ")
"""What models put before `invoke` and `parameter`."""
_AROUND_XML = (
    *(f"{prefix}{name}" for prefix in _PREFIXES for name in ("function_calls", "tool_calls", "calls")),
    "tool_call",
    "minimax:tool_call",
    "dots_function_call",
)
_XML_FORM = (
    '<invoke name="the tool">\n<parameter name="text argument">its text, as it is</parameter>\n'
    '<parameter name="other argument" type="json">["as", "JSON"]</parameter>\n</invoke>\n\n'
    "Nothing is escaped in a value. Only where a value itself contains such tags, write it as "
    "<![CDATA[...]]>, with ]]> inside written as ]]]]><![CDATA[>."
)
_CDATA_NEEDED = ("<![CDATA[", "<parameter", "</parameter", "<invoke", "</invoke", "<result", "</result")
_WORDS = ("true", "false", "null")


def protocol_of(choice: ProtocolChoice) -> TextProtocol | None:
    """The chosen protocol; None for native calls. Raises ValueError for `delimited` without its marks."""
    match choice.protocol:
        case "native":
            return None
        case "delimited":
            return DelimitedProtocol(choice.opening, choice.closing, choice.body)
        case name:
            return protocol_named(name)


def protocol_named(name: Literal["json", "xml", "hermes"]) -> TextProtocol:
    protocols: dict[str, Callable[[], TextProtocol]] = {
        "json": JsonProtocol,
        "xml": XmlProtocol,
        "hermes": HermesProtocol,
    }
    return protocols[name]()


class JsonProtocol:
    """Calls as JSON in a fence or bare, for models without a format of their own.

    Only JSON that has exactly the shape of a call and names a known tool is a call.
    """

    name = "json"

    def render_tools(self, tools: Sequence[ToolDefinition]) -> str:
        form = '```json\n{"name": "the tool", "arguments": {"its": "arguments"}}\n```'
        return section(form, tools, result="the next message holds the results, in the order of the calls.")

    def render_call(self, call: ToolCall) -> str:
        return f"```json\n{_call_json(call)}\n```"

    def render_results(self, results: Sequence[ToolMessage]) -> str:
        listed = ",\n".join(_results_json(results))
        return f'```json\n{{"tool_results": [\n{listed}\n]}}\n```'

    def parser(self, tools: Sequence[ToolDefinition]) -> AnswerParser:
        return Reader((Mark(LLAMA, llama_block), *AROUND_LLAMA), bare=frozenset(tool.name for tool in tools))


class DelimitedProtocol:
    """Calls between two marks of the user's choice.

    The body is JSON with name and arguments, or the name and then the arguments as JSON.
    """

    name = "delimited"

    def __init__(self, opening: str, closing: str, body: Body = "json") -> None:
        """White space around the marks does not count; neither may be empty."""
        self._opening, self._closing, self._body = opening.strip(), closing.strip(), body
        if not self._opening or not self._closing:
            raise ValueError("a mark is empty")

    def render_tools(self, tools: Sequence[ToolDefinition]) -> str:
        arguments = '{"its": "arguments"}'
        call = f'{{"name": "the tool", "arguments": {arguments}}}' if self._body == "json" else f"the_tool\n{arguments}"
        result = "the next message holds each result between the same marks, in the order of the calls."
        return section(self._wrapped(call), tools, result=result)

    def render_call(self, call: ToolCall) -> str:
        named = f"{call.name}\n{call.arguments.strip() or '{}'}"
        return self._wrapped(_call_json(call) if self._body == "json" else named)

    def render_results(self, results: Sequence[ToolMessage]) -> str:
        return "\n".join(map(self._wrapped, _results_json(results)))

    def parser(self, tools: Sequence[ToolDefinition]) -> AnswerParser:
        body = (_JSON,) if self._body == "json" else (_DELIMITED_NAME, SPACE, _OBJECT)
        return Reader((Mark((self._opening, SPACE, *body), partial(_json_block, (self._closing,), False)),))

    def _wrapped(self, body: str) -> str:
        return f"{self._opening}\n{body}\n{self._closing}"


class HermesProtocol:
    """Calls in `<tool_call>` tags, as Hermes and Qwen models write them; reads their relatives' special tokens, too.

    Values in tags of their own get the types of the tool's schema.
    """

    name = "hermes"

    def render_tools(self, tools: Sequence[ToolDefinition]) -> str:
        form = '<tool_call>\n{"name": "the tool", "arguments": {"its": "arguments"}}\n</tool_call>'
        result = "the next message holds each result in <tool_response> tags, in the order of the calls."
        return section(form, tools, result=result)

    def render_call(self, call: ToolCall) -> str:
        return f"<tool_call>\n{_call_json(call)}\n</tool_call>"

    def render_results(self, results: Sequence[ToolMessage]) -> str:
        return "\n".join(f"<tool_response>\n{result}\n</tool_response>" for result in _results_json(results))

    def parser(self, tools: Sequence[ToolDefinition]) -> AnswerParser:
        marks = [Mark(parts, partial(_json_block, closers, fenced)) for parts, closers, fenced in _BODIES]
        marks += [Mark(parts, partial(_argument_block, tags, schemas(tools))) for parts, tags in _TAGS]
        marks += [Mark(LLAMA, llama_block), Mark(_UNFINISHED, _unfinished), *AROUND_LLAMA]
        marks += [Mark((around,), None) for around in _AROUND_HERMES]
        return Reader(marks)


class XmlProtocol:
    """Calls as XML-like tags, one per argument.

    Values are taken byte for byte; types come from `type`, or else from the tool's schema.
    """

    name = "xml"

    def render_tools(self, tools: Sequence[ToolDefinition]) -> str:
        result = "the next message holds each result in <result> tags, in the order of the calls."
        return section(_XML_FORM, tools, result=result)

    def render_call(self, call: ToolCall) -> str:
        name = _attribute(call.name)
        if not call.arguments.strip():
            return f'<invoke name="{name}">\n</invoke>'
        given = members(call.arguments)
        if given is None:
            return f'<invoke name="{name}">\n{call.arguments}\n</invoke>'
        lines = "".join(_parameter(key, value) + "\n" for key, value in given.items())
        return f'<invoke name="{name}">\n{lines}</invoke>'

    def render_results(self, results: Sequence[ToolMessage]) -> str:
        return "\n".join(_result_tag(number, result) for number, result in enumerate(results, start=1))

    def parser(self, tools: Sequence[ToolDefinition]) -> AnswerParser:
        known = schemas(tools)
        formats = [attribute_tags(f"{prefix}invoke", f"{prefix}parameter") for prefix in _PREFIXES]
        marks: list[Mark] = []
        for tags in (*formats, attribute_tags("function", "param")):
            head = (tags.nested, Characters(r"\s", 0), 'name="', _QUOTED_NAME, '"', SPACE, ">")
            marks.append(Mark((*head, SPACE, _OBJECT), partial(_json_block, (tags.end,), False)))
            marks.append(Mark(head, partial(_argument_block, tags, known)))
        dots = partial(_json_block, ("</dots_function_call>",), False)
        marks.append(Mark(("<dots_function_call>", SPACE, _OBJECT), dots))
        marks += [Mark((f"<{slash}{name}>",), None) for name in _AROUND_XML for slash in ("", "/")]
        return Reader(marks)


def _json_block(closers: tuple[str, ...], fenced: bool, opened: Match[str]) -> BlockReader:
    return JsonBlock(opened[0], closers, name=_name(opened), fenced=fenced)


def _argument_block(tags: Tags, known: Schemas, opened: Match[str]) -> BlockReader:
    name = _name(opened)
    return ArgumentBlock(tags, opened[0], name, known.get(name, {}))


def _unfinished(opened: Match[str]) -> BlockReader:
    return ArgumentBlock(QWEN, opened[0], opened["name"], {}, well_formed=False)


def _name(opened: Match[str]) -> str:
    """The tool's name as the mark gives it; empty where the block says it."""
    groups = opened.groupdict()
    return unescape(groups["quoted"], ENTITIES) if "quoted" in groups else groups.get("name") or ""


def _call_json(call: ToolCall) -> str:
    """`{"name": …, "arguments": …}`; arguments that are not an object go back as the model wrote them."""
    name = json.dumps(call.name, ensure_ascii=False)
    if is_object(call.arguments) or not call.arguments.strip():
        return f'{{"name": {name}, "arguments": {call.arguments.strip() or "{}"}}}'
    return call.arguments if name in call.arguments else f'{{"name": {name}, "arguments": {call.arguments}}}'


def _results_json(results: Sequence[ToolMessage]) -> list[str]:
    """One line per result, numbered from 1; no tag can be closed from within it."""
    lines: list[str] = []
    for number, result in enumerate(results, start=1):
        about = {"call": number, "name": result.name, "content": _result_text(result.content)}
        if result.is_error:
            about["error"] = True
        lines.append(json.dumps(about, ensure_ascii=False).replace("</", "<\\/"))
    return lines


def _result_text(content: tuple[ContentPart, ...]) -> str:
    texts = [part.text if isinstance(part, TextPart) else _IMAGE_FOLLOWS for part in content]
    return "\n".join(text for text in texts if text) or _NO_TEXT


def _result_tag(number: int, result: ToolMessage) -> str:
    error = ' error="true"' if result.is_error else ""
    body = _value(_result_text(result.content))
    return f'<result call="{number}" name="{_attribute(result.name)}"{error}>{body}</result>'


def _parameter(key: str, value: str) -> str:
    """`type` is left out only where nothing but text can be meant."""
    if not value.startswith('"'):
        return f'<parameter name="{_attribute(key)}" type="json">{_value(value)}</parameter>'
    text = str(json.loads(value))
    looks_typed = as_said(text) != as_string(text) or text.strip().lower() in _WORDS
    said = ' type="string"' if looks_typed else ""
    return f'<parameter name="{_attribute(key)}"{said}>{_value(text)}</parameter>'


def _attribute(text: str) -> str:
    return escape(text, {character: entity for entity, character in ENTITIES.items()})


def _value(text: str) -> str:
    if not any(mark in text for mark in _CDATA_NEEDED):
        return text
    return f"<![CDATA[{text.replace(']]>', ']]]]><![CDATA[>')}]]>"
