"""One row for every rule in force and for every decision."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from codeagent.core.ledger import LedgerRow
from codeagent.core.ledger_words import decided_by
from codeagent.core.policy import Permission, Rule, RuleOrigin
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.widgets.fitting import cut_end, cut_middle, flat

WORDS: dict[Permission, str] = {"auto": "allow", "prompt": "ask", "deny": "deny"}
ORIGINS: dict[RuleOrigin, str] = {
    "flag": "the command line",
    "session": "this session",
    "saved": "kept for this folder",
    "user": "your config.toml",
    "project": "the project's config.toml",
}
_OUTCOME = 9
"""Cells of `cancelled`, the longest outcome."""
_WORD = 5
_ROOMY = 90
"""Cells from which on there is room for the rule or the reason behind a decision."""
_FEW = 20
"""Cells that are worth it."""


@dataclass(frozen=True)
class Heading:
    """A row that cannot be marked."""

    text: str


@dataclass(frozen=True)
class RuleEntry:
    rule: Rule


@dataclass(frozen=True)
class DecisionEntry:
    row: LedgerRow


Entry = Heading | RuleEntry | DecisionEntry
Parts = list[tuple[str, Style | None]]


@dataclass(frozen=True)
class Columns:
    """Cells that a word takes in all rows."""

    origin: int = 0
    who: int = 0
    tool: int = 0

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> "Columns":
        rows = [entry.row for entry in entries if isinstance(entry, DecisionEntry)]
        who = max((cell_len(decided_by(row)) for row in rows), default=0)
        tool = max((cell_len(flat(row.tool)) for row in rows), default=0)
        origins = (len(ORIGINS[entry.rule.origin]) for entry in entries if isinstance(entry, RuleEntry))
        return cls(max(origins, default=0), who, min(tool, 12))


def entries_of(rules: Sequence[Rule], decisions: Sequence[LedgerRow]) -> tuple[Entry, ...]:
    """Both parts, each below its heading: rules as they were given, decisions the newest first."""
    return (
        Heading("Rules in force" if rules else "Rules in force: none; n writes one"),
        *(RuleEntry(rule) for rule in rules),
        Heading(""),
        Heading("Decisions so far, the newest first" if decisions else "Decisions so far: none"),
        *(DecisionEntry(row) for row in reversed(decisions)),
    )


def parts_of(entry: Entry, width: int, columns: Columns, palette: Palette) -> Parts:
    """The row in at most `width` cells."""
    match entry:
        case Heading(text):
            return [(cut_end(text, width), palette.heading)]
        case RuleEntry(rule):
            return _rule(rule, width, columns, palette)
        case DecisionEntry(row):
            return _decision(row, width, columns, palette)
        case _:
            assert_never(entry)


def clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def outcome_style(row: LedgerRow, palette: Palette) -> Style:
    return {"allowed": palette.success, "denied": palette.error, "cancelled": palette.muted}[row.outcome]


def _rule(rule: Rule, width: int, columns: Columns, palette: Palette) -> Parts:
    styles = {"auto": palette.success, "prompt": palette.warning, "deny": palette.error}
    room = width - _WORD - 2
    beside = columns.origin + 2 if room - columns.origin - 2 >= _FEW else 0
    text = set_cell_size(cut_middle(flat(str(rule)), room - beside), max(0, room - beside))
    parts: Parts = [(f"{WORDS[rule.permission]:<{_WORD}}  ", styles[rule.permission]), (text, palette.text)]
    return [*parts, (f"  {ORIGINS[rule.origin]}", palette.muted)] if beside else parts


def _decision(row: LedgerRow, width: int, columns: Columns, palette: Palette) -> Parts:
    who = set_cell_size(decided_by(row), columns.who)
    tool = set_cell_size(cut_end(flat(row.tool), columns.tool), columns.tool)
    parts: Parts = [
        (f"{clock(row.at)}  ", palette.muted),
        (f"{row.outcome:<{_OUTCOME}}  ", outcome_style(row, palette)),
        (f"{who}  ", palette.text),
        (f"{tool}  ", palette.strong),
    ]
    room = width - sum(cell_len(text) for text, _ in parts)
    target, why = flat(row.target or row.what), flat(row.rule or row.reason)
    if not why or width < _ROOMY or room < 2 * _FEW:
        return [*parts, (cut_end(target, room), palette.text)]
    target = set_cell_size(cut_end(target, room * 3 // 5), room * 3 // 5)
    return [*parts, (target, palette.text), (f"  {cut_end(why, room - cell_len(target) - 2)}", palette.muted)]
