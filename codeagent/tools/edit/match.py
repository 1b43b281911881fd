"""Finds the one place that an edit means, exactly or up to unambiguous slips, or else the nearest
places."""

import re
from bisect import bisect_left
from collections import Counter
from difflib import SequenceMatcher

from codeagent.changes.diff import same_ends
from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import first_few
from codeagent.core.text_files import Splice
from codeagent.tools.edit.drift import MOST_PLACES, DriftedMatch, drifted, within_blanks
from codeagent.tools.edit.merge import AmbiguousEdit
from codeagent.tools.edit.reads import line_of

_MOST_SHOWN = 20
_NEAREST = 3
_MOST_LINES = 12
_WIDEST = 200
_MOST_COMPARED = 4000
_ALIKE = 0.6
_NEWLINE = re.compile(r"\r?\n")


class NoMatch(Exception):
    """The text is missing, or occurs more than once; the message says where to look."""


@dataclass(frozen=True)
class Matches:
    """The places and their replacements; `drift` says how the text differed from the request."""

    spans: list[Splice]
    drift: str | None


def find(text: str, old: str, new: str, *, replace_all: bool) -> Matches:
    """Return the spans of `text` that `old` means, and their replacements.

    Exact matches come first, with any newline style. Slips are considered only if there is none;
    the result must be exactly one place, or several where all are to be replaced. Newlines of the
    replacement follow the place. Raises NoMatch.
    """
    if "\r\n" in old and not replace_all:
        exact = _exact(text, old, apart=False)
        places = [
            place
            for place in exact
            if not any(text[max(at - 1, 0) : at + 1] == "\r\n" for at in place)
        ]
        if len(places) == 1:
            start, end = places[0]
            return Matches([Splice(start, end, newlines_as_there(text, start, end, new))], None)
    plain = text.replace("\r\n", "\n")
    plain_old, plain_new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    exact = _exact(plain, plain_old, apart=replace_all)
    try:
        if exact:
            found = [DriftedMatch(start, end, plain_new, frozenset()) for start, end in exact]
            if len(exact) == 1:
                found = [within_blanks(plain, *exact[0], plain_old, plain_new) or found[0]]
        else:
            found = drifted(plain, plain_old, plain_new, replace_all=replace_all)
    except AmbiguousEdit as doubt:
        said = f"old_string matches only approximately, and new_string does not say what is meant: {doubt}"
        raise NoMatch(said + nearest(plain, plain_old)) from None
    if not found:
        raise NoMatch("old_string is not in the file" + nearest(plain, plain_old))
    return _chosen(text, plain, found, replace_all)


def _chosen(text: str, plain: str, found: list[DriftedMatch], replace_all: bool) -> Matches:
    """Return the matches in `text`; `found` are places in `plain`, which has LF for every CRLF."""
    drift = " and ".join(sorted(set().union(*(place.slips for place in found)))) or None
    if len(found) > 1 and not replace_all:
        lines = first_few([str(line_of(plain, place.start)) for place in found], _MOST_SHOWN)
        how = f" (up to {drift})" if drift else ""
        least = "at least " if drift and len(found) >= MOST_PLACES else ""
        raise NoMatch(
            f"old_string is in the file {least}{len(found)} times{how}, on lines {lines}: "
            "add surrounding lines until it occurs once, or set replace_all"
        )
    spans = []
    returns = [pair.start() - before for before, pair in enumerate(re.finditer("\r\n", text))]
    for place in found:
        start, end = (offset + bisect_left(returns, offset) for offset in (place.start, place.end))
        spans.append(Splice(start, end, newlines_as_there(text, start, end, place.replacement)))
    return Matches(spans, drift)


def _exact(text: str, old: str, *, apart: bool) -> list[tuple[int, int]]:
    """Return where `old` begins and ends; if `apart`, without places that overlap the one
    before."""
    places = []
    at = text.find(old)
    while at >= 0:
        places.append((at, at + len(old)))
        at = text.find(old, at + (len(old) if apart else 1))
    return places


def newlines_as_there(text: str, start: int, end: int, new: str) -> str:
    """Return `new` with the newlines of the lines that it replaces; unchanged first and last lines
    keep theirs."""
    lines = new.replace("\r\n", "\n").split("\n")
    if len(lines) == 1:
        return new
    ends = _line_ends(text[start:end])
    if not ends:
        near = text.find("\n", end)
        near = near if near >= 0 else text.rfind("\n", 0, start)
        ends = [] if near < 0 else _line_ends(text[max(near - 1, 0) : near + 1])
    if not ends:
        return new
    if len(set(ends)) == 1:
        return ends[0].join(lines)
    old_lines = text[start:end].replace("\r\n", "\n").split("\n")
    return _mixed(lines, old_lines, ends)


def _mixed(lines: list[str], old_lines: list[str], ends: list[str]) -> str:
    """Join old lines with their own newlines, and new ones with that of a neighbour."""
    _, tail = same_ends(old_lines, lines)
    out = []
    for number, line in enumerate(lines[:-1]):
        is_kept_at_end = number >= len(lines) - tail
        at = number + len(old_lines) - len(lines) if is_kept_at_end else min(number, len(ends) - 1)
        out.append(line + ends[at])
    return "".join(out) + lines[-1]


def _line_ends(text: str) -> list[str]:
    return [match[0] for match in _NEWLINE.finditer(text)]


def nearest(text: str, old: str, what: str = "old_string") -> str:
    """Describe the most likely places, with line numbers and actual text, and the next step; `what`
    was given."""
    lines = text.split("\n")
    wanted = old.removesuffix("\n").split("\n")
    places = _places(lines, wanted)
    if not places:
        return "; nothing in the file looks like it. Read the file and copy the text from there"
    out = ["; the nearest text there is:"]
    for first in places:
        last = min(first + min(len(wanted), _MOST_LINES), len(lines))
        out += [f"{number + 1}\t{lines[number][:_WIDEST]}" for number in range(first, last)]
        out.append("")
    out.append(f"Copy {what} exactly from the file, without the line numbers.")
    return "\n".join(out)


def _places(lines: list[str], wanted: list[str]) -> list[int]:
    """Return the indexes of lines at which the wanted text might begin, the best first."""
    votes = _same_lines(lines, wanted)
    if not votes:
        votes = _similar_lines(lines, wanted)
    best = votes.most_common(1)[0][1] if votes else 0
    ranked = [at for at, count in votes.most_common(_NEAREST) if 2 * count >= best]
    return sorted(max(0, min(at, len(lines) - 1)) for at in ranked)


def _same_lines(lines: list[str], wanted: list[str]) -> Counter[int]:
    """Let each line that is equal apart from white space vote for where the text would begin."""
    offsets: dict[str, list[int]] = {}
    for offset, line in enumerate(wanted):
        if len(line.strip()) > 1:
            offsets.setdefault(" ".join(line.split()), []).append(offset)
    votes: Counter[int] = Counter()
    for at, line in enumerate(lines):
        for offset in offsets.get(" ".join(line.split()), ()):
            votes[at - offset] += 10
    return votes


def _similar_lines(lines: list[str], wanted: list[str]) -> Counter[int]:
    """Compare the longest line with every line of the file, up to a limit."""
    offset, longest = max(enumerate(wanted), key=lambda pair: len(pair[1].strip()))
    needle = longest.strip()[:_WIDEST]
    votes: Counter[int] = Counter()
    if len(needle) < 3:
        return votes
    matcher = SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(needle)
    for at, line in enumerate(lines[:_MOST_COMPARED]):
        stripped = line.strip()[:_WIDEST]
        matcher.set_seq1(stripped)
        if needle in stripped:
            votes[at - offset] = 100
        elif matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE:
            ratio = matcher.ratio()
            if ratio >= _ALIKE:
                votes[at - offset] = round(100 * ratio)
    return votes
