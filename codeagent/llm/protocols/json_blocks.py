"""Reads blocks of JSON: between marks, in a code fence, and bare in the text."""

import re
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Literal

from codeagent.llm.protocols.json_calls import CALL_KEYS, Call, JsonScanner, calls_in, is_object, name_in
from codeagent.llm.protocols.marks import SPACE, Ahead, BlockReader, FenceEnd, Mark, MarkPart
from codeagent.llm.protocols.protocol import AnswerPiece, BlockStep, BrokenCall, ParsedCall, Text

UNCLOSED = "this block was never closed, so nothing ran"
NOT_JSON = "this block is not JSON, so nothing ran"
NO_CALL = "this block does not name a tool and its arguments, so nothing ran"
LLAMA: tuple[MarkPart, ...] = ("<|python_tag|>", SPACE, Ahead(characters=r"[{\[]"))
"""What Llama writes before its calls, which semicolons separate."""
AROUND_LLAMA = tuple(Mark((mark,), None) for mark in ("<|eom_id|>", "<|eot_id|>"))
INFOS = frozenset({"", "json", "tool_call", "tool_calls"})
"""Allowed after the backticks of a fence that is a call."""
_SPACE = re.compile(r"\s*")
_BETWEEN = " \t\r\n,;"


def llama_block(opened: re.Match[str]) -> BlockReader:
    return JsonBlock(opened[0], (), between=";")


class JsonBlock:
    """Reads JSON between marks: the block ends with the closing mark, or with the JSON if there is no such mark.

    If the JSON is broken, the first closing mark counts, even one inside what looks like a string.
    """

    def __init__(
        self, opened: str, closers: tuple[str, ...], *, name: str = "", fenced: bool = False, between: str = ""
    ) -> None:
        """`opened` is the mark as the model wrote it; `fenced`: a code fence ends before the closing mark.

        With a `name` the JSON is the arguments. `between` are the characters allowed between two calls of one
        block; such a block ends where no other call follows.
        """
        self._opened = opened
        self._closers = closers
        self._name = name
        self._fence = "```" if fenced else ""
        self._between = re.compile(rf"[\s{re.escape(between)}]*") if between else _SPACE
        self._open_ended = bool(between)
        self._raw: list[str] = []
        self._values: list[str] = []
        self._begin(JsonScanner())
        self._state: Literal["json", "behind", "broken"] = "json"
        self._cleanly = False
        self._tail = ""

    def _begin(self, scanner: JsonScanner) -> None:
        self._scanner = scanner
        self._value: list[str] = []

    def read(self, data: str, position: int) -> BlockStep:
        while True:
            match self._state:
                case "json":
                    step, position = self._read_json(data, position)
                case "behind":
                    step, position = self._read_behind(data, position)
                case "broken":
                    return self._read_broken(data, position)
            if step is not None:
                return step

    def close(self, rest: str) -> BlockStep:
        raw = "".join(self._raw) + rest
        if self._state == "behind" and self._open_ended:
            return BlockStep(0, self._made(), ended=True, again=rest)
        if self._state != "broken" and self._first_closer(raw) is not None:
            self._cleanly = False
            return self._end_broken(raw, 0)
        name = self._name or name_in(raw)
        return BlockStep(0, (BrokenCall(name, self._opened + raw, UNCLOSED),), ended=True)

    def _read_json(self, data: str, position: int) -> tuple[BlockStep | None, int]:
        end = self._scanner.feed(data, position)
        self._raw.append(data[position:end])
        self._value.append(data[position:end])
        if self._scanner.state == "more":
            return BlockStep(end), end
        if self._scanner.state == "bad":
            left = data[end:]
            if any(closer != left and closer.startswith(left) for closer in self._closers):
                return BlockStep(end), end
            self._cleanly = self._at_closer(data, end)
            return self._break(end)
        self._values.append("".join(self._value))
        self._state = "behind"
        if self._closers or self._open_ended:
            return None, end
        return BlockStep(end, self._made(), ended=True), end

    def _at_closer(self, data: str, position: int) -> bool:
        """Tell whether the JSON was good until the block ended: then it is certain where it ended."""
        return not self._scanner.in_string and any(data.startswith(closer, position) for closer in self._closers)

    def _read_behind(self, data: str, position: int) -> tuple[BlockStep | None, int]:
        found = self._between.match(data, position)
        assert found is not None
        self._raw.append(found[0])
        position = found.end()
        left = data[position:]
        if self._open_ended and not left.startswith(("{", "[")):
            return BlockStep(position, () if not left else self._made(), ended=bool(left)), position
        if self._fence and left.startswith(self._fence):
            self._raw.append(self._fence)
            self._fence = ""
            return None, position + 3
        for closer in self._closers:
            if data.startswith(closer, position):
                return BlockStep(position + len(closer), self._made(), ended=True), position
        if any(mark.startswith(left) for mark in (*self._closers, self._fence)):
            return BlockStep(position), position
        if data[position] in "{[" and not self._name:
            self._begin(JsonScanner())
            self._state = "json"
            return None, position
        return self._break(position)

    def _break(self, position: int) -> tuple[None, int]:
        self._state, self._tail = "broken", "".join(self._raw)
        return None, position

    def _read_broken(self, data: str, position: int) -> BlockStep:
        if not self._closers:
            raw = "".join(self._raw)
            broken = BrokenCall(self._name or name_in(raw), self._opened + raw, NOT_JSON)
            return BlockStep(position, (broken,), ended=True, doubt=True)
        new = data[position:]
        searched = self._tail + new
        self._raw.append(new)
        if self._first_closer(searched) is not None:
            return self._end_broken("".join(self._raw), len(data))
        self._tail = searched[-max(map(len, self._closers)) :]
        return BlockStep(len(data))

    def _end_broken(self, raw: str, position: int) -> BlockStep:
        closer = self._first_closer(raw)
        assert closer is not None
        start, mark = closer
        body = raw[:start]
        return BlockStep(
            position, (self._unreadable(body),), ended=True, again=raw[start + len(mark) :], doubt=not self._cleanly
        )

    def _first_closer(self, raw: str) -> tuple[int, str] | None:
        found = [(at, closer) for closer in self._closers if (at := raw.find(closer)) >= 0]
        return min(found) if found else None

    def _made(self) -> tuple[AnswerPiece, ...]:
        if self._name:
            return (ParsedCall(self._name, self._values[0]),)
        pieces: list[AnswerPiece] = []
        for value in self._values:
            calls = calls_in(value)
            pieces += [ParsedCall(*call) for call in calls] if calls else [self._unreadable(value)]
        return tuple(pieces)

    def _unreadable(self, body: str) -> AnswerPiece:
        """Report what is not a call: complete JSON must not be taken for arguments."""
        name = self._name or name_in(body)
        if not name or is_object(body) or not body.strip():
            return BrokenCall(name, self._opened + body, NO_CALL)
        return ParsedCall(name, body)


class Candidate:
    """An object or array that is coming in, and whether it can still be a call of a known tool."""

    def __init__(self, known: Collection[str], as_written: Collection[str]) -> None:
        """`as_written` are the names of the `known` tools as JSON writes them."""
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
        """Tell whether a known tool is named and its arguments have begun."""
        keys = self.scanner.keys
        named = any(key == "name" for key, _ in self.scanner.strings)
        return self.possible and ("tool_calls" in keys or (named and not {"arguments", "parameters"}.isdisjoint(keys)))

    def calls(self, text: str) -> list[Call] | None:
        return calls_in(text, known=self._known) if self.possible else None


class BareJson:
    """Reads JSON in the open text: it is text again as soon as it cannot be a call."""

    def __init__(self, known: Collection[str], as_written: Collection[str]) -> None:
        """As for a Candidate."""
        self._candidate = Candidate(known, as_written)
        self._raw: list[str] = []

    def read(self, data: str, position: int) -> BlockStep:
        end = self._candidate.feed(data, position)
        self._raw.append(data[position:end])
        match self._candidate.scanner.state:
            case "more":
                return BlockStep(end, () if self._candidate.possible else self._text())
            case "whole":
                calls = self._candidate.calls("".join(self._raw))
                pieces = tuple(ParsedCall(*call) for call in calls) if calls else self._text()
                return BlockStep(end, pieces, ended=True)
            case "bad":
                return replace(self._without_end(NOT_JSON), position=end)

    def close(self, rest: str) -> BlockStep:
        self._raw.append(rest)
        return self._without_end(UNCLOSED)

    def _without_end(self, why: str) -> BlockStep:
        if not self._candidate.is_recognised():
            return BlockStep(0, self._text(), ended=True)
        raw = "".join(self._raw)
        return BlockStep(0, (BrokenCall(name_in(raw), raw, why),), ended=True, doubt=True)

    def _text(self) -> tuple[AnswerPiece, ...]:
        text = Text("".join(self._raw))
        self._raw.clear()
        return (text,)


class FencedJson:
    """Reads JSON in a code fence: calls if the fence holds nothing else, and ordinary code otherwise.

    If the fence does not say that it holds JSON, the calls are tentative.
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
        self._outcome: BlockStep | None = None

    def read(self, data: str, position: int) -> BlockStep:
        while self._outcome is None and position < len(data):
            moved = self._advance(data, position)
            self._raw.append(data[position:moved])
            position = moved
        if self._outcome is None:
            return BlockStep(position)
        again = "".join(self._raw) if self._outcome.fence else ""
        return replace(self._outcome, position=position, again=again)

    def close(self, rest: str) -> BlockStep:
        raw = "".join(self._raw) + rest
        if self._state == "run" and self._run >= self._size and self._calls:
            self._raw.append(rest)
            return self._called()
        if self._state == "broken" and self._end.at_end():
            return self._broken()
        if self._calls or self._candidate.is_recognised():
            return BlockStep(0, (BrokenCall(name_in(raw), self._opened + raw, UNCLOSED),), ended=True)
        return BlockStep(0, (Text(self._opened + raw),), ended=True)

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

    def _called(self) -> BlockStep:
        tentative = "" if self._says_json else self._opened + "".join(self._raw)
        return BlockStep(0, tuple(ParsedCall(*call) for call in self._calls), ended=True, tentative=tentative)

    def _broken(self) -> BlockStep:
        body = "".join(self._raw).rstrip().rstrip("`").strip()
        name = name_in(body)
        piece = (
            BrokenCall(name, self._opened + body, NOT_JSON) if not name or is_object(body) else ParsedCall(name, body)
        )
        return BlockStep(0, (piece,), ended=True, doubt=True)

    def _give_up(self) -> None:
        self._outcome = BlockStep(0, (Text(self._opened),), ended=True, fence=self._size)
