"""The text protocols by name: json, xml, hermes, and delimited by marks of the user's choice.

Each writes one format and reads its whole family, since models mix them up.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import starmap
from re import Match
from xml.sax.saxutils import escape, unescape

from codeagent.core.coercion import as_said, as_string
from codeagent.core.dataclass import dataclass
from codeagent.core.messages import ToolCall, ToolMessage
from codeagent.core.sanitize import visible_json
from codeagent.core.tool import ToolDefinition
from codeagent.extensions.text_calls.argument_tags import (
    ENTITIES,
    GLM,
    QWEN,
    ArgumentBlock,
    Tags,
    attribute_tags,
)
from codeagent.extensions.text_calls.json_blocks import AROUND_LLAMA, LLAMA, JsonBlock, llama_block
from codeagent.extensions.text_calls.json_calls import members
from codeagent.extensions.text_calls.marks import (
    SPACE,
    Block,
    Characters,
    Lookahead,
    Mark,
    MarkPart,
    Source,
)
from codeagent.extensions.text_calls.named_blocks import BRACKET, TAGS, NamedMarks
from codeagent.extensions.text_calls.protocol import Body
from codeagent.extensions.text_calls.reader import Reader
from codeagent.extensions.text_calls.settings import TextToolSetting
from codeagent.llm.stream import is_object
from codeagent.llm.wire import only_text

_IMAGE_FOLLOWS = "(the image follows this message's text)"
_JSON = Lookahead(characters=r"[{\[]")
_OBJECT = Lookahead("{")
_FENCE = "```json"
_NAME = Characters(r"[^\s<>\"'{}\[\]()=,:|]", 1, 128, name="name")
_DIGITS = Characters(r"\d")
_DELIMITED_NAME = Characters(r"[^\s{]", 1, 128, name="name")
_QUOTED_NAME = Characters(r'[^"<>\n]', 1, 1000, name="quoted")
"""Of an attribute: the entities in it are decoded."""
_BODIES: tuple[tuple[tuple[MarkPart, ...], str, bool], ...] = (
    (("<tool_call>", SPACE, _JSON), "</tool_call>", False),
    (("<tool_call>", SPACE, _FENCE, SPACE, _JSON), "</tool_call>", True),
    (("<tool_calls>", SPACE, _JSON), "</tool_calls>", False),
    (("<longcat_tool_call>", SPACE, _JSON), "</longcat_tool_call>", False),
    (("<function_call>", SPACE, _OBJECT), "", False),
    (("<|tool_call|>", SPACE, Lookahead("[")), "", False),
    (("<|action_start|>", SPACE, "<|plugin|>", SPACE, _JSON), "<|action_end|>", False),
    (("[TOOL_CALLS]", SPACE, _JSON), "", False),
    (("[TOOL_CALLS]", SPACE, _NAME, SPACE, _OBJECT), "", False),
    (("[TOOL_CALLS]", SPACE, _NAME, "[ARGS]", SPACE, _OBJECT), "", False),
    (
        ("[TOOL_CALLS]", SPACE, _NAME, "[CALL_ID]", Characters(r"\w"), "[ARGS]", SPACE, _OBJECT),
        "",
        False,
    ),
    (
        (
            "<|tool_call_begin|>",
            SPACE,
            "functions.",
            _NAME,
            ":",
            _DIGITS,
            SPACE,
            "<|tool_call_argument_begin|>",
            SPACE,
            _OBJECT,
        ),
        "<|tool_call_end|>",
        False,
    ),
    (
        (
            "<|tool_call_begin|>",
            SPACE,
            _NAME,
            ":",
            _DIGITS,
            SPACE,
            "<|tool_call_argument_begin|>",
            SPACE,
            _OBJECT,
        ),
        "<|tool_call_end|>",
        False,
    ),
    (
        ("<｜tool▁call▁begin｜>", "function<｜tool▁sep｜>", _NAME, SPACE, _FENCE, SPACE, _OBJECT),
        "<｜tool▁call▁end｜>",
        True,
    ),
    (
        ("<｜tool▁call▁begin｜>", _NAME, "<｜tool▁sep｜>", SPACE, _OBJECT),
        "<｜tool▁call▁end｜>",
        False,
    ),
    (("<function=", _NAME, ">", SPACE, _OBJECT), "</function>", False),
)
"""How JSON begins and ends, and whether a code fence is around it. No end: the JSON's own end is
enough."""
_TAGS: tuple[tuple[tuple[MarkPart, ...], Tags], ...] = (
    (("<function=", _NAME, ">"), QWEN),
    (("<tool_call>", SPACE, _NAME, SPACE, Lookahead("<arg_key>")), GLM),
    (("<tool_call>", SPACE, _NAME, SPACE, Lookahead("</tool_call>")), GLM),
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
    *(
        f"{prefix}{name}"
        for prefix in _PREFIXES
        for name in ("function_calls", "tool_calls", "calls")
    ),
    "tool_call",
    "minimax:tool_call",
    "dots_function_call",
)
_ARGUMENTS = '{"its": "arguments"}'
_FORM = f'{{"name": "the tool", "arguments": {_ARGUMENTS}}}'
_XML_FORM = (
    '<invoke name="the tool">\n<parameter name="text argument">its text, as it is</parameter>\n'
    '<parameter name="other argument" type="json">["as", "JSON"]</parameter>\n</invoke>\n\n'
    "Nothing is escaped in a value. Only where a value itself contains such tags, write it as "
    "<![CDATA[...]]>, with ]]> inside written as ]]]]><![CDATA[>."
)
_CDATA_NEEDED = (
    "<![cdata[",
    "<parameter",
    "</parameter",
    "<invoke",
    "</invoke",
    "<result",
    "</result",
)
_WORDS = ("true", "false", "null")


@dataclass(frozen=True)
class TextProtocol:
    """One way to write tools, calls and results as text.

    Rendering depends on its input alone, so that a provider's cache holds from turn to turn.
    """

    name: str
    form: str
    """How a call looks."""
    result: str
    """A sentence on how results look."""
    render_call: Callable[[ToolCall], str]
    """Writes a call so that the parser reads the same name, and the same arguments if they are a
    JSON object."""
    render_results: Callable[[Sequence[ToolMessage]], str]
    """Writes one user message for the calls of one answer: each result with its number and its
    tool's name."""
    parser: Callable[[Sequence[ToolDefinition]], Reader]
    """Makes a parser for one answer."""

    def render_tools(self, tools: Sequence[ToolDefinition]) -> str:
        """Return the last section of the system prompt."""
        about = (
            {"name": one.name, "description": one.description, "parameters": one.parameters}
            for one in tools
        )
        listed = "\n".join(json.dumps(one, ensure_ascii=False) for one in about)
        return (
            "# Tools\n\n"
            "You act by calling tools. Each line below is one tool, as JSON with the JSON Schema of its arguments:\n\n"
            f"{listed}\n\n"
            f"To call a tool, write exactly this, outside of code blocks other than shown here:\n\n{self.form}\n\n"
            "You may call several tools one after the other. Close every block; one that is not closed is not run. "
            f"Then end your answer and wait: {self.result} Never write a result yourself. "
            "When no tool is needed any more, answer without a block."
        )


def _wrapped(opening: str, closing: str) -> Callable[[str], str]:
    return lambda body: f"{opening}\n{body}\n{closing}"


def _in_fence(results: Sequence[ToolMessage]) -> str:
    listed = ",\n".join(_results_json(results))
    return f'```json\n{{"tool_results": [\n{listed}\n]}}\n```'


def _json_parser(tools: Sequence[ToolDefinition]) -> Reader:
    """Make a parser to which only JSON with exactly the shape of a call and the name of a known
    tool is a call."""
    return Reader(
        (Mark(LLAMA, llama_block), *AROUND_LLAMA), bare=frozenset(tool.name for tool in tools)
    )


def _hermes_parser(tools: Sequence[ToolDefinition]) -> Reader:
    """Make a parser that also reads relatives' special tokens; values in tags get the types of the
    tool's schema."""
    marks = [Mark(parts, partial(_json_block, closer, fenced)) for parts, closer, fenced in _BODIES]
    marks += [Mark(parts, partial(_argument_block, tags, tools)) for parts, tags in _TAGS]
    marks += [Mark(LLAMA, llama_block), Mark(_UNFINISHED, _unfinished), *AROUND_LLAMA]
    marks += [Mark((around,), None) for around in _AROUND_HERMES]
    return Reader(marks)


def _xml_parser(tools: Sequence[ToolDefinition]) -> Reader:
    """Make a parser that takes values byte for byte; types come from `type`, or else from the
    tool's schema."""
    formats = [attribute_tags(f"{prefix}invoke", f"{prefix}parameter") for prefix in _PREFIXES]
    marks: list[Mark] = []
    for tags in (*formats, attribute_tags("function", "param")):
        head = (tags.nested, Characters(r"\s", 0), 'name="', _QUOTED_NAME, '"', SPACE, ">")
        marks.append(Mark((*head, SPACE, _OBJECT), partial(_json_block, tags.end, False)))
        marks.append(Mark(head, partial(_argument_block, tags, tools)))
    dots = partial(_json_block, "</dots_function_call>", False)
    marks.append(Mark(("<dots_function_call>", SPACE, _OBJECT), dots))
    marks += [Mark((f"<{slash}{name}>",), None) for name in _AROUND_XML for slash in ("", "/")]
    return Reader(marks)


def _xml_call(call: ToolCall) -> str:
    given = members(call.arguments) if call.arguments.strip() else {}
    lines = (
        "".join(_parameter(key, value) + "\n" for key, value in given.items())
        if given is not None
        else ""
    )
    body = lines if given is not None else f"{call.arguments}\n"
    return f'<invoke name="{_attribute(call.name)}">\n{body}</invoke>'


JSON = TextProtocol(
    name="json",
    form=_wrapped("```json", "```")(_FORM),
    result="the next message holds the results, in the order of the calls.",
    render_call=lambda call: _wrapped("```json", "```")(_call_json(call)),
    render_results=_in_fence,
    parser=_json_parser,
)
"""Calls as JSON in a fence or bare, for models without a format of their own."""
HERMES = TextProtocol(
    name="hermes",
    form=_wrapped("<tool_call>", "</tool_call>")(_FORM),
    result="the next message holds each result in <tool_response> tags, in the order of the calls.",
    render_call=lambda call: _wrapped("<tool_call>", "</tool_call>")(_call_json(call)),
    render_results=lambda results: "\n".join(
        map(_wrapped("<tool_response>", "</tool_response>"), _results_json(results))
    ),
    parser=_hermes_parser,
)
"""Calls in `<tool_call>` tags, as Hermes and Qwen models write them."""
XML = TextProtocol(
    name="xml",
    form=_XML_FORM,
    result="the next message holds each result in <result> tags, in the order of the calls.",
    render_call=_xml_call,
    render_results=lambda results: "\n".join(starmap(_result_tag, enumerate(results, start=1))),
    parser=_xml_parser,
)
"""Calls as XML-like tags, one per argument."""


def _named(name: str, marks: NamedMarks) -> TextProtocol:
    """Return the protocol of blocks whose marks name the tool, or are followed by its name."""
    opened_result = marks.of("result", marks.opening)
    closed_result = marks.of("result", marks.closing)
    about = '@@argument=its text, on one line\n@@other:json=["as", "JSON"]\n'
    head = marks.head("the_tool")
    closing = marks.of("the_tool", marks.closing)
    opened = f"{head}\n{about}"
    if marks.attributes:
        opened = f'{head} argument="its text" other:json="[&quot;as&quot;, &quot;JSON&quot;]">\n'
        opened_result += ">"
    form = f"{opened}text of the argument that is left, as it is\n{closing}"
    wrapped = _wrapped(opened_result, closed_result)
    return TextProtocol(
        name=name,
        form=f"{form}\n\nA block begins a line, and nothing follows it on its last one.",
        result="the next message holds each result between such marks, in the order of the calls.",
        render_call=marks.render,
        render_results=lambda results: "\n".join(
            map(wrapped, _results_json(results, opened_result, closed_result))
        ),
        parser=lambda tools: Reader(marks.all_of(tools)),
    )


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (JSON, HERMES, XML, _named("bracket", BRACKET), _named("tags", TAGS))
}


def delimited(opening: str, closing: str, body: Body = "json") -> TextProtocol:
    """Return the protocol of calls between two marks of the user's choice.

    The body is JSON with name and arguments, or the name and then the arguments as JSON, or lines
    with the arguments and a text. White space around the marks does not count. Raises ValueError if
    a mark is empty, or could be mistaken for a part of the body.
    """
    opening, closing = opening.strip(), closing.strip()
    if not opening or not closing:
        raise ValueError("a mark is empty")
    if body == "lines":
        return _named("delimited", NamedMarks(opening, closing))
    wrapped, in_json = _wrapped(opening, closing), body == "json"
    parts = (_JSON,) if in_json else (_DELIMITED_NAME, SPACE, _OBJECT)
    mark = Mark((opening, SPACE, *parts), partial(_json_block, closing, False))

    def render_call(call: ToolCall) -> str:
        return wrapped(
            _call_json(call) if in_json else f"{call.name}\n{call.arguments.strip() or '{}'}"
        )

    return TextProtocol(
        name="delimited",
        form=wrapped(_FORM if in_json else f"the_tool\n{_ARGUMENTS}"),
        result="the next message holds each result between the same marks, in the order of the calls.",
        render_call=render_call,
        render_results=lambda results: "\n".join(
            map(wrapped, _results_json(results, opening, closing))
        ),
        parser=lambda tools: Reader((mark,)),
    )


def protocol_of(choice: TextToolSetting) -> TextProtocol | None:
    """Return the chosen protocol; None for native calls. Raises ValueError for `delimited` without
    its marks."""
    if choice.protocol == "delimited":
        return delimited(choice.open, choice.close, choice.body)
    return PROTOCOLS.get(choice.protocol)


def _json_block(closer: str, fenced: bool, source: Source, opened: Match[str]) -> Block:
    return JsonBlock(source, opened[0], closer, name=_name(opened), fenced=fenced).read()


def _argument_block(
    tags: Tags, tools: Sequence[ToolDefinition], source: Source, opened: Match[str]
) -> Block:
    name = _name(opened)
    schema = next((tool.parameters for tool in tools if tool.name == name), {})
    return ArgumentBlock(source, tags, opened[0], name, schema).read()


def _unfinished(source: Source, opened: Match[str]) -> Block:
    return ArgumentBlock(source, QWEN, opened[0], opened["name"], {}).read(well_formed=False)


def _name(opened: Match[str]) -> str:
    """Return the tool's name as the mark gives it; empty if the block does."""
    groups = opened.groupdict()
    return unescape(groups["quoted"], ENTITIES) if "quoted" in groups else groups.get("name") or ""


def _call_json(call: ToolCall) -> str:
    """Return `{"name": …, "arguments": …}`; arguments that are not an object stay as the model
    wrote them."""
    name = json.dumps(call.name, ensure_ascii=False)
    if is_object(call.arguments) or not call.arguments.strip():
        return f'{{"name": {name}, "arguments": {call.arguments.strip() or "{}"}}}'
    return (
        call.arguments
        if name in call.arguments
        else f'{{"name": {name}, "arguments": {call.arguments}}}'
    )


def _results_json(results: Sequence[ToolMessage], *marks: str) -> list[str]:
    """Return one line per result, numbered from 1; no tag can be closed from within it, and none of
    the marks."""
    lines: list[str] = []
    for number, result in enumerate(results, start=1):
        name, content = (
            _string(text, marks)
            for text in (result.name, only_text(result.content, _IMAGE_FOLLOWS))
        )
        error = ', "error": true' if result.is_error else ""
        lines.append(f'{{"call": {number}, "name": {name}, "content": {content}{error}}}')
    return lines


def _string(text: str, marks: Sequence[str]) -> str:
    """Return the text as a JSON string, in which `</` and the marks do not occur."""
    said = visible_json(json.dumps(text, ensure_ascii=False)).replace("</", "<\\/")
    for mark in marks:
        if (first := next((one for one in mark if one not in '\\"'), None)) is not None:
            escaped = f"\\u{ord(first):04x}" if first.isascii() else json.dumps(first).strip('"')
            said = said.replace(mark, mark.replace(first, escaped, 1))
    return said


def _result_tag(number: int, result: ToolMessage) -> str:
    error = ' error="true"' if result.is_error else ""
    body = _value(only_text(result.content, _IMAGE_FOLLOWS))
    return f'<result call="{number}" name="{_attribute(result.name)}"{error}>{body}</result>'


def _parameter(key: str, value: str) -> str:
    """Write one argument; `type` is left out only if nothing but text can be meant."""
    if not value.startswith('"'):
        return f'<parameter name="{_attribute(key)}" type="json">{_value(value)}</parameter>'
    text = str(json.loads(value))
    looks_typed = as_said(text) != as_string(text) or text.strip().lower() in _WORDS
    said = ' type="string"' if looks_typed else ""
    return f'<parameter name="{_attribute(key)}"{said}>{_value(text)}</parameter>'


def _attribute(text: str) -> str:
    return escape(text, {character: entity for entity, character in ENTITIES.items()})


def _value(text: str) -> str:
    if not any(mark in text.casefold() for mark in _CDATA_NEEDED):
        return text
    return f"<![CDATA[{text.replace(']]>', ']]]]><![CDATA[>')}]]>"
