"""Shows the places of a file that look most like a text that is not in it."""

from collections import Counter
from difflib import SequenceMatcher

_MOST_PLACES = 3
_MOST_LINES = 12
_WIDEST = 200
_MOST_COMPARED = 4000
_ALIKE = 0.6


def nearest(text: str, old: str) -> str:
    """The likeliest places with line numbers and their actual text; empty where nothing is alike."""
    lines = text.split("\n")
    wanted = old.removesuffix("\n").split("\n")
    places = _places(lines, wanted)
    if not places:
        return "; no part of it looks alike. Read the file and copy the text from there"
    out = ["; the nearest text there is:"]
    for first in places:
        last = min(first + min(len(wanted), _MOST_LINES), len(lines))
        out += [f"{number + 1}\t{lines[number][:_WIDEST]}" for number in range(first, last)]
        out.append("")
    out.append("Copy old_string exactly from the file, without the line numbers.")
    return "\n".join(out)


def _places(lines: list[str], wanted: list[str]) -> list[int]:
    """Indexes of lines at which the wanted text might begin, the best first."""
    votes = _same_lines(lines, wanted)
    if not votes:
        votes = _similar_lines(lines, wanted)
    best = votes.most_common(1)[0][1] if votes else 0
    ranked = [at for at, count in votes.most_common(_MOST_PLACES) if 2 * count >= best]
    return sorted(max(0, min(at, len(lines) - 1)) for at in ranked)


def _same_lines(lines: list[str], wanted: list[str]) -> Counter[int]:
    """Each line that is the same but for white space votes for where the text would begin."""
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
    """The longest line is compared with every line of the file, up to a bound."""
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
