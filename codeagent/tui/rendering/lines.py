"""Rows of the screen: styled text wrapped to a width in cells, as it is drawn and as it is
copied."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from unicodedata import category

from rich.cells import cell_len, split_graphemes
from rich.segment import Segment
from rich.style import Style
from textual.selection import Selection
from textual.strip import Strip

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import emoji_spans, visible

Parts = Iterable[tuple[str, Style | None]]
"""Text with its styles, in order."""
Styled = list[tuple[str, Style | None]]
"""The same as a list, to be added to."""
NARROWEST = 4
"""The narrowest row, in cells: a tab and every character fit in it."""
_TAB = 4
# Unicode blocks in which every character takes one cell: Latin, Greek, Cyrillic, punctuation,
# currency, boxes.
_ODD = lazy_regex(
    "[^\x20-\x7e\xa0-\xac\xae-\u02ff\u0370-\u0482\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2500-\u25fc]"
)
_FLAG = lazy_regex("[\U0001f1e6-\U0001f1ff]{2}")
"""Two letters that are drawn as one flag."""
_NOT_FIRST = frozenset("、。，．！？：；）」』】》〉〕…ー・％’”")
_NOT_LAST = frozenset("（「『【《〈〔‘“")


@dataclass(frozen=True)
class Line:
    """One row of the screen.

    `strip` is drawn; `text` is copied: without gutter, and without padding at the end.
    """

    strip: Strip
    text: str = ""
    start: int = 0
    """Cells of gutter before `text` in `strip`."""
    joins: str | None = None
    """None if the row begins a line in a copy; otherwise what a copy puts between the previous row
    and this one."""


def segment(text: str, style: Style | None = None) -> Segment:
    """Make text drawable, the only way to do so: control characters are shown visibly."""
    return Segment(visible(text).replace("\n", "␊").replace("\t", "    "), style)


def line(parts: Parts, *, gutter: Segment | None = None, joins: str | None = None) -> Line:
    """Make a row from (text, style) pairs, each made safe by `segment`."""
    body = [segment(text, style) for text, style in _with_whole_emoji(parts) if text]
    start = 0 if gutter is None else cell_len(gutter.text)
    segments = body if gutter is None else [gutter, *body]
    return Line(Strip(segments), "".join(part.text for part in body).rstrip(), start, joins)


@dataclass(frozen=True)
class Row:
    """One row; `joins` is what a copy puts between the previous row and this one, None at a line
    end of the text."""

    parts: Styled
    joins: str | None = None


def wrap(parts: Parts, width: int, *, words: bool = True) -> list[Row]:
    """Wrap text to rows of at most `width` cells; a newline begins a row. There is at least one
    row.

    With `words`, the spaces at a break are in `joins` only, and a word is cut only if it does not
    fit in a row of its own; without, full rows are cut. Control characters are shown visibly, tabs
    stay.
    """
    width = max(width, NARROWEST)
    safe = [(visible(text), style) for text, style in _with_whole_emoji(parts) if text]
    text = "".join(part for part, _ in safe)
    if len(text) <= width and "\n" not in text and _ODD.search(text) is None:
        return [Row(safe)]
    spans: list[tuple[int, int, str | None]] = []
    at = 0
    for line in text.split("\n"):
        spans += [
            (at + start, at + end, joins) for start, end, joins in _breaks(line, width, words)
        ]
        at += len(line) + 1
    return _cut(safe, spans)


def cells(text: str) -> int:
    """Return the cells that `text` takes when it is drawn, at most."""
    if _ODD.search(text) is None:
        return len(text)
    return sum(size for _, _, size in _measured(text))


def draw(
    row: Row,
    *,
    gutter: Sequence[Segment] = (),
    copied: str = "",
    start: int = 0,
    exact: bool = False,
) -> Line:
    """Draw a row after a gutter whose first `start` cells are not copied, and whose rest is copied
    as `copied`.

    The spaces at its end are copied only if `exact`.
    """
    text = copied + "".join(part for part, _ in row.parts)
    body = [segment(part, style) for part, style in row.parts]
    return Line(Strip([*gutter, *body]), text if exact else text.rstrip(), start, row.joins)


def paragraph(
    text: str,
    width: int,
    style: Style | None = None,
    *,
    first: str = "",
    gutter_style: Style | None = None,
) -> list[Line]:
    """Return wrapped text; `first` precedes the first row, blanks precede the others."""
    indent = cell_len(first)
    head, rest = Segment(first, gutter_style), Segment(" " * indent)
    return [
        draw(row, gutter=[rest if number else head] if first else (), start=indent)
        for number, row in enumerate(wrap([(text, style)], width - indent))
    ]


def indented(line: Line, gutter: Segment) -> Line:
    """Return the line with a gutter before it."""
    strip = Strip([gutter, *line.strip], line.strip.cell_length + gutter.cell_length)
    return Line(strip, line.text, line.start + gutter.cell_length, line.joins)


def clipped(line: Line, width: int) -> Line:
    """Return the line, cut off at `width` cells."""
    return (
        line if line.strip.cell_length <= width else replace(line, strip=line.strip.crop(0, width))
    )


def restyled(line: Line, start: int, end: int | None, style: Style) -> Line:
    """Return the line with another style over characters `start` to `end` (None: the end of the
    row) of its text."""
    strip = line.strip
    left = min(strip.cell_length, line.start + cells(line.text[:start]))
    right = (
        strip.cell_length
        if end is None
        else min(strip.cell_length, line.start + cells(line.text[:end]))
    )
    if left >= right:
        return line
    middle = Strip(Segment.apply_style(strip.crop(left, right), post_style=style), right - left)
    parts = [strip.crop(0, left), middle, strip.crop(right, strip.cell_length)]
    return replace(line, strip=Strip.join([part for part in parts if part.cell_length]))


def selected(line: Line, selection: Selection | None, row: int, style: Style) -> Line:
    """Return the line with the style over what is selected of it; `row` is its number in the
    selection."""
    span = None if selection is None else selection.get_span(row)
    if span is None:
        return line
    end = len(line.text) if span[1] == -1 else max(0, span[1])
    return restyled(line, max(0, span[0]), end, style)


def flat(text: str, most: int = 2_000) -> str:
    """Return the beginning of a text as one line without control characters."""
    return " ".join(visible(text[:most]).split())


def cut_end(text: str, width: int) -> str:
    """Cut the end to fit `width` cells, and mark it with `…`."""
    if cells(text) <= width:
        return text
    return "" if width < 1 else _beginning(text, width - 1).rstrip() + "…"


def cut_middle(text: str, width: int) -> str:
    """Cut the middle to fit `width` cells, and mark it with `…`, as names differ at both ends."""
    if cells(text) <= width:
        return text
    if width < 1:
        return ""
    head = (width - 1) // 2
    left = width - 1 - head
    cut = len(text)
    for start, _, size in reversed(_measured(text)):
        left -= size
        if left < 0:
            break
        cut = start
    return _beginning(text, head).rstrip() + "…" + text[cut:]


def _beginning(text: str, width: int) -> str:
    """Return as much of the text as fits into `width` cells."""
    used = 0
    for start, _, size in _measured(text):
        used += size
        if used > width:
            return text[:start]
    return text


def _breaks(text: str, width: int, words: bool) -> Iterable[tuple[int, int, str | None]]:
    """Return the spans of a line's rows, with what joins each to the one before."""
    if _ODD.search(text) is not None:
        return _wide_breaks(text, width, words)
    if not words:
        return [
            (at, min(at + width, len(text)), "" if at else None)
            for at in range(0, max(len(text), 1), width)
        ]
    return _narrow_breaks(text, width)


def _narrow_breaks(text: str, width: int) -> list[tuple[int, int, str | None]]:
    found: list[tuple[int, int, str | None]] = []
    joins: str | None = None
    at = 0
    while len(text) - at > width:
        space = text.rfind(" ", at, at + width + 1)
        end = at + len(text[at : max(space, at)].rstrip(" "))
        if end == at:
            found.append((at, at + width, joins))
            at, joins = at + width, ""
            continue
        found.append((at, end, joins))
        at = _behind(text, space)
        joins = text[end:at]
    if at < len(text) or not found:
        found.append((at, len(text), joins))
    return found


def _behind(text: str, space: int) -> int:
    while space < len(text) and text[space] == " ":
        space += 1
    return space


def _with_whole_emoji(parts: Parts) -> Parts:
    """Return the parts, divided so that each emoji is whole, in the part in which it begins."""
    parts = [*parts]
    if len(parts) < 2 or all(text.isascii() for text, _ in parts):
        return parts
    joined = "".join(text for text, _ in parts)
    ends = {at: end for start, end in emoji_spans(joined) for at in range(start + 1, end)}
    whole: Styled = []
    begin = at = 0
    for text, style in parts:
        at += len(text)
        end = max(begin, ends.get(at, at))
        whole.append((joined[begin:end], style))
        begin = end
    return whole


def _measured(text: str) -> list[tuple[int, int, int]]:
    """Return start, end and cells of everything that is drawn as one character."""
    spans: list[tuple[int, int, int]] = []
    for start, end, size in split_graphemes(text.replace("\t", "␉"))[0]:
        if _FLAG.fullmatch(text, spans[-1][0] if spans else start, end):
            spans[-1] = spans[-1][0], end, 2
        else:
            most = size if end - start == 1 else max(size, _apart(text[start:end]))
            spans.append((start, end, _TAB if text[start] == "\t" else most))
    return spans


def _apart(letter: str) -> int:
    """Return the cells of a letter in a terminal that gives its spacing marks cells of their own,
    as most do.

    An emoji takes two everywhere: the driver makes sure of that.
    """
    if emoji_spans(letter):
        return 0
    return sum(1 if category(part) == "Mc" else cell_len(part) for part in letter)


def _wide_breaks(text: str, width: int, words: bool) -> list[tuple[int, int, str | None]]:
    found: list[tuple[int, int, str | None]] = []
    spans = _measured(text)
    joins: str | None = None
    first = index = 0
    while first < len(spans):
        used, index = 0, first
        while index < len(spans) and used + spans[index][2] <= width:
            used += spans[index][2]
            index += 1
        end, after = (
            _break(text, spans, first, index) if words and index < len(spans) else (index, index)
        )
        stop = spans[end][0] if end < len(spans) else len(text)
        found.append((spans[first][0], stop, joins))
        joins = text[stop : spans[after][0]] if after < len(spans) else ""
        first = after
    return found or [(0, len(text), None)]


def _break(text: str, spans: list[tuple[int, int, int]], first: int, full: int) -> tuple[int, int]:
    """Return where a row that is full before `full` ends, and where the next one starts."""
    for index in range(full, first, -1):
        here = text[spans[index][0]]
        before = text[spans[index - 1][0]]
        if here == " ":
            end = index
            while end > first and text[spans[end - 1][0]] == " ":
                end -= 1
            if end == first:
                break
            after = index
            while after < len(spans) and text[spans[after][0]] == " ":
                after += 1
            return end, after
        wide = spans[index][2] == 2 or spans[index - 1][2] == 2
        if wide and before != " " and here not in _NOT_FIRST and before not in _NOT_LAST:
            return index, index
    return full, full


def _cut(parts: Styled, spans: list[tuple[int, int, str | None]]) -> list[Row]:
    rows: list[Row] = []
    number, at = 0, 0
    for start, end, joins in spans:
        row: Styled = []
        while number < len(parts):
            text, style = parts[number]
            begin, stop = max(start - at, 0), min(end - at, len(text))
            if begin < stop:
                row.append((text[begin:stop], style))
            if at + len(text) > end:
                break
            at += len(text)
            number += 1
        rows.append(Row(row, joins))
    return rows
