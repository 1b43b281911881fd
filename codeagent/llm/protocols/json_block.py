"""A block whose body is JSON."""

import re
from typing import Literal

from codeagent.llm.protocols.json_calls import calls_in, is_object, name_in
from codeagent.llm.protocols.json_scanner import JsonScanner
from codeagent.llm.protocols.marks import SPACE, Ahead, Block, Mark, Part
from codeagent.llm.protocols.pieces import Broken, Closed, Piece, Step

UNCLOSED = "this block was never closed, so nothing ran"
NO_JSON = "this block is no JSON, so nothing ran"
NO_CALL = "this block names no tool and arguments, so nothing ran"
_SPACE = re.compile(r"\s*")


LLAMA: tuple[Part, ...] = ("<|python_tag|>", SPACE, Ahead(characters=r"[{\[]"))
"""What Llama writes before its calls; several stand with a semicolon between them."""
AROUND_LLAMA = tuple(Mark((mark,), None) for mark in ("<|eom_id|>", "<|eot_id|>"))


def llama_block(opened: re.Match[str]) -> Block:
    return JsonBlock(opened[0], (), between=";")


class JsonBlock:
    """Ends with its closing mark behind the JSON; without one to wait for, with the JSON.

    Where the JSON is broken, the first closing mark counts, also one inside of what seems a string.
    """

    def __init__(
        self, opened: str, closers: tuple[str, ...], *, name: str = "", fenced: bool = False, between: str = ""
    ) -> None:
        """`opened` is the mark as it stood there, `fenced` that a code fence closes before the mark that closes.

        With a `name` the JSON is the arguments. `between` is what may stand between two calls of one block; such
        a block ends where another call does not follow.
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

    def read(self, data: str, position: int) -> Step:
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

    def close(self, rest: str) -> Step:
        raw = "".join(self._raw) + rest
        if self._state == "behind" and self._open_ended:
            return Step(0, self._made(), ended=True, again=rest)
        if self._state != "broken" and self._first_closer(raw) is not None:
            self._cleanly = False
            return self._end_broken(raw, 0)
        name = self._name or name_in(raw)
        return Step(0, (Broken(name, self._opened + raw, UNCLOSED),), ended=True)

    def _read_json(self, data: str, position: int) -> tuple[Step | None, int]:
        end = self._scanner.feed(data, position)
        self._raw.append(data[position:end])
        self._value.append(data[position:end])
        if self._scanner.state == "more":
            return Step(end), end
        if self._scanner.state == "bad":
            left = data[end:]
            if any(closer != left and closer.startswith(left) for closer in self._closers):
                return Step(end), end
            self._cleanly = self._at_closer(data, end)
            return self._break(end)
        self._values.append("".join(self._value))
        self._state = "behind"
        if self._closers or self._open_ended:
            return None, end
        return Step(end, self._made(), ended=True), end

    def _at_closer(self, data: str, position: int) -> bool:
        """The JSON was good until the block ended: it is certain where it did."""
        return not self._scanner.in_string and any(data.startswith(closer, position) for closer in self._closers)

    def _read_behind(self, data: str, position: int) -> tuple[Step | None, int]:
        found = self._between.match(data, position)
        assert found is not None
        self._raw.append(found[0])
        position = found.end()
        left = data[position:]
        if self._open_ended and not left.startswith(("{", "[")):
            return Step(position, () if not left else self._made(), ended=bool(left)), position
        if self._fence and left.startswith(self._fence):
            self._raw.append(self._fence)
            self._fence = ""
            return None, position + 3
        for closer in self._closers:
            if data.startswith(closer, position):
                return Step(position + len(closer), self._made(), ended=True), position
        if any(mark.startswith(left) for mark in (*self._closers, self._fence)):
            return Step(position), position
        if data[position] in "{[" and not self._name:
            self._begin(JsonScanner())
            self._state = "json"
            return None, position
        return self._break(position)

    def _break(self, position: int) -> tuple[None, int]:
        self._state, self._tail = "broken", "".join(self._raw)
        return None, position

    def _read_broken(self, data: str, position: int) -> Step:
        if not self._closers:
            raw = "".join(self._raw)
            broken = Broken(self._name or name_in(raw), self._opened + raw, NO_JSON)
            return Step(position, (broken,), ended=True, doubt=True)
        new = data[position:]
        searched = self._tail + new
        self._raw.append(new)
        if self._first_closer(searched) is not None:
            return self._end_broken("".join(self._raw), len(data))
        self._tail = searched[-max(map(len, self._closers)) :]
        return Step(len(data))

    def _end_broken(self, raw: str, position: int) -> Step:
        closer = self._first_closer(raw)
        assert closer is not None
        start, mark = closer
        body = raw[:start]
        return Step(
            position, (self._unreadable(body),), ended=True, again=raw[start + len(mark) :], doubt=not self._cleanly
        )

    def _first_closer(self, raw: str) -> tuple[int, str] | None:
        found = [(at, closer) for closer in self._closers if (at := raw.find(closer)) >= 0]
        return min(found) if found else None

    def _made(self) -> tuple[Piece, ...]:
        if self._name:
            return (Closed(self._name, self._values[0]),)
        pieces: list[Piece] = []
        for value in self._values:
            calls = calls_in(value)
            pieces += [Closed(*call) for call in calls] if calls else [self._unreadable(value)]
        return tuple(pieces)

    def _unreadable(self, body: str) -> Piece:
        """What is no call in whole JSON must not be taken for arguments."""
        name = self._name or name_in(body)
        if not name or is_object(body) or not body.strip():
            return Broken(name, self._opened + body, NO_CALL)
        return Closed(name, body)
