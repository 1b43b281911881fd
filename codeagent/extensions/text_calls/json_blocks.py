"""Reads blocks of JSON: between marks, in a code fence, and bare in the text."""

import re
from collections.abc import Collection, Generator
from functools import partial

from codeagent.extensions.text_calls.json_calls import (
    CALL_KEYS,
    Call,
    JsonScanner,
    calls_in,
    name_in,
)
from codeagent.extensions.text_calls.marks import (
    SPACE,
    AnswerEnded,
    Block,
    BlockEnd,
    FenceEnd,
    Lookahead,
    Mark,
    MarkPart,
    Source,
    more,
)
from codeagent.extensions.text_calls.protocol import AnswerPiece, BrokenCall, ParsedCall, Text
from codeagent.llm.stream import is_object

UNCLOSED = "this block was never closed, so nothing ran"
NOT_JSON = "this block is not JSON, so nothing ran"
NO_CALL = "this block does not name a tool and its arguments, so nothing ran"
LLAMA: tuple[MarkPart, ...] = ("<|python_tag|>", SPACE, Lookahead(characters=r"[{\[]"))
"""What Llama writes before its calls, which semicolons separate."""
AROUND_LLAMA = tuple(Mark((mark,), None) for mark in ("<|eom_id|>", "<|eot_id|>"))
INFOS = frozenset({"", "json", "tool_call", "tool_calls"})
"""Allowed after the backticks of a fence that is a call."""
_SPACE = re.compile(r"\s*")
_BETWEEN = re.compile(r"[ \t\r\n,;]*")
_TICKS = re.compile("`*")


def llama_block(source: Source, opened: re.Match[str]) -> Block:
    return JsonBlock(source, opened[0], "", between=";").read()


def unreadable(name: str, opened: str, body: str, why: str = NO_CALL) -> AnswerPiece:
    """Report what is not a call; complete JSON must not be taken for arguments."""
    if not name or is_object(body) or not body.strip():
        return BrokenCall(name, opened + body, why)
    return ParsedCall(name, body)


class JsonBlock:
    """JSON between marks: the block ends with the closing mark, or with the JSON if there is no
    such mark.

    If the JSON is broken, the first closing mark counts, even one inside what looks like a string.
    """

    def __init__(
        self,
        source: Source,
        opened: str,
        closer: str,
        *,
        name: str = "",
        fenced: bool = False,
        between: str = "",
    ) -> None:
        """`opened` is the mark as the model wrote it; `closer` is empty if the end of the JSON is
        enough.

        `fenced`: a code fence ends before the closing mark. With a `name` the JSON is the
        arguments. `between` are the characters allowed between two calls of one block; such a block
        ends where no other call follows.
        """
        self._source = source
        self._opened = opened
        self._closer = closer
        self._name = name
        self._fence = "```" if fenced else ""
        self._between = re.compile(rf"[\s{re.escape(between)}]*") if between else _SPACE
        self._open_ended = bool(between)

    def read(self) -> Block:
        source = self._source
        values: list[str] = []
        try:
            while True:
                scanner = JsonScanner()
                value = [source.take(scanner.feed(source.data, source.at))]
                while scanner.state != "whole":
                    if scanner.state == "bad" and not self._may_close(source.rest):
                        closes = bool(self._closer) and source.rest.startswith(self._closer)
                        return (yield from self._broken(certain=closes and not scanner.in_string))
                    yield from more()
                    value.append(source.take(scanner.feed(source.data, source.at)))
                values.append("".join(value))
                outcome = yield from self._behind(values)
                if outcome is not None:
                    return outcome
        except AnswerEnded:
            raw = source.block() + source.rest
            if self._closer and self._closer in raw:
                return self._cut(raw, certain=False)
            return BlockEnd((BrokenCall(self._name or name_in(raw), self._opened + raw, UNCLOSED),))

    def _behind(self, values: list[str]) -> Generator[str, bool, BlockEnd | None]:
        """Read what is behind a value; None if another one follows. Raises AnswerEnded."""
        source = self._source
        if not (self._closer or self._open_ended):
            return self._called(values)
        while True:
            found = self._between.match(source.data, source.at)
            assert found is not None
            source.take(found.end())
            rest = source.rest
            if self._open_ended and not rest.startswith(("{", "[")):
                if rest or not (yield ""):
                    return self._called(values)
            elif self._fence and rest.startswith(self._fence):
                source.take(source.at + len(self._fence))
                self._fence = ""
            elif self._closer and rest.startswith(self._closer):
                source.skip(source.at + len(self._closer))
                return self._called(values)
            elif self._closer.startswith(rest) or self._fence.startswith(rest):
                yield from more()
            elif rest[0] in "{[" and not self._name:
                return None
            else:
                return (yield from self._broken(certain=False))

    def _broken(self, *, certain: bool) -> Block:
        """Read up to the first closing mark; `certain`: the JSON was good until the block ended.
        Raises AnswerEnded."""
        if not self._closer:
            raw = self._source.block()
            broken = BrokenCall(self._name or name_in(raw), self._opened + raw, NOT_JSON)
            return BlockEnd((broken,), doubt=True)
        yield from self._source.take_until(self._closer)
        return self._cut(self._source.block(), certain=certain)

    def _cut(self, raw: str, *, certain: bool) -> BlockEnd:
        body, _, rest = raw.partition(self._closer)
        return BlockEnd((self._unreadable(body),), again=rest, doubt=not certain)

    def _may_close(self, rest: str) -> bool:
        """Tell whether the closing mark may be coming."""
        return rest != self._closer and self._closer.startswith(rest)

    def _called(self, values: list[str]) -> BlockEnd:
        if self._name:
            return BlockEnd((ParsedCall(self._name, values[0]),))
        pieces: list[AnswerPiece] = []
        for value in values:
            calls = calls_in(value)
            pieces += [ParsedCall(*call) for call in calls] if calls else [self._unreadable(value)]
        return BlockEnd(tuple(pieces))

    def _unreadable(self, body: str) -> AnswerPiece:
        return unreadable(self._name or name_in(body), self._opened, body)


class Candidate(JsonScanner):
    """An object or array that is coming in, and whether it can still be a call of a known tool."""

    def __init__(self, known: Collection[str], as_written: Collection[str]) -> None:
        """`as_written` are the names of the `known` tools as JSON writes them."""
        super().__init__()
        self._known = known
        self._as_written = as_written
        self._keys_seen = self._strings_seen = 0
        self.possible = True

    def feed(self, data: str, position: int) -> int:
        end = super().feed(data, position)
        self.possible = self.possible and not self.plain_items and self._fits()
        return end

    def _fits(self) -> bool:
        new_keys, new_strings = self.keys[self._keys_seen :], self.strings[self._strings_seen :]
        self._keys_seen = len(self.keys)
        self._strings_seen = len(self.strings)
        names = [value for key, value in new_strings if key == "name"]
        return CALL_KEYS.issuperset(new_keys) and all(name in self._as_written for name in names)

    def is_recognised(self) -> bool:
        """Tell whether a known tool is named and its arguments have begun."""
        named = any(key == "name" for key, _ in self.strings)
        begun = named and not {"arguments", "parameters"}.isdisjoint(self.keys)
        return self.possible and ("tool_calls" in self.keys or begun)

    def calls(self, text: str) -> list[Call]:
        """Return the calls that the text is; none if it is anything else, or not whole."""
        return (
            (calls_in(text, known=self._known) or [])
            if self.possible and self.state == "whole"
            else []
        )


def bare_json(source: Source, known: Collection[str], as_written: Collection[str]) -> Block:
    """Read JSON in the open text: it is text again as soon as it cannot be a call. The names are as
    for a Candidate."""
    candidate, why = Candidate(known, as_written), NOT_JSON
    while True:
        source.take(candidate.feed(source.data, source.at))
        if candidate.state != "more":
            break
        if not (yield "" if candidate.possible else source.block()):
            source.take(len(source.data))
            why = UNCLOSED
            break
    raw = source.block()
    if calls := candidate.calls(raw):
        return BlockEnd(tuple(ParsedCall(*call) for call in calls), tentative=raw)
    if candidate.state != "whole" and candidate.is_recognised():
        return BlockEnd((BrokenCall(name_in(raw), raw, why),), doubt=True)
    return BlockEnd((Text(raw),))


class FencedJson:
    """JSON in a code fence: calls if the fence holds nothing else, and ordinary code otherwise.

    If the fence does not say that it holds JSON, it must be alone; any other may follow words.
    """

    def __init__(
        self,
        source: Source,
        opened: str,
        size: int,
        known: Collection[str],
        as_written: Collection[str],
    ) -> None:
        """`opened` is the whole first line, with `size` backticks; the names are as for a
        Candidate."""
        self._source = source
        self._opened = opened
        self._size = size
        self._new = partial(Candidate, known, as_written)
        self._candidate = self._new()
        self._calls: list[Call] = []

    def read(self) -> Block:
        source, line_start = self._source, True
        try:
            while True:
                found = _BETWEEN.match(source.data, source.at)
                assert found is not None
                line_start = line_start or "\n" in found[0]
                source.take(found.end())
                if source.at == len(source.data):
                    yield from more()
                elif source.data[source.at] == "`" and line_start and self._calls:
                    return (yield from self._closing_run())
                elif source.data[source.at] not in "{[":
                    return self._ordinary()
                elif (ended := (yield from self._value())) is not None:
                    return ended
                else:
                    line_start = False
        except AnswerEnded:
            raw = source.block() + source.rest
            if self._calls or self._candidate.is_recognised():
                return BlockEnd((BrokenCall(name_in(raw), self._opened + raw, UNCLOSED),))
            return BlockEnd((Text(self._opened + raw),))

    def _value(self) -> Generator[str, bool, BlockEnd | None]:
        """Read one value; None if it is calls. Raises AnswerEnded."""
        source, value = self._source, list[str]()
        candidate = self._candidate = self._new()
        while True:
            value.append(source.take(candidate.feed(source.data, source.at)))
            if candidate.state == "bad" and candidate.is_recognised():
                return (yield from self._broken())
            if candidate.state != "more":
                break
            if not candidate.possible:
                return self._ordinary()
            yield from more()
        calls = candidate.calls("".join(value))
        self._calls += calls
        return None if calls else self._ordinary()

    def _closing_run(self) -> Block:
        source, run = self._source, 0
        while True:
            found = _TICKS.match(source.data, source.at)
            assert found is not None
            run += len(found[0])
            source.take(found.end())
            if source.at < len(source.data):
                closed = run >= self._size and source.data[source.at].isspace()
                return self._called() if closed else self._ordinary()
            if not (yield ""):
                if run >= self._size:
                    return self._called()
                raise AnswerEnded

    def _called(self) -> BlockEnd:
        says_json = bool(self._opened.strip("` \n"))
        whole = self._opened + self._source.block()
        return BlockEnd(
            tuple(ParsedCall(*call) for call in self._calls), tentative=whole, alone=not says_json
        )

    def _broken(self) -> Block:
        """Read up to the end of the fence: that is the raw text of a call. Raises AnswerEnded."""
        source, fence, ended = self._source, FenceEnd("`", self._size, at_line_start=False), False
        while not ended:
            end, ended = fence.read(source.data, source.at)
            source.take(end)
            if not ended and not (yield ""):
                if not fence.at_end():
                    raise AnswerEnded
                ended = True
        body = source.block().rstrip().rstrip("`").strip()
        return BlockEnd((unreadable(name_in(body), self._opened, body, NOT_JSON),), doubt=True)

    def _ordinary(self) -> BlockEnd:
        return BlockEnd((Text(self._opened),), again=self._source.block(), fence=self._size)
