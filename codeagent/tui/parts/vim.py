"""vim's keys for a text: what each command of normal and visual mode does to the text and the
cursor."""

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any, Literal

import regex

from codeagent.core.dataclass import dataclass

Mode = Literal["insert", "normal", "visual", "lines"]
Do = Literal["u", "\x12", "j", "k"]
"""What the text area does itself: undo, redo, a row down, a row up."""
Covers = Literal["before", "on", "lines"]
"""What an operator takes of a motion: what is before its end, its end as well, or whole lines."""
_COUNT = r"(?P<count>[1-9]\d*+)?"
_MOTION = r"(?P<motion>[hjklwbeWBE0^$G;,]|gg|[fFtT].)"
_OBJECT = r"""(?P<object>[ia][wW"'`()b\[\]{}B])"""
_COMMAND = regex.compile(
    rf"""{_COUNT}(?: {_MOTION}
    | (?P<op>[dcy]){_COUNT}(?: {_MOTION} | {_OBJECT} | (?P<whole>(?P=op)) )
    | (?P<act>[iaIAoOvVpPJ~.u\x12xXDCYsS]|r(?P<by>.)) )""",
    regex.X | regex.S,
)
_IN_VISUAL = regex.compile(
    rf"{_COUNT}(?: {_MOTION} | {_OBJECT} | (?P<act>[dxcsypovV]) )", regex.X | regex.S
)
_MOST = 9_999
"""The largest count."""
_WITHIN = ("h", "l", "0", "^", "$", "w", "W")
"""Motions that do not fail if they lead nowhere."""
_SHORT = {"x": "dl", "X": "dh", "D": "d$", "C": "c$", "Y": "yy", "s": "cl", "S": "cc"}
_STARTS, _WIDE_STARTS = r"(?<!\w)\w|(?<![^\w\s])[^\w\s]|^$", r"(?<!\S)\S|^$"
_PLACES = {
    "w": _STARTS,
    "b": _STARTS,
    "e": r"\w(?!\w)|[^\w\s](?![^\w\s])",
    "W": _WIDE_STARTS,
    "B": _WIDE_STARTS,
    "E": r"\S(?!\S)",
}
_BODIES = {"w": r"\w+|[^\w\s]+", "W": r"\S+"}
_BY_LETTER = {"f": "{}", "F": "{}", "t": ".(?={})", "T": "(?<={})."}
_TURNED = str.maketrans("fFtT", "FfTt")
_BRACKETS = {"b": "()", "(": "()", ")": "()", "[": "[]", "]": "[]", "B": "{}", "{": "{}", "}": "{}"}


@dataclass(frozen=True)
class VimEdit:
    """A change of the text, in characters: `put` in place of start to end; then the cursor."""

    start: int
    end: int
    put: str
    cursor: int

    def applied(self, text: str) -> str:
        return text[: self.start] + self.put + text[self.end :]


class Vim:
    """The mode, the register, and what was pressed of a command so far."""

    def __init__(self) -> None:
        self.mode: Mode = "insert"
        self.anchor = 0
        """Where the selection of visual mode began."""
        self.pressed = ""
        """The keys of an incomplete command."""
        self._register = ("", False)
        """The text, and whether it is whole lines."""
        self._sought = ""
        self._repeated = ("", "")
        """The last change: its keys, and what was typed after them."""
        self._around = ("", "")
        """The text before and behind the cursor when insert mode began."""

    @property
    def idle(self) -> bool:
        """Whether normal mode waits for a new command."""
        return self.mode == "normal" and not self.pressed

    def insert(self, text: str, at: int) -> None:
        """Begin insert mode."""
        self.mode = "insert"
        self.pressed = ""
        self._around = text[:at], text[at:]

    def escape(self, text: str, at: int) -> VimEdit:
        """Return to normal mode."""
        if self.mode == "insert":
            head, tail = self._around
            same = text.startswith(head) and text.endswith(tail)
            typed = text[len(head) : len(text) - len(tail)] if same else ""
            self._repeated = (self._repeated[0], typed)
            at = max(_line(text, at)[0], at - 1)
        self.mode = "normal"
        self.pressed = ""
        return _to(at)

    def press(self, keys: str, text: str, at: int) -> Iterator[VimEdit | Do]:
        """Yield what is to be done: nothing while a command is incomplete, or if the keys are not
        one."""
        keys, normal = self.pressed + keys, self.mode == "normal"
        found = (_COMMAND if normal else _IN_VISUAL).fullmatch(keys, partial=True)
        self.pressed = keys if found is not None and found.partial else ""
        if self.pressed:
            return
        if found is None:
            return
        if found["act"] == ".":
            yield from self._again(text, at)
            return
        done = (self._command if normal else self._select)(found, text, at)
        if isinstance(done, VimEdit):
            after = done.applied(text)
            if self.mode == "insert":
                self.insert(after, done.cursor)
            if normal and (after != text or self.mode == "insert"):
                self._repeated = (keys, "")
            if self.mode == "normal":
                done = replace(done, cursor=on_letter(after, done.cursor))
        yield done

    def _again(self, text: str, at: int) -> Iterator[VimEdit | Do]:
        keys, typed = self._repeated
        for step in self.press(keys, text, at) if keys else ():
            assert isinstance(step, VimEdit)  # only changes are repeated
            text, at = step.applied(text), step.cursor
            yield step
        if self.mode == "insert":
            step = VimEdit(at, at, typed, at + len(typed))
            yield step
            yield self.escape(step.applied(text), step.cursor)

    def _command(self, found: Any, text: str, at: int) -> VimEdit | Do:
        op, motion, act = found["op"], found["motion"], found["act"]
        counts = found.captures("count")
        count = min(prod(map(int, counts)), _MOST) if counts else 0
        if act:
            return self._act(act[0], found["by"], text, at, count or 1)
        if op is None:
            asked = motion in ("j", "k") and not count
            return motion if asked else _to(self._target(motion, text, at, count)[0])
        if found["whole"]:
            return self._take(op, text, at, down(text, at, (count or 1) - 1), "lines")
        if found["object"]:
            span = _object(found["object"], text, at)
            return _to(at) if span is None else self._take(op, text, *span)
        end, covers = self._target(motion, text, at, count)
        if op == "c" and motion in "wW" and text[at : at + 1].strip():
            end, covers = self._target("e" if motion == "w" else "E", text, at - 1, count)
        elif motion in "wW" and (covered := text[at:end].rstrip(" ")).endswith("\n"):
            end = at + len(covered) - 1
        if end == at and (covers == "before" or motion in ("j", "k")):
            if op == "c" and motion in _WITHIN:
                self.mode = "insert"
            return _to(at)
        return self._take(op, text, min(at, end), max(at, end), covers)

    def _act(self, act: str, by: str, text: str, at: int, count: int) -> VimEdit | Do:
        if act in _SHORT:
            return self._command(_COMMAND.fullmatch(f"{count}{_SHORT[act]}"), text, at)
        start, end = _line(text, at)
        until = min(end, at + count)
        match act:
            case "u" | "\x12":
                return act
            case "i" | "a" | "I" | "A":
                self.mode = "insert"
                at = {"i": at, "a": min(end, at + 1), "I": _indent(text, at), "A": end}[act]
            case "o":
                self.mode = "insert"
                return VimEdit(end, end, "\n", end + 1)
            case "O":
                self.mode = "insert"
                return VimEdit(start, start, "\n", start)
            case "v" | "V":
                self.mode = "visual" if act == "v" else "lines"
                self.anchor = at
            case "p" | "P":
                return self._put(text, at, count, after=act == "p")
            case "r" if at + count <= end:
                return VimEdit(at, until, by * count, until - 1)
            case "~":
                return VimEdit(at, until, text[at:until].swapcase(), until)
            case "J" if end < len(text):
                return VimEdit(end, _indent(text, end + 1), " ", end)
            case _:
                pass
        return _to(at)

    def _put(self, text: str, at: int, count: int, *, after: bool) -> VimEdit:
        put, lines = self._register
        start, end = _line(text, at)
        if not lines:
            place = at + (after and start < end)
            return VimEdit(place, place, put * count, place + max(0, len(put) * count - 1))
        place = end if after else start
        whole = f"\n{put}" * count if after else f"{put}\n" * count
        return VimEdit(place, place, whole, place + after)

    def _take(self, op: str, text: str, start: int, end: int, covers: Covers = "before") -> VimEdit:
        """Delete, change or copy."""
        if covers == "lines":
            start, end = _line(text, start)[0], _line(text, end)[1]
        end += covers == "on"
        self._register = (text[start:end], covers == "lines")
        if op == "y":
            return _to(start)
        if op == "c":
            self.mode = "insert"
        elif covers == "lines":
            start, end = (start, end + 1) if end < len(text) else (max(0, start - 1), end)
            return VimEdit(start, end, "", _indent(text[:start] + text[end:], start))
        return VimEdit(start, end, "", start)

    def selected(self, text: str, at: int) -> tuple[int, int]:
        """Return the span that visual mode has selected."""
        start, end = sorted((self.anchor, at))
        if self.mode == "lines":
            return _line(text, start)[0], _line(text, end)[1]
        return start, min(len(text), end + 1)

    def _select(self, found: Any, text: str, at: int) -> VimEdit:
        count = int(found["count"] or 0)
        if found["motion"]:
            return _to(on_letter(text, self._target(found["motion"], text, at, count)[0]))
        if found["object"]:
            if (span := _object(found["object"], text, at)) is not None:
                self.anchor = span[0]
                at = max(span[0], span[1] - 1)
            return _to(at)
        act, covers = found["act"], self.mode
        start, end = self.selected(text, at)
        match act:
            case "o":
                anchor = self.anchor
                self.anchor = at
                return _to(anchor)
            case "v" | "V":
                wanted: Mode = "visual" if act == "v" else "lines"
                self.mode = "normal" if wanted == covers else wanted
                return _to(at)
            case _:
                self.mode = "normal"
        put = self._register[0]
        op = {"x": "d", "s": "c", "p": "c"}.get(act, act)
        step = self._take(op, text, start, end, "lines" if covers == "lines" else "before")
        if act == "p":
            self.mode = "normal"
            return replace(step, put=put, cursor=start + max(0, len(put) - 1))
        return step

    def _target(self, motion: str, text: str, at: int, count: int) -> tuple[int, Covers]:
        """Return where a motion leads; it stays if it leads nowhere. `count` is 0 if none was given."""
        start, end = _line(text, at)
        times, again = count or 1, motion in (";", ",")
        match motion:
            case "h" | "l":
                return (max(start, at - times) if motion == "h" else min(end, at + times)), "before"
            case "0" | "^":
                return (start if motion == "0" else _indent(text, at)), "before"
            case "$":
                return _line(text, down(text, at, times - 1))[1], "before"
            case "j" | "k":
                return down(text, at, times if motion == "j" else -times), "lines"
            case "gg" | "G":
                rows = count - 1 if count or motion == "gg" else text.count("\n")
                return _indent(text, down(text, 0, rows)), "lines"
            case ";" | ",":
                how = self._sought[:1]
                motion = (how if motion == ";" else how.translate(_TURNED)) + self._sought[1:]
            case _ if motion not in _PLACES:
                self._sought = motion
            case _:
                pass
        return _sought(motion, text, at, times, again=again) if motion else (at, "before")


def _sought(motion: str, text: str, at: int, times: int, *, again: bool) -> tuple[int, Covers]:
    """Return where a motion to a word, or to a letter of the line, leads; `again`: not to the letter
    beside the cursor."""
    how, words = motion[0], motion in _PLACES
    start, end = (0, len(text)) if words else _line(text, at)
    pattern = _PLACES.get(motion) or _BY_LETTER[how].format(regex.escape(motion[1:]))
    places = [each.start() for each in regex.finditer(pattern, text, regex.M, start, end)]
    back = how in "bBFT"
    stays = how in "tT" and not again
    ahead = [place for place in places if (place < at + stays if back else place > at - stays)]
    covers: Covers = "on" if how in "eEft" else "before"
    if len(ahead) >= times:
        return ahead[-times if back else times - 1], covers
    if not words:
        return at, "before"
    return (0 if back else max(at, len(text) - (covers == "on"))), covers


def _object(name: str, text: str, at: int) -> tuple[int, int] | None:
    """Return the span of a text object at the cursor; None if there is none."""
    around, what = name[0] == "a", name[1]
    start, end = _line(text, at)
    if body := _BODIES.get(what):
        ways = [rf"{body}|\s+"]
        if around:
            ahead = [rf"(?:{body})\s+", rf"(?<=\S)\s+(?:{body})"]
            ways = [rf"\s+(?:{body})", *ways] if text[at : at + 1].isspace() else [*ahead, *ways]
        found = (each for way in ways for each in regex.finditer(way, text, pos=start, endpos=end))
        return next((each.span() for each in found if each.start() <= at < each.end()), (at, at))
    if what in _BRACKETS:
        inner = _enclosing(_BRACKETS[what], text, at)
    else:
        found = regex.finditer(f"{what}[^{what}]*{what}", text, pos=start, endpos=end)
        inner = next((each.span() for each in found if each.end() > at), None)
    if inner is None or around:
        return inner
    return inner[0] + 1, inner[1] - 1


def _enclosing(pair: str, text: str, at: int) -> tuple[int, int] | None:
    """Return the span of the innermost pair of brackets around a place; None if there is none."""
    opened: list[int] = []
    for place, letter in enumerate(text):
        if letter == pair[0]:
            opened.append(place)
        elif letter == pair[1] and opened and (start := opened.pop()) <= at <= place:
            return start, place + 1
    return None


def _line(text: str, at: int) -> tuple[int, int]:
    """Return start and end of the line, without its line break."""
    end = text.find("\n", at)
    return text.rfind("\n", 0, at) + 1, len(text) if end < 0 else end


def down(text: str, at: int, rows: int) -> int:
    """Return the same column so many rows below, or above; as far as there are any."""
    lines, before = text.split("\n"), text[:at].split("\n")
    row = max(0, min(len(before) - 1 + rows, len(lines) - 1))
    return sum(len(each) + 1 for each in lines[:row]) + min(len(before[-1]), len(lines[row]))


def _indent(text: str, at: int) -> int:
    """Return the first character of the line that is not blank."""
    start, end = _line(text, at)
    return end - len(text[start:end].lstrip())


def on_letter(text: str, at: int) -> int:
    """Return the place, or the last character of the line if that is behind it."""
    start, end = _line(text, at)
    return max(start, min(at, end - 1))


def _to(at: int) -> VimEdit:
    return VimEdit(at, at, "", at)
