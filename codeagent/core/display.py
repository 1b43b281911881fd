"""What a user sees of a tool: a few kinds of block that every front end can show, and the hunks of
diffs."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, ClassVar, Literal

from codeagent.core.dataclass import dataclass, record
from codeagent.core.json_types import WITH_MORE, JsonForm, JsonObject, OneOf
from codeagent.core.sanitize import on_one_line


@record
class TextBlock:
    type: Literal["text"] = "text"
    text: str


@record
class MarkdownBlock:
    type: Literal["markdown"] = "markdown"
    text: str


@record
class DiffBlock:
    """A change to one file: its text before and after."""

    type: Literal["diff"] = "diff"
    path: str
    before: str
    """Empty if the file is new."""
    after: str
    start_line: int = 1
    """The file's line number (from 1) at which `before` and `after` begin."""


@record
class TerminalBlock:
    """A command and what it printed."""

    type: Literal["terminal"] = "terminal"
    command: str
    output: str = ""
    exit_code: int | None = None


@record
class FilesBlock:
    type: Literal["files"] = "files"
    paths: tuple[str, ...]


@record
class Thumbnail:
    """A small copy of an image, which a screen draws without reading the image itself."""

    width: int
    """Pixels of a row."""
    pixels: str
    """Base64 of its rows from the top, compressed by zlib: three bytes (RGB) a pixel."""


@record
class ImageBlock:
    json_form: ClassVar[JsonForm] = JsonForm(omitted=("thumbnail",))

    type: Literal["image"] = "image"
    path: str
    media_type: str
    thumbnail: Thumbnail | None = None


FieldKind = Literal["text", "integer", "number", "email", "uri", "date", "date-time"]


@record
class FormField:
    """A field of a form, see `core.forms`. The bounds limit a number, the length of a text, or the
    number of texts."""

    name: str
    label: str
    kind: FieldKind = "text"
    options: tuple[str, ...] = ()
    """The texts to choose from; empty if any text may be written."""
    several: bool = False
    """It takes any number of texts, separated by commas."""
    required: bool = False
    begins: str = ""
    """The text that it begins with."""
    at_least: float | None = None
    more_than: float | None = None
    at_most: float | None = None
    less_than: float | None = None


@record
class QuestionBlock:
    """A question to the user, with answers to choose from; they can always give another one.

    With `fields` it is a form: the answer's `reason` is a JSON object with the texts that were
    filled in, by field.
    """

    json_form: ClassVar[JsonForm] = JsonForm(omitted=("fields",))

    type: Literal["question"] = "question"
    question: str
    options: tuple[str, ...] = ()
    fields: tuple[FormField, ...] = ()


@record
class UnknownBlock:
    """A block from a newer version: kept unchanged, shown by its type."""

    json_form: ClassVar[JsonForm] = WITH_MORE

    type: str
    more: JsonObject = field(default_factory=dict)
    """Its other fields as they came; in JSON they are beside its type."""


DisplayBlock = Annotated[
    TextBlock
    | MarkdownBlock
    | DiffBlock
    | TerminalBlock
    | FilesBlock
    | ImageBlock
    | QuestionBlock
    | UnknownBlock,
    OneOf("type", other=UnknownBlock),
]


def plain_text(blocks: Sequence[DisplayBlock]) -> str:
    """Return, in full and as text, what would run or change; empty if the blocks do not say."""
    from difflib import unified_diff  # not needed for the first frame, which imports this module

    lines: list[str] = []
    for block in blocks:
        match block:
            case TerminalBlock():
                lines += [
                    f"$ {line}" if not at else f"  {line}"
                    for at, line in enumerate(block.command.split("\n"))
                ]
            case TextBlock() | MarkdownBlock():
                lines += block.text.split("\n")
            case DiffBlock():
                before, after = block.before.splitlines(), block.after.splitlines()
                path = on_one_line(block.path)
                lines += unified_diff(before, after, path, path, lineterm="")
            case _:
                pass
    return "\n".join(lines)


_STEPS = 30_000_000
"""The most steps that a comparison may take if no line is unique: about a third of a second at
worst, far less for real files. The rest counts as different. Steps and not seconds, since every
machine must find the same hunks."""

Match = tuple[int, int, int]
"""First line of a run of equal lines in the old and in the new text, and its number of lines."""
HunkAnswer = bool | tuple[str, ...]
"""True: accepted. False: rejected. Lines: accepted with these in place of the hunk's new ones."""


def matching(old: Sequence[str], new: Sequence[str]) -> list[Match]:
    """Return the runs of equal lines in order: lines unique in both texts first, then what is
    between them.

    Takes close to linear time in the number of lines, even for two large texts.
    """
    from difflib import SequenceMatcher  # not needed for the first frame, which imports this module

    found: list[Match] = []
    open_ranges = [(0, len(old), 0, len(new))]
    steps = _STEPS
    while open_ranges:
        first, last, begin, end = open_ranges.pop()
        head = 0
        while first + head < last and begin + head < end and old[first + head] == new[begin + head]:
            head += 1
        found.append((first, begin, head))
        first, begin = first + head, begin + head
        tail = 0
        while (
            first < last - tail
            and begin < end - tail
            and old[last - tail - 1] == new[end - tail - 1]
        ):
            tail += 1
        last, end = last - tail, end - tail
        found.append((last, end, tail))
        if first == last or begin == end:
            continue
        anchors = [
            (first + left, begin + right)
            for left, right in _anchors(old[first:last], new[begin:end])
        ]
        for left, right in anchors:
            found.append((left, right, 1))
            open_ranges.append((first, left, begin, right))
            first, begin = left + 1, right + 1
        needed = (last - first) * (end - begin) * min(last - first, end - begin)
        if anchors:
            open_ranges.append((first, last, begin, end))
        elif needed <= steps:
            steps -= needed
            blocks = SequenceMatcher(
                None, old[first:last], new[begin:end], autojunk=False
            ).get_matching_blocks()
            found += [(first + block.a, begin + block.b, block.size) for block in blocks]
    return sorted(match for match in found if match[2])


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the longest series of lines that are unique in both and in the same order."""
    once = {line for line, count in Counter(old).items() if count == 1}
    once &= {line for line, count in Counter(new).items() if count == 1}
    if not once:
        return []
    places = {line: at for at, line in enumerate(new) if line in once}
    pairs = [(at, places[line]) for at, line in enumerate(old) if line in once]
    ends: list[int] = []
    tops: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        pile = bisect_left(ends, place)
        before.append(tops[pile - 1] if pile else -1)
        if pile == len(ends):
            ends.append(place)
            tops.append(index)
        else:
            ends[pile], tops[pile] = place, index
    series: list[tuple[int, int]] = []
    index = tops[-1]
    while index >= 0:
        series.append(pairs[index])
        index = before[index]
    return series[::-1]


@dataclass(frozen=True)
class Hunk:
    """One run of lines that change. Lines are the text between newlines: `text.split("\\n")`."""

    start: int
    """Index (from 0) of the first of `old` among the lines before; where `old` is empty, of the
    line it goes before."""
    old: tuple[str, ...]
    new: tuple[str, ...]


def cut(before: str, after: str) -> tuple[Hunk, ...]:
    """Return the runs in which the two differ, in order; none if they are equal.

    The same two texts always give the same hunks. If too many lines differ to match them in
    reasonable time, a run is longer than necessary.
    """
    old, new = before.split("\n"), after.split("\n")
    found: list[Hunk] = []
    left = right = 0
    for first, begin, size in [*_matching(old, new), (len(old), len(new), 0)]:
        if left < first or right < begin:
            found.append(Hunk(left, tuple(old[left:first]), tuple(new[right:begin])))
        left, right = first + size, begin + size
    return tuple(found)


def _matching(old: list[str], new: list[str]) -> list[Match]:
    if [""] not in (old, new):
        return matching(old, new)
    # An empty text has no line, though splitting gives one: it must not match a blank line of the
    # other.
    return [(len(old) - 1, len(new) - 1, 1)] if old[-1] == new[-1] else []


def landed(before: str, hunks: Sequence[Hunk], answers: Sequence[HunkAnswer]) -> str:
    """Return the text with the hunks applied as answered. Raises ValueError unless there is one
    answer for each."""
    lines = before.split("\n")
    out: list[str] = []
    at = 0
    for hunk, answer in zip(hunks, answers, strict=True):
        out += lines[at : hunk.start]
        at = hunk.start + len(hunk.old)
        match answer:
            case True:
                out += hunk.new
            case False:
                out += hunk.old
            case _:
                out += answer
    return "\n".join([*out, *lines[at:]])
