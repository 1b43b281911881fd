"""A block with one tag per argument, as XML and Qwen's tags have it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from xml.sax.saxutils import unescape

from codeagent.core.coercion import as_json, as_said, as_string
from codeagent.llm.protocols.json_block import NO_CALL, UNCLOSED
from codeagent.llm.protocols.json_calls import is_object
from codeagent.llm.protocols.pieces import Broken, Closed, Step
from codeagent.llm.protocols.tags import Tags

ENTITIES = {"&quot;": '"', "&#10;": "\n"}
_ALL_OF_THEM = ("arguments", "input", "parameters")
_SPACE = re.compile(r"\s*")
_SAID = re.compile(r"""\b(?:type|string)=["'](\w+)["']""")
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_CDATA_BEGINS = re.compile(r"\s{0,64}<!\[CDATA\[")
_SHORT_SPACE = re.compile(r"\s{0,64}")
_State = Literal["between", "first", "value", "behind", "cdata", "behind cdata", "broken"]


@dataclass
class _Argument:
    key: str = ""
    said: str = ""
    """The type, where the model gave it."""
    parts: list[str] = field(default_factory=list)
    exact: bool = False
    """It came as CDATA: nothing is trimmed."""


class ArgumentBlock:
    """Values are taken as they stand.

    A value ends at its closing tag where another argument or the end of the block follows; or, where
    that tag was forgotten, at a line that begins another argument of the tool.
    """

    def __init__(
        self, tags: Tags, opened: str, name: str, schema: Mapping[str, Any], *, well_formed: bool = True
    ) -> None:
        """`opened` is the opening mark as it stood there, `schema` that of the tool's arguments.

        A block that is not `well_formed` from its opening on is only looked through for its end.
        """
        self._tags, self._opened, self._name, self._schema = tags, opened, name, schema
        self._raw: list[str] = []
        self._arguments: list[_Argument] = []
        self._now = _Argument()
        self._behind: list[str] = []
        self._depth = 0
        self._tail = ""
        self._state: _State = "between" if well_formed else "broken"
        self._outcome: Step | None = None

    def read(self, data: str, position: int) -> Step:
        while self._outcome is None:
            moved = self._advance(data, position)
            if moved is None:
                return Step(position)
            self._raw.append(data[position:moved])
            position = moved
        return replace(self._outcome, position=position)

    def close(self, rest: str) -> Step:
        return Step(0, (Broken(self._name, self._opened + "".join(self._raw) + rest, UNCLOSED),), ended=True)

    def _advance(self, data: str, position: int) -> int | None:
        """How far it got; None where more text is needed. The state changes or the position does."""
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
            self._outcome = Step(0, (self._call(),), ended=True)
            return end + len(self._tags.end)
        found = self._tags.argument.match(data, end)
        if found is not None:
            groups = found.groupdict()
            said = _SAID.search(groups.get("rest") or "")
            self._now = _Argument(unescape(groups["key"], ENTITIES), said[1] if said else "")
            self._state = "first"
            return found.end()
        if self._may_go_on(data, end):
            return end if end > position else None
        self._break()
        return end

    def _may_go_on(self, data: str, position: int) -> bool:
        """The end of the block or an argument could still begin here."""
        return self._tags.end.startswith(data[position:]) or self._tags.argument.may_begin(data, position)

    def _first(self, data: str, position: int) -> int | None:
        """Where a value begins."""
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
        """Up to where no mark can begin any more."""
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
        """The closing tag counts where what follows it is no value."""
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
        """Not the form: up to the first closing tag it is the raw text of a call."""
        if position == len(data):
            return None
        searched = self._tail + data[position:]
        self._tail = searched[-len(self._tags.end) :]
        if self._tags.end not in searched:
            return len(data)
        body, _, rest = ("".join(self._raw) + data[position:]).partition(self._tags.end)
        readable = body.strip() and not is_object(body)
        piece = Closed(self._name, body) if readable else Broken(self._name, self._opened + body, NO_CALL)
        self._outcome = Step(0, (piece,), ended=True, again=rest, doubt=True)
        return len(data)

    def _call(self) -> Closed:
        if (whole := self._wrapped()) is not None:
            return Closed(self._name, whole)
        members = (f"{as_string(argument.key)}: {self._json(argument)}" for argument in self._arguments)
        return Closed(self._name, f"{{{', '.join(members)}}}")

    def _wrapped(self) -> str | None:
        """The arguments where all of them came as one object, under a name that the tool does not have."""
        known = self._schema.get("properties")
        if len(self._arguments) != 1 or not isinstance(known, Mapping) or not known:
            return None
        (only,) = self._arguments
        text = "".join(only.parts).strip()
        return text if only.key in _ALL_OF_THEM and only.key not in known and is_object(text) else None

    def _json(self, argument: _Argument) -> str:
        text = "".join(argument.parts)
        if self._tags.trims_lines and not argument.exact:
            text = _unlined(text)
        match argument.said:
            case "string":
                return as_string(text)
            case "json":
                return as_said(text)
            case said:
                return as_json(text, self._schema, argument.key, typed=said == "false")


def _unlined(text: str) -> str:
    """Without the line breaks of a value that stands on lines of its own; one that does not keeps its last."""
    return text[1:].removesuffix("\n") if text.startswith("\n") else text


def _skip(data: str, position: int) -> int:
    found = _SPACE.match(data, position)
    assert found is not None
    return found.end()
