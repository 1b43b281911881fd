"""Blocks whose marks name the tool, with lines or attributes for arguments and any text between:
`[/read]…[read/]`.

A block starts at the beginning of a line and ends at the end of one, so neither prose that mentions
the format nor a mark inside the text is taken for a call.
"""

import json
import re
from collections.abc import Collection, Generator, Mapping, Sequence
from functools import partial
from typing import Any
from xml.sax.saxutils import escape, unescape

from codeagent.core.coercion import as_json, as_said, as_string, kinds_of, only_in_strings
from codeagent.core.dataclass import dataclass
from codeagent.core.messages import ToolCall
from codeagent.core.tool import ToolDefinition
from codeagent.extensions.text_calls.argument_tags import ENTITIES
from codeagent.extensions.text_calls.json_blocks import UNCLOSED
from codeagent.extensions.text_calls.json_calls import members
from codeagent.extensions.text_calls.marks import (
    AnswerEnded,
    Block,
    BlockEnd,
    Characters,
    Literals,
    Lookahead,
    Mark,
    MarkPart,
    Source,
    more,
)
from codeagent.extensions.text_calls.protocol import AnswerPiece, BrokenCall, ParsedCall, Text

NAME = "{name}"
"""Stands for the tool's name in a mark."""
NO_ARGUMENT = (
    "the text in this block belongs to no argument: write each argument by its name; nothing ran"
)
_LINE = re.compile(r"@@(?P<key>[\w.-]{0,64})(?P<json>:json)?=(?P<value>.*?)(?:\r?\n|\Z)")
_ATTRIBUTE = re.compile(
    r"""\s+(?P<key>[\w.-]{0,64})(?P<json>:json)?\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)')"""
)
_ATTRIBUTE_BEGUN = re.compile(r"""\s+[\w.-]{0,64}(?::json)?\s*=\s*["']""")
_AFTER_ATTRIBUTES = re.compile(r"\s*(?P<empty>/?)>")
_NOT_IN_ATTRIBUTES = re.compile(r"[^\w.:=/\s-]")
_KEY = re.compile(r"[\w.-]{1,64}")
_MOST_BLANKS = 200
_TOOL = Characters(r"[^\s{]", 1, 128, name="name")
_WORDS = ("true", "false", "null")


@dataclass(frozen=True)
class NamedMarks:
    """The marks of one format."""

    opening: str
    """Contains `{name}`; otherwise the name follows it."""
    closing: str
    """Contains `{name}`; otherwise it is the same for every tool."""
    attributes: bool = False
    """Whether the arguments are attributes of the opening mark, `key="value"`, not lines
    `@@key=value` after it."""

    def __post_init__(self) -> None:
        """Raises ValueError if a mark could occur in JSON outside of strings, where it could not be
        escaped."""
        if not all(only_in_strings(self.of("", mark)) for mark in (self.opening, self.closing)):
            raise ValueError(
                "a mark needs a character that occurs in JSON only within strings, such as / or <"
            )

    def of(self, tool: str, mark: str) -> str:
        """Return one of the marks for a tool."""
        return mark.replace(NAME, tool)

    def all_of(self, tools: Sequence[ToolDefinition]) -> tuple[Mark, ...]:
        """Return the marks that blocks of these tools begin with; after a fixed mark any name may
        follow."""
        heads = (
            tuple(self.head(tool.name) for tool in tools) if self.names_tool else (self.opening,)
        )
        known = {tool.name: tool for tool in tools}

        def read(head: str, name: str, source: Source, opened: re.Match[str]) -> Block:
            name = name or opened["name"]
            tool = known.get(name) or ToolDefinition(name, "", {})
            return _NamedBlock(source, self, tool, opened[0], nested=head, heads=heads).read()

        if not self.names_tool:
            parts: tuple[MarkPart, ...] = (
                self.opening,
                Characters(r"\s", 1),
                _TOOL,
                Lookahead(characters=r"\s"),
            )
            return (Mark(parts, partial(read, self.opening, ""), line=True),)
        behind = (Lookahead(characters=r"[\s/>]"),) if self.attributes else ()
        named = zip(heads, tools, strict=True)
        return tuple(
            Mark((head, *behind), partial(read, head, tool.name), line=True) for head, tool in named
        )

    @property
    def names_tool(self) -> bool:
        return NAME in self.opening

    def head(self, tool: str) -> str:
        """Return what a block of the tool begins with."""
        return self.of(tool, self.opening) if self.names_tool else f"{self.opening} {tool}"

    def render(self, call: ToolCall) -> str:
        """Write a call so that it is read back as it is."""
        head = self.head(call.name)
        closing = self.of(call.name, self.closing)
        given = members(call.arguments) if call.arguments.strip() else {}
        if given is None:
            return f"{head}{'>' if self.attributes else ''}\n{call.arguments}\n{closing}"
        marks = (head, closing)
        if all(map(_KEY.fullmatch, given)):
            pairs = [self._argument(key, value, marks) for key, value in given.items()]
        else:
            whole = ", ".join(f"{as_string(key)}: {value}" for key, value in given.items())
            pairs = [(":json", _on_a_line(f"{{{whole}}}", marks))]
        if self.attributes:
            return head + "".join(f' {key}="{_attribute(value)}"' for key, value in pairs) + "/>"
        return "\n".join([head, *(f"@@{key}={value}" for key, value in pairs), closing])

    def _argument(self, key: str, value: str, marks: Sequence[str]) -> tuple[str, str]:
        """Return key and value as they are written: plain text if that fits on a line and is
        unambiguous."""
        text = json.loads(value) if value.startswith('"') else None
        if text is None or not text.isprintable() or any(mark in text for mark in marks):
            return f"{key}:json", _on_a_line(value, marks)
        typed = (
            as_said(text) != as_string(text)
            or text.strip().lower() in _WORDS
            or text.lstrip()[:1] in ("[", "{")
        )
        return (f"{key}:json", _on_a_line(value, marks)) if typed else (key, text)


BRACKET = NamedMarks("[/{name}]", "[{name}/]")
TAGS = NamedMarks("<{name}", "</{name}>", attributes=True)


class _NotATag(Exception):
    """What follows the name is not a list of attributes; the text is what was taken of it."""


class _NamedBlock:
    """Reads one block; the text between its marks is taken as it is."""

    def __init__(
        self,
        source: Source,
        marks: NamedMarks,
        tool: ToolDefinition,
        opened: str,
        nested: str,
        heads: tuple[str, ...],
    ) -> None:
        """`opened` is the opening mark as the model wrote it; `heads` are the beginnings of all
        blocks.

        A line that begins with `nested` opens another block within the text.
        """
        self._source = source
        self._marks = marks
        self._tool = tool
        self._opened = opened
        self._heads = heads
        self._nested = nested
        self._within = Literals((marks.of(tool.name, marks.closing), nested))
        self._arguments: list[tuple[str, str]] = []
        """Names, and values as JSON."""
        self._parts: list[str] = []
        self._begins_line = False
        """Whether there were only blanks since the last line break."""
        self._closed_within = False
        """Whether there was a closing mark with something after it on its line."""

    def read(self) -> Block:
        source = self._source
        try:
            if self._marks.attributes and (yield from self._read_attributes()):
                return BlockEnd((self._called(""),))
            yield from self._read_text()
            return BlockEnd((self._called("".join(self._parts)),))
        except _NotATag as error:
            return BlockEnd((Text(self._opened),), again=str(error))
        except AnswerEnded:
            rest = source.block() + source.rest
            raw = self._opened + rest
            begun = (
                not self._marks.attributes or ">" in self._opened or _ATTRIBUTE_BEGUN.match(rest)
            )
            if self._closed_within or not begun:
                return BlockEnd((Text(raw),))
            return BlockEnd((BrokenCall(self._tool.name, raw, UNCLOSED),))

    def _read_text(self) -> Generator[str, bool, None]:
        """Read up to the closing mark at the end of a line. Raises AnswerEnded."""
        source = self._source
        depth = 0
        while True:
            found, certain = self._within.find(source.data, source.at)
            self._keep(source.take(certain))
            if found is None:
                yield from more()
                continue
            mark = source.take(found.end())
            if mark == self._nested:
                depth += self._begins_line
            elif depth:
                depth -= 1
            elif (yield from self._ends_line()):
                return
            else:
                self._closed_within = True
            self._keep(mark)

    def _keep(self, text: str) -> None:
        """Add to the text between the marks."""
        self._parts.append(text)
        _, line_break, line = text.rpartition("\n")
        self._begins_line = (self._begins_line or bool(line_break)) and not line.strip()

    def _ends_line(self) -> Generator[str, bool, bool]:
        """Tell whether the line ends here or another block begins."""
        source = self._source
        while True:
            rest = source.rest
            behind = rest.lstrip(" \t\r")
            if len(rest) - len(behind) > _MOST_BLANKS:
                return False
            if behind and not any(
                head.startswith(behind) and head != behind for head in self._heads
            ):
                return behind.startswith(("\n", *self._heads))
            if not (yield ""):
                return not behind

    def _read_attributes(self) -> Generator[str, bool, bool]:
        """Read the attributes; True if the tag is empty, `<read path="a"/>`. Raises _NotATag,
        AnswerEnded."""
        source = self._source
        quote = ""
        while True:
            stops = re.compile(re.escape(quote)) if quote else _NOT_IN_ATTRIBUTES
            found = stops.search(source.data, source.at)
            if found is None:
                source.take(len(source.data))
                yield from more()
                continue
            if not quote and found[0] not in "\"'>":
                raise _NotATag(source.block())
            source.take(found.end())
            if found[0] == ">":
                break
            quote = "" if quote else found[0]
        written = source.block()
        at = 0
        while (attribute := _ATTRIBUTE.match(written, at)) is not None:
            value = attribute["double"] if attribute["double"] is not None else attribute["single"]
            self._add(attribute["key"], unescape(value, ENTITIES), in_json=bool(attribute["json"]))
            at = attribute.end()
        end = _AFTER_ATTRIBUTES.fullmatch(written, at)
        if end is None:
            raise _NotATag(written)
        self._opened += written
        return bool(end["empty"])

    def _add(self, key: str, text: str, *, in_json: bool) -> None:
        self._arguments.append(
            (key, as_said(text) if in_json else as_json(text, self._tool.parameters, key))
        )

    def _called(self, text: str) -> AnswerPiece:
        """Return the call, or a broken one if there is text that belongs to no argument."""
        name = self._tool.name
        at = 0
        text = re.sub(r"\A\r?\n", "", text)
        while not self._marks.attributes and (line := _LINE.match(text, at)) is not None:
            if not (line["key"] or line["json"]):
                break
            self._add(line["key"], line["value"], in_json=bool(line["json"]))
            at = line.end()
        content = re.sub(r"\r?\n\Z", "", text[at:])
        given = [key for key, _ in self._arguments]
        if given == [""] and not content.strip():
            return ParsedCall(name, self._arguments[0][1])
        if content.strip():
            if (key := _main_argument(self._tool.parameters, given)) is None:
                return BrokenCall(name, self._opened + text, NO_ARGUMENT)
            self._arguments.append((key, as_json(content, self._tool.parameters, key)))
        return ParsedCall(
            name,
            "{" + ", ".join(f"{as_string(key)}: {value}" for key, value in self._arguments) + "}",
        )


def _main_argument(schema: Mapping[str, Any], given: Collection[str]) -> str | None:
    """Return the argument that gets the text of a block: the only required one left, or else the
    only text left."""
    properties = schema.get("properties")
    required = schema.get("required")
    left = [name for name in required or () if name not in given]
    if len(left) == 1 or not isinstance(properties, Mapping):
        return left[0] if len(left) == 1 else None
    texts = [
        name
        for name, about in properties.items()
        if name not in given and "string" in kinds_of(about, schema)
    ]
    return texts[0] if not left and len(texts) == 1 else None


def _on_a_line(value: str, marks: Sequence[str]) -> str:
    """Return JSON on one line in which none of the marks occurs."""
    said = value.replace("\n", " ").replace("\r", " ")
    for mark in marks:
        character = only_in_strings(mark)[0]
        escaped = (
            json.dumps(character)[1:-1] if not character.isascii() else f"\\u{ord(character):04x}"
        )
        said = said.replace(mark, mark.replace(character, escaped, 1))
    return said


def _attribute(text: str) -> str:
    return escape(text, {character: entity for entity, character in ENTITIES.items()})
