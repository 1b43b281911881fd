"""Random files, edits of them, and the slips with which a model writes an edit down."""

import html
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

Lines = list[str]
_WORDS = ["alpha", "beta", "gamma", "total", "x", "i", "return", "None", "0", "1"]
_FORMS = [
    "{0} = {1}",
    "if {0} < {1}:",
    "call({0}, '{1}')",
    'say("{0} {1}")',
    "{0}  # {1} - it's",
    "return {0} and {1} > 2",
    "}}",
    "else:",
    "{0}[{1}] = '\\n'",
    's = "{0} & {1}"',
    "text = '{0}—{1}’s “{0}”'",
    "{0}   =  {1}",
    "for {0} in {1}:",
]
_CURLY = {"'": "\u2019", '"': "\u201d", "-": "\u2014"}


@dataclass(frozen=True)
class Case:
    """An edit as it was written down, and what it means."""

    file: str
    wanted: str
    old: str
    new: str


def case(rng: Random, slip: str) -> Case | None:
    """A random edit with the slip; None where this one cannot have it."""
    unit = rng.choice(["    ", "    ", "  ", "\t"])
    before = _file(rng, unit)
    low = rng.randrange(len(before))
    high = min(len(before), low + rng.randint(1, 5))
    old = before[low:high]
    new = _edited(rng, old, unit)
    if new == old or not "".join(old).strip() or "\n".join(before).count("\n".join(old)) != 1:
        return None
    written = SLIPS[slip](rng, old, new, low)
    if written is None:
        return None
    file_old, file_new, shown_old, shown_new = written
    if shown_old == shown_new:
        return None
    head, tail = before[:low], before[high:]
    if slip.startswith("file"):
        head, tail = (
            ([*map(_tabbed, part)] for part in (head, tail)) if "tab" in slip else (head, tail)
        )
    file = "\n".join([*head, *file_old, *tail])
    if slip != "none" and _is_exact(file, shown_old, shown_new):
        return None
    if "in both" in slip and _looks_slipped_in_old(file_old, shown_old, shown_new):
        return None
    return Case(file, "\n".join([*head, *file_new, *tail]), shown_old, shown_new)


def _looks_slipped_in_old(there: Lines, old: str, new: str) -> bool:
    """An edit that indents every line by what the slip took: nobody can tell it from a slip in the
    old text alone."""
    actual = {line.strip(): line for line in there if line}
    kept = [line for line in new.split("\n") if line.strip() in actual]
    slipped = [line for line in old.split("\n") if line and actual.get(line.strip(), line) != line]
    return bool(kept and slipped) and all(line == actual[line.strip()] for line in kept)


def _is_exact(file: str, old: str, new: str) -> bool:
    """The slip does not show: what stands there, from a word or a line on, is replaced as it was
    said."""
    at = file.find(old)
    before = file[:at].rpartition("\n")[2]
    if at < 0 or not before or before.strip():
        return at >= 0
    return old[:1] not in ("\n", " ", "\t") and new[:1] not in (" ", "\t")


def _file(rng: Random, unit: str) -> Lines:
    lines: Lines = []
    depth = 0
    for _ in range(rng.randint(3, 24)):
        depth = max(0, min(4, depth + rng.choice([-1, 0, 0, 0, 1])))
        text = rng.choice(_FORMS).format(rng.choice(_WORDS), rng.choice(_WORDS))
        lines += [] if rng.random() < 0.85 else [""]
        lines.append(unit * depth + text)
    return lines


def _edited(rng: Random, old: Lines, unit: str) -> Lines:
    """One of: words replaced, lines added, removed, wrapped in a block, or taken out of one."""
    at = rng.choice([at for at, line in enumerate(old) if line] or [0])
    indent = re.match(r"\s*", old[at])[0]  # type: ignore[index]  # it matches every text
    match rng.randrange(8):
        case 0 | 1 | 2:
            return [*old[:at], re.sub(r"\w+", "other", old[at], count=1), *old[at + 1 :]]
        case 3:
            added = (
                indent
                + (unit if old[at].endswith(":") else "")
                + rng.choice(["new = 1", "more('a', \"b\")", "}"])
            )
            return [*old[: at + 1], added, *old[at + 1 :]]
        case 4 if len(old) > 1:
            return [*old[:at], *old[at + 1 :]]
        case 5:
            return [
                *old[:at],
                f"{indent}if wrapped:",
                *(unit + line if line else line for line in old[at:]),
            ]
        case 6:
            return [line.removeprefix(unit) for line in old]
        case _:
            return [*old[:at], f"{indent}one()", f"{indent}two()", *old[at + 1 :]]


_Written = tuple[Lines, Lines, str, str] | None
_Slip = Callable[[Random, Lines, Lines, int], _Written]


def _both(change: Callable[[Lines], Lines]) -> _Slip:
    return lambda rng, old, new, low: (old, new, "\n".join(change(old)), "\n".join(change(new)))


def _in_old(change: Callable[[Lines], Lines]) -> _Slip:
    return lambda rng, old, new, low: (old, new, "\n".join(change(old)), "\n".join(new))


def _tabbed(line: str) -> str:
    width = len(line) - len(line.lstrip(" "))
    return "\t" * (width // 4) + " " * (width % 4) + line.lstrip(" ")


def _dedented(lines: Lines) -> Lines:
    return [line.removeprefix("    ") for line in lines]


def _dedented_in_both(rng: Random, old: Lines, new: Lines, low: int) -> _Written:
    """None where a line has no indentation to lose: what is written then does not tell such lines
    from others."""
    if any(line and not line.startswith("    ") for line in [*old, *new]):
        return None
    return old, new, "\n".join(_dedented(old)), "\n".join(_dedented(new))


def _to_zero(rng: Random, old: Lines, new: Lines, low: int) -> _Written:
    """None where the edit changes how far that is: then it looks like another edit."""
    texts = "\n".join(old), "\n".join(new)
    shown_old, shown_new = map(textwrap.dedent, texts)
    return (old, new, shown_old, shown_new) if _outermost(old) == _outermost(new) else None


def _outermost(lines: Lines) -> int:
    return min((len(line) - len(line.lstrip()) for line in lines if line), default=0)


def _indented_in_old(change: Callable[[Lines], Lines]) -> _Slip:
    """None where the edit indents lines as well: by as much as the slip, it looks like a slip in
    both."""

    def slip(rng: Random, old: Lines, new: Lines, low: int) -> _Written:
        kept = {line.strip(): line for line in old if line}
        if any(kept.get(line.strip(), line) != line for line in new):
            return None
        return old, new, "\n".join(change(old)), "\n".join(new)

    return slip


def _file_tabbed(rng: Random, old: Lines, new: Lines, low: int) -> _Written:
    if any("\t" in line for line in [*old, *new]):
        return None
    return [*map(_tabbed, old)], [*map(_tabbed, new)], "\n".join(old), "\n".join(new)


def _file_trailing(rng: Random, old: Lines, new: Lines, low: int) -> _Written:
    def trailing(lines: Lines) -> Lines:
        return [line + "  " if line in old else line for line in lines]

    return trailing(old), trailing(new), "\n".join(old), "\n".join(new)


def _one_line_off(rng: Random, old: Lines, new: Lines, low: int) -> _Written:
    at = rng.randrange(len(old))
    if not old[at].strip():
        return None
    off = " " + old[at] if rng.random() < 0.6 or not old[at].startswith(" ") else old[at][1:]
    return old, new, "\n".join([*old[:at], off, *old[at + 1 :]]), "\n".join(new)


def _one_blank(rng: Random, old: Lines, new: Lines, low: int) -> _Written:
    blank = [at for at, line in enumerate(old) if not line and 0 < at < len(old) - 1]
    if blank:
        at = rng.choice(blank)
        return old, new, "\n".join([*old[:at], *old[at + 1 :]]), "\n".join(new)
    at = rng.randint(1, len(old) - 1) if len(old) > 1 else 0
    return (old, new, "\n".join([*old[:at], "", *old[at:]]), "\n".join(new)) if at else None


def _numbered(separator: str, *, both: bool) -> _Slip:
    def numbered(lines: Lines, low: int) -> str:
        return "\n".join(f"{low + at}{separator}{line}" for at, line in enumerate(lines, start=1))

    def slip(rng: Random, old: Lines, new: Lines, low: int) -> _Written:
        return old, new, numbered(old, low), numbered(new, low) if both else "\n".join(new)

    return slip


def _escaped(pattern: str) -> Callable[[Lines], Lines]:
    return lambda lines: [re.sub(pattern, r"\\\g<0>", line) for line in lines]


def _as_json(lines: Lines) -> Lines:
    return [
        "\\n".join(
            line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") for line in lines
        )
    ]


def _typed(lines: Lines) -> Lines:
    return [line.translate({0x2014: "-", 0x2019: "'", 0x201C: '"', 0x201D: '"'}) for line in lines]


def _curled(lines: Lines) -> Lines:
    return [line.translate(str.maketrans(_CURLY)) for line in lines]


SLIPS: dict[str, _Slip] = {
    "none": _both(lambda lines: lines),
    "trailing blanks in both": _both(lambda lines: [line + " " for line in lines]),
    "trailing blanks in old": _in_old(lambda lines: [line + " " for line in lines]),
    "file has trailing blanks": _file_trailing,
    "file has tabs": _file_tabbed,
    "tabs in both": _both(lambda lines: [*map(_tabbed, lines)]),
    "tabs in old": _in_old(lambda lines: [*map(_tabbed, lines)]),
    "dedented in both": _dedented_in_both,
    "dedented in old": _indented_in_old(_dedented),
    "dedented to zero": _to_zero,
    "stripped in both": _both(lambda lines: [line.strip() for line in lines]),
    "stripped in old": _in_old(lambda lines: [line.strip() for line in lines]),
    "first line stripped in old": _in_old(lambda lines: [lines[0].lstrip(), *lines[1:]]),
    "too far in both": _both(lambda lines: ["    " + line if line else line for line in lines]),
    "too far in old": _indented_in_old(
        lambda lines: ["    " + line if line else line for line in lines]
    ),
    "one line off in old": _one_line_off,
    "one blank line in old": _one_blank,
    "numbered in both": _numbered("\t", both=True),
    "numbered in old": _numbered(" | ", both=False),
    "numbered with arrows": _numbered("\u2192", both=True),
    "numbered with colons": _numbered(":", both=False),
    "blanks between words in old": _in_old(
        lambda lines: [re.sub(r"(?<=\S) ", "  ", line, count=1) for line in lines]
    ),
    "entities in both": _both(lambda lines: html.escape("\n".join(lines)).split("\n")),
    "entities in old": _in_old(lambda lines: html.escape("\n".join(lines)).split("\n")),
    "escaped quotes in both": _both(_escaped("[\"']")),
    "escaped quotes in old": _in_old(_escaped("[\"']")),
    "json in both": _both(_as_json),
    "json in old": _in_old(_as_json),
    "typed for typographic": _both(_typed),
    "typed for typographic in old": _in_old(_typed),
    "curled in both": _both(_curled),
    "curled in old": _in_old(_curled),
}
