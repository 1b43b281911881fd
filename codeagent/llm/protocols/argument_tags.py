"""Reads a block with one tag per argument, as XML, Qwen's and GLM's formats have it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal
from xml.sax.saxutils import unescape

from codeagent.core.coercion import as_json, as_said, as_string
from codeagent.llm.protocols.json_blocks import NO_CALL, UNCLOSED
from codeagent.llm.protocols.json_calls import is_object
from codeagent.llm.protocols.marks import Characters, Mark, MarkPart
from codeagent.llm.protocols.protocol import BlockStep, BrokenCall, ParsedCall

ENTITIES = {"&quot;": '"', "&#10;": "\n"}
_KEY = Characters(r"[^<>\n]", 1, 1000, name="key")
_QUOTED_KEY = Characters(r'[^"<>\n]', 1, 1000, name="key")
_REST = Characters(r"[^<>\n]", name="rest")
_ALL_ARGUMENTS = ("arguments", "input", "parameters")
_SPACE = re.compile(r"\s*")
_STATED_TYPE = re.compile(r"""\b(?:type|string)=["'](\w+)["']""")
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_CDATA_BEGINS = re.compile(r"\s{0,64}<!\[CDATA\[")
_SHORT_SPACE = re.compile(r"\s{0,64}")
_State = Literal["between", "first", "value", "behind", "cdata", "behind cdata", "broken"]


@dataclass(frozen=True)
class Tags:
    """The marks within a block of one such format."""

    nested: str
    """The beginning of every block: a block within a value belongs to the value, up to its end."""
    end: str
    argument_head: str
    argument_rest: tuple[MarkPart, ...]
    """Completes the opening tag of an argument; its groups are `key` and maybe `rest`, which may give the type."""
    argument_end: str
    trims_lines: bool = False
    """A value stands on lines of its own: one line break before and after it is not part of it."""
    cdata: bool = True

    @cached_property
    def argument(self) -> Mark:
        return Mark((self.argument_head, *self.argument_rest), None)

    @cached_property
    def literals(self) -> tuple[str, ...]:
        """The marks that count within a value."""
        return (self.argument_end, self.end, self.nested, "\n" + self.argument_head)

    @cached_property
    def in_value(self) -> re.Pattern[str]:
        return re.compile("|".join(map(re.escape, self.literals)))


def attribute_tags(block: str, argument: str) -> Tags:
    """Return the tags `<block name="tool">` and `<argument name="key">`."""
    rest = (Characters(r"\s", 0), 'name="', _QUOTED_KEY, '"', _REST, ">")
    return Tags(f"<{block}", f"</{block}>", f"<{argument}", rest, f"</{argument}>")


QWEN = Tags(
    nested="<function=",
    end="</function>",
    argument_head="<parameter=",
    argument_rest=(_KEY, ">"),
    argument_end="</parameter>",
    trims_lines=True,
    cdata=False,
)
GLM = Tags(
    nested="<tool_call>",
    end="</tool_call>",
    argument_head="<arg_key>",
    argument_rest=(_KEY, "</arg_key>", Characters(r"\s"), "<arg_value>"),
    argument_end="</arg_value>",
    cdata=False,
)


@dataclass
class _Argument:
    key: str = ""
    stated: str = ""
    """The type, if the model gave one."""
    parts: list[str] = field(default_factory=list)
    exact: bool = False
    """The value came as CDATA: nothing is trimmed."""


class ArgumentBlock:
    """Reads one block; values are taken as they are.

    A value ends at its closing tag if another argument or the end of the block follows. If that tag
    was forgotten, it ends at a line that begins another argument of the tool.
    """

    def __init__(
        self, tags: Tags, opened: str, name: str, schema: Mapping[str, Any], *, well_formed: bool = True
    ) -> None:
        """`opened` is the opening mark as the model wrote it, `schema` that of the tool's arguments.

        A block whose opening is not `well_formed` is only searched for its end.
        """
        self._tags, self._opened, self._name, self._schema = tags, opened, name, schema
        self._raw: list[str] = []
        self._arguments: list[_Argument] = []
        self._now = _Argument()
        self._behind: list[str] = []
        self._depth = 0
        self._tail = ""
        self._state: _State = "between" if well_formed else "broken"
        self._outcome: BlockStep | None = None

    def read(self, data: str, position: int) -> BlockStep:
        while self._outcome is None:
            moved = self._advance(data, position)
            if moved is None:
                return BlockStep(position)
            self._raw.append(data[position:moved])
            position = moved
        return replace(self._outcome, position=position)

    def close(self, rest: str) -> BlockStep:
        return BlockStep(0, (BrokenCall(self._name, self._opened + "".join(self._raw) + rest, UNCLOSED),), ended=True)

    def _advance(self, data: str, position: int) -> int | None:
        """Return how far it got, None if more text is needed; the state or the position changes."""
        match self._state:
            case "between":
                return self._between(data, position)
            case "first":
                return self._first(data, position)
            case "value":
                return self._value(data, position)
            case "behind":
                return self._behind_value(data, position)
            case "cdata":
                return self._cdata(data, position)
            case "behind cdata":
                return self._behind_cdata(data, position)
            case "broken":
                return self._broken(data, position)

    def _between(self, data: str, position: int) -> int | None:
        end = _skip(data, position)
        if data.startswith(self._tags.end, end):
            self._outcome = BlockStep(0, (self._call(),), ended=True)
            return end + len(self._tags.end)
        found = self._tags.argument.match(data, end)
        if found is not None:
            groups = found.groupdict()
            stated = _STATED_TYPE.search(groups.get("rest") or "")
            self._now = _Argument(unescape(groups["key"], ENTITIES), stated[1] if stated else "")
            self._state = "first"
            return found.end()
        if self._may_go_on(data, end):
            return end if end > position else None
        self._break()
        return end

    def _may_go_on(self, data: str, position: int) -> bool:
        """Tell whether the end of the block or an argument could still begin here."""
        return self._tags.end.startswith(data[position:]) or self._tags.argument.may_begin(data, position)

    def _first(self, data: str, position: int) -> int | None:
        """Read the beginning of a value."""
        self._state = "value"
        if not self._tags.cdata:
            return position
        found = _CDATA_BEGINS.match(data, position)
        if found is not None:
            self._state, self._now.exact = "cdata", True
            return found.end()
        space = _SHORT_SPACE.match(data, position)
        assert space is not None
        if _CDATA.startswith(data[space.end() :]):
            self._state = "first"
            return None
        return position

    def _value(self, data: str, position: int) -> int | None:
        found = self._tags.in_value.search(data, position)
        if found is None:
            end = self._certain(data, position)
            self._now.parts.append(data[position:end])
            return end if end > position else None
        mark = found[0]
        if mark.startswith("\n"):
            return self._forgotten_end(data, position, found.start())
        if mark == self._tags.argument_end and not self._depth:
            self._now.parts.append(data[position : found.start()])
            self._behind, self._state = [mark], "behind"
            return found.end()
        if mark == self._tags.nested:
            self._depth += 1
        elif mark == self._tags.end and self._depth:
            self._depth -= 1
        self._now.parts.append(data[position : found.end()])
        return found.end()

    def _certain(self, data: str, position: int) -> int:
        """Return the end of the text in which no mark can have begun."""
        start = max(position, len(data) - max(map(len, self._tags.literals)))
        for at in range(start, len(data)):
            if any(literal.startswith(data[at:]) for literal in self._tags.literals):
                return at
        return len(data)

    def _forgotten_end(self, data: str, position: int, line_break: int) -> int | None:
        found = self._tags.argument.match(data, line_break + 1)
        if found is None and self._tags.argument.may_begin(data, line_break + 1):
            self._now.parts.append(data[position:line_break])
            return line_break if line_break > position else None
        if found is not None and not self._depth and self._is_another(unescape(found["key"], ENTITIES)):
            self._now.parts.append(data[position:line_break])
            self._end_value()
            return line_break
        self._now.parts.append(data[position : line_break + 1])
        self._now.parts.append(self._tags.argument_head)
        return line_break + 1 + len(self._tags.argument_head)

    def _is_another(self, key: str) -> bool:
        known = self._schema.get("properties")
        given = [argument.key for argument in self._arguments] + [self._now.key]
        return isinstance(known, Mapping) and key in known and key not in given

    def _behind_value(self, data: str, position: int) -> int | None:
        """Read on after a closing tag: it counts unless what follows is still the value."""
        end = _skip(data, position)
        if data.startswith(self._tags.end, end) or self._tags.argument.match(data, end) is not None:
            self._end_value()
            return end
        if end > position:
            self._behind.append(data[position:end])
            return end
        if self._may_go_on(data, end):
            return None
        self._now.parts += self._behind
        self._state = "value"
        return end

    def _cdata(self, data: str, position: int) -> int | None:
        found = data.find(_CDATA_END, position)
        if found >= 0:
            self._now.parts.append(data[position:found])
            self._state = "behind cdata"
            return found + len(_CDATA_END)
        end = len(data) - next(size for size in (2, 1, 0) if data.endswith(_CDATA_END[:size], position))
        self._now.parts.append(data[position:end])
        return end if end > position else None

    def _behind_cdata(self, data: str, position: int) -> int | None:
        if data.startswith(_CDATA, position):
            self._state = "cdata"
            return position + len(_CDATA)
        end = _skip(data, position)
        if data.startswith(self._tags.argument_end, end):
            self._end_value()
            return end + len(self._tags.argument_end)
        if end > position:
            return end
        if _CDATA.startswith(data[end:]) or self._tags.argument_end.startswith(data[end:]):
            return None
        self._break()
        return end

    def _end_value(self) -> None:
        self._arguments.append(self._now)
        self._state = "between"

    def _break(self) -> None:
        self._state, self._tail = "broken", "".join(self._raw)

    def _broken(self, data: str, position: int) -> int | None:
        """Read a malformed block: up to the first closing tag it is the raw text of a call."""
        if position == len(data):
            return None
        searched = self._tail + data[position:]
        self._tail = searched[-len(self._tags.end) :]
        if self._tags.end not in searched:
            return len(data)
        body, _, rest = ("".join(self._raw) + data[position:]).partition(self._tags.end)
        readable = body.strip() and not is_object(body)
        piece = ParsedCall(self._name, body) if readable else BrokenCall(self._name, self._opened + body, NO_CALL)
        self._outcome = BlockStep(0, (piece,), ended=True, again=rest, doubt=True)
        return len(data)

    def _call(self) -> ParsedCall:
        if (whole := self._wrapped()) is not None:
            return ParsedCall(self._name, whole)
        members = (f"{as_string(argument.key)}: {self._json(argument)}" for argument in self._arguments)
        return ParsedCall(self._name, f"{{{', '.join(members)}}}")

    def _wrapped(self) -> str | None:
        """Return the arguments if they came as one object, under a name that is not one of the tool's."""
        known = self._schema.get("properties")
        if len(self._arguments) != 1 or not isinstance(known, Mapping) or not known:
            return None
        (only,) = self._arguments
        text = "".join(only.parts).strip()
        return text if only.key in _ALL_ARGUMENTS and only.key not in known and is_object(text) else None

    def _json(self, argument: _Argument) -> str:
        text = "".join(argument.parts)
        if self._tags.trims_lines and not argument.exact:
            text = _unlined(text)
        match argument.stated:
            case "string":
                return as_string(text)
            case "json":
                return as_said(text)
            case stated:
                return as_json(text, self._schema, argument.key, typed=stated == "false")


def _unlined(text: str) -> str:
    """Remove the line breaks around a value on lines of its own; any other value keeps its last one."""
    return text[1:].removesuffix("\n") if text.startswith("\n") else text


def _skip(data: str, position: int) -> int:
    found = _SPACE.match(data, position)
    assert found is not None
    return found.end()
