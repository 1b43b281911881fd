"""Reads a block with one tag per argument, as XML, Qwen's and GLM's formats have it."""

import re
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import field
from functools import cached_property
from typing import Any
from xml.sax.saxutils import unescape

from codeagent.core.coercion import as_json, as_said, as_string
from codeagent.core.dataclass import dataclass
from codeagent.extensions.text_calls.json_blocks import UNCLOSED, unreadable
from codeagent.extensions.text_calls.marks import (
    AnswerEnded,
    Block,
    BlockEnd,
    Characters,
    Literals,
    Mark,
    MarkPart,
    Source,
    more,
)
from codeagent.extensions.text_calls.protocol import BrokenCall, ParsedCall
from codeagent.llm.stream import is_object

ENTITIES = {"&quot;": '"', "&#10;": "\n"}
_KEY = Characters(r"[^<>\n]", 1, 1000, name="key")
_QUOTED_KEY = Characters(r'[^"<>\n]', 1, 1000, name="key")
_REST = Characters(r"[^<>\n]", name="rest")
_ALL_ARGUMENTS = ("arguments", "input", "parameters")
_SPACE = re.compile(r"\s*")
_STATED_TYPE = re.compile(r"""\b(?:type|string)=["'](\w+)["']""")
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_SHORT_SPACE = re.compile(r"\s{0,64}")


@dataclass(frozen=True)
class Tags:
    """The marks within a block of one such format."""

    nested: str
    """The beginning of every block: a block within a value belongs to the value, up to its end."""
    end: str
    argument_head: str
    argument_rest: tuple[MarkPart, ...]
    """Completes the opening tag of an argument; its groups are `key` and maybe `rest`, which may
    give the type."""
    argument_end: str
    trims_lines: bool = False
    """A value is on lines of its own: one line break before and after it is not part of it."""
    cdata: bool = True

    @cached_property
    def argument(self) -> Mark:
        return Mark((self.argument_head, *self.argument_rest), None)

    @cached_property
    def in_value(self) -> Literals:
        """The marks that count within a value."""
        return Literals((self.argument_end, self.end, self.nested, "\n" + self.argument_head))


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


class _Malformed(Exception):
    """What is in the block is not an argument."""


class ArgumentBlock:
    """One block; values are taken as they are.

    A value ends at its closing tag if another argument or the end of the block follows. If that tag
    was forgotten, it ends at a line that begins another argument of the tool.
    """

    def __init__(
        self, source: Source, tags: Tags, opened: str, name: str, schema: Mapping[str, Any]
    ) -> None:
        """`opened` is the opening mark as the model wrote it, `schema` that of the tool's
        arguments."""
        self._source = source
        self._tags = tags
        self._opened = opened
        self._name = name
        self._schema = schema
        self._arguments: list[_Argument] = []

    def read(self, *, well_formed: bool = True) -> Block:
        """Read the block; one that is not `well_formed` up to here, or malformed, is the raw text
        of a call."""
        source = self._source
        try:
            with suppress(_Malformed):
                if well_formed:
                    return (yield from self._read_arguments())
            yield from source.take_until(self._tags.end)
            body, _, rest = source.block().partition(self._tags.end)
            return BlockEnd((unreadable(self._name, self._opened, body),), again=rest, doubt=True)
        except AnswerEnded:
            raw = source.block() + source.rest
            return BlockEnd((BrokenCall(self._name, self._opened + raw, UNCLOSED),))

    def _read_arguments(self) -> Block:
        source = self._source
        while True:
            end = _skip(source.data, source.at)
            found = self._tags.argument.match(source.data, end)
            if source.data.startswith(self._tags.end, end):
                source.skip(end + len(self._tags.end))
                return BlockEnd((self._call(),))
            if found is not None:
                groups = found.groupdict()
                stated = _STATED_TYPE.search(groups.get("rest") or "")
                argument = _Argument(unescape(groups["key"], ENTITIES), stated[1] if stated else "")
                source.take(found.end())
                yield from self._read_value(argument)
                self._arguments.append(argument)
            elif self._may_go_on(end):
                source.take(end)
                yield from more()
            else:
                source.take(end)
                raise _Malformed

    def _may_go_on(self, position: int) -> bool:
        """Tell whether the end of the block or an argument could still begin here."""
        data = self._source.data
        return self._tags.end.startswith(data[position:]) or self._tags.argument.may_begin(
            data, position
        )

    def _read_value(self, argument: _Argument) -> Generator[str, bool, None]:
        source, tags, depth = self._source, self._tags, 0
        if tags.cdata and (yield from self._begins_cdata()):
            argument.exact = True
            yield from self._read_cdata(argument)
            return
        while True:
            found, certain = tags.in_value.find(source.data, source.at)
            argument.parts.append(source.take(certain))
            if found is None:
                yield from more()
            elif found[0].startswith("\n"):
                if not depth and (yield from self._begins_another(argument)):
                    return
                argument.parts.append(source.take(source.at + len(found[0])))
            elif found[0] == tags.argument_end and not depth:
                closing = source.take(found.end())
                if (yield from self._is_closed(behind := [closing])):
                    return
                argument.parts += behind
            else:
                depth += (found[0] == tags.nested) - (found[0] == tags.end and depth > 0)
                argument.parts.append(source.take(found.end()))

    def _begins_another(self, now: _Argument) -> Generator[str, bool, bool]:
        """Tell whether the next line begins another argument, so that the closing tag of this one
        was forgotten."""
        source, argument = self._source, self._tags.argument
        while (found := argument.match(source.data, source.at + 1)) is None:
            if not argument.may_begin(source.data, source.at + 1):
                return False
            yield from more()
        known, key = self._schema.get("properties"), unescape(found["key"], ENTITIES)
        given = [each.key for each in (*self._arguments, now)]
        return isinstance(known, Mapping) and key in known and key not in given

    def _is_closed(self, behind: list[str]) -> Generator[str, bool, bool]:
        """Tell whether a closing tag counts, unless what follows is still the value; `behind` takes
        in the blanks."""
        source = self._source
        while True:
            end = _skip(source.data, source.at)
            behind.append(source.take(end))
            if (
                source.data.startswith(self._tags.end, end)
                or self._tags.argument.match(source.data, end) is not None
            ):
                return True
            if not self._may_go_on(end):
                return False
            yield from more()

    def _begins_cdata(self) -> Generator[str, bool, bool]:
        source = self._source
        while True:
            space = _SHORT_SPACE.match(source.data, source.at)
            assert space is not None
            if source.data.startswith(_CDATA, space.end()):
                source.take(space.end() + len(_CDATA))
                return True
            if not _CDATA.startswith(source.data[space.end() :]):
                return False
            yield from more()

    def _read_cdata(self, argument: _Argument) -> Generator[str, bool, None]:
        """Read CDATA, or several one after the other, and the closing tag. Raises _Malformed."""
        source, closing = self._source, self._tags.argument_end
        while True:
            found = source.data.find(_CDATA_END, source.at)
            if found < 0:
                begun = next(
                    size for size in (2, 1, 0) if source.data.endswith(_CDATA_END[:size], source.at)
                )
                argument.parts.append(source.take(len(source.data) - begun))
                yield from more()
                continue
            argument.parts.append(source.take(found))
            source.take(found + len(_CDATA_END))
            while not source.data.startswith(_CDATA, _skip(source.data, source.at)):
                source.take(_skip(source.data, source.at))
                if source.data.startswith(closing, source.at):
                    source.take(source.at + len(closing))
                    return
                if not any(mark.startswith(source.rest) for mark in (_CDATA, closing)):
                    raise _Malformed
                yield from more()
            source.take(source.data.index(_CDATA, source.at) + len(_CDATA))

    def _call(self) -> ParsedCall:
        if (whole := self._wrapped()) is not None:
            return ParsedCall(self._name, whole)
        members = (
            f"{as_string(argument.key)}: {self._json(argument)}" for argument in self._arguments
        )
        return ParsedCall(self._name, f"{{{', '.join(members)}}}")

    def _wrapped(self) -> str | None:
        """Return the arguments if they came as one object, under a name that is not one of the
        tool's."""
        known = self._schema.get("properties")
        if len(self._arguments) != 1 or not isinstance(known, Mapping) or not known:
            return None
        (only,) = self._arguments
        text = "".join(only.parts).strip()
        return (
            text
            if only.key in _ALL_ARGUMENTS and only.key not in known and is_object(text)
            else None
        )

    def _json(self, argument: _Argument) -> str:
        text = "".join(argument.parts)
        if self._tags.trims_lines and not argument.exact and text.startswith("\n"):
            text = text[1:].removesuffix("\n")
        match argument.stated:
            case "string":
                return as_string(text)
            case "json":
                return as_said(text)
            case stated:
                return as_json(text, self._schema, argument.key, typed=stated == "false")


def _skip(data: str, position: int) -> int:
    found = _SPACE.match(data, position)
    assert found is not None
    return found.end()
