"""JSON that may be a call, where nothing but its shape says so."""

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Literal

from codeagent.llm.protocols.fence_end import FenceEnd
from codeagent.llm.protocols.json_block import NO_JSON, UNCLOSED
from codeagent.llm.protocols.json_calls import CALL_KEYS, Call, calls_in, is_object, name_in
from codeagent.llm.protocols.json_scanner import JsonScanner
from codeagent.llm.protocols.pieces import Broken, Closed, Piece, Step, Text

INFOS = frozenset({"", "json", "tool_call", "tool_calls"})
"""What may stand behind the backticks of a fence that is a call."""
_BETWEEN = " \t\r\n,;"


class Candidate:
    """One object or array on its way, and whether it can still be a call of a known tool."""

    def __init__(self, known: Collection[str], as_written: Collection[str]) -> None:
        """`as_written` are the names of the `known` tools as they stand in JSON."""
        self.scanner = JsonScanner()
        self._known, self._as_written = known, as_written
        self._keys_seen = self._strings_seen = 0
        self.possible = True

    def feed(self, data: str, position: int) -> int:
        end = self.scanner.feed(data, position)
        self.possible = self.possible and not self.scanner.plain_items and self._fits()
        return end

    def _fits(self) -> bool:
        keys, strings = self.scanner.keys, self.scanner.strings
        new_keys, new_strings = keys[self._keys_seen :], strings[self._strings_seen :]
        self._keys_seen, self._strings_seen = len(keys), len(strings)
        names = [value for key, value in new_strings if key == "name"]
        return CALL_KEYS.issuperset(new_keys) and all(name in self._as_written for name in names)

    def is_recognised(self) -> bool:
        """A known tool is named and its arguments have begun."""
        keys = self.scanner.keys
        named = any(key == "name" for key, _ in self.scanner.strings)
        return self.possible and ("tool_calls" in keys or (named and not {"arguments", "parameters"}.isdisjoint(keys)))

    def calls(self, text: str) -> list[Call] | None:
        return calls_in(text, known=self._known) if self.possible else None


class BareJson:
    """In the open text: it is text again as soon as it cannot be a call."""

    def __init__(self, known: Collection[str], as_written: Collection[str]) -> None:
        """As for a Candidate."""
        self._candidate = Candidate(known, as_written)
        self._raw: list[str] = []

    def read(self, data: str, position: int) -> Step:
        end = self._candidate.feed(data, position)
        self._raw.append(data[position:end])
        match self._candidate.scanner.state:
            case "more":
                return Step(end, () if self._candidate.possible else self._text())
            case "whole":
                calls = self._candidate.calls("".join(self._raw))
                pieces = tuple(Closed(*call) for call in calls) if calls else self._text()
                return Step(end, pieces, ended=True)
            case "bad":
                return replace(self._without_end(NO_JSON), position=end)

    def close(self, rest: str) -> Step:
        self._raw.append(rest)
        return self._without_end(UNCLOSED)

    def _without_end(self, why: str) -> Step:
        if not self._candidate.is_recognised():
            return Step(0, self._text(), ended=True)
        raw = "".join(self._raw)
        return Step(0, (Broken(name_in(raw), raw, why),), ended=True, doubt=True)

    def _text(self) -> tuple[Piece, ...]:
        text = Text("".join(self._raw))
        self._raw.clear()
        return (text,)


class FencedJson:
    """In a fence of its own: calls if it holds nothing else, and ordinary code otherwise.

    Where the fence does not say what it holds, the calls are tentative.
    """

    def __init__(self, opened: str, size: int, known: Collection[str], as_written: Collection[str]) -> None:
        """`opened` is the whole first line, with `size` backticks; the names as for a Candidate."""
        self._opened, self._size = opened, size
        self._says_json = bool(opened.strip("` \n"))
        self._new = partial(Candidate, known, as_written)
        self._raw: list[str] = []
        self._calls: list[Call] = []
        self._candidate = self._new()
        self._value: list[str] = []
        self._state: Literal["between", "value", "run", "broken"] = "between"
        self._line_start = True
        self._run = 0
        self._end = FenceEnd("`", size, at_line_start=False)
        self._outcome: Step | None = None

    def read(self, data: str, position: int) -> Step:
        while self._outcome is None and position < len(data):
            moved = self._advance(data, position)
            self._raw.append(data[position:moved])
            position = moved
        if self._outcome is None:
            return Step(position)
        again = "".join(self._raw) if self._outcome.fence else ""
        return replace(self._outcome, position=position, again=again)

    def close(self, rest: str) -> Step:
        raw = "".join(self._raw) + rest
        if self._state == "run" and self._run >= self._size and self._calls:
            self._raw.append(rest)
            return self._called()
        if self._state == "broken" and self._end.at_end():
            return self._broken()
        if self._calls or self._candidate.is_recognised():
            return Step(0, (Broken(name_in(raw), self._opened + raw, UNCLOSED),), ended=True)
        return Step(0, (Text(self._opened + raw),), ended=True)

    def _advance(self, data: str, position: int) -> int:
        match self._state:
            case "between":
                return self._between(data, position)
            case "value":
                return self._read_value(data, position)
            case "run":
                return self._closing_run(data, position)
            case "broken":
                end, ended = self._end.read(data, position)
                if ended:
                    self._raw.append(data[position:end])
                    self._outcome = self._broken()
                    self._raw.clear()
                return end

    def _between(self, data: str, position: int) -> int:
        character = data[position]
        if character in _BETWEEN:
            self._line_start = self._line_start or character == "\n"
            return position + 1
        if character in "{[":
            self._candidate, self._value = self._new(), []
            self._state = "value"
        elif character == "`" and self._line_start and self._calls:
            self._state = "run"
        else:
            self._give_up()
        return position

    def _read_value(self, data: str, position: int) -> int:
        end = self._candidate.feed(data, position)
        self._value.append(data[position:end])
        match self._candidate.scanner.state:
            case "whole":
                calls = self._candidate.calls("".join(self._value))
                if calls is None:
                    self._give_up()
                    return end
                self._calls += calls
                self._state, self._line_start = "between", False
            case "bad" if self._candidate.is_recognised():
                self._state = "broken"
            case "bad":
                self._give_up()
            case "more" if not self._candidate.possible:
                self._give_up()
            case "more":
                return end
        return end

    def _closing_run(self, data: str, position: int) -> int:
        if data[position] == "`":
            self._run += 1
            return position + 1
        if self._run >= self._size and data[position].isspace():
            self._outcome = self._called()
        else:
            self._give_up()
        return position

    def _called(self) -> Step:
        tentative = "" if self._says_json else self._opened + "".join(self._raw)
        return Step(0, tuple(Closed(*call) for call in self._calls), ended=True, tentative=tentative)

    def _broken(self) -> Step:
        body = "".join(self._raw).rstrip().rstrip("`").strip()
        name = name_in(body)
        piece = Broken(name, self._opened + body, NO_JSON) if not name or is_object(body) else Closed(name, body)
        return Step(0, (piece,), ended=True, doubt=True)

    def _give_up(self) -> None:
        self._outcome = Step(0, (Text(self._opened),), ended=True, fence=self._size)
