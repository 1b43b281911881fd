"""Everything about one rule or one decision."""

import time
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.style import Style
from textual.widget import Widget

from codeagent.core.ledger_words import decided_by
from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.rendering.rows import wrap
from codeagent.tui.screens.page import Page, Pane
from codeagent.tui.screens.permission_rows import ORIGINS, WORDS, DecisionEntry, RuleEntry
from codeagent.tui.widgets.line_pane import LinePane

_LABEL = 10


class PermissionPane(LinePane):
    DEFAULT_CSS = """
    PermissionPane { padding: 1 2 0 2; }
    """

    def __init__(self, facts: Sequence[tuple[str, str]], whole: str) -> None:
        """`facts` are labels and what stands beside them; `whole` stands below, every character of it."""
        super().__init__()
        self._facts = tuple((label, text) for label, text in facts if text)
        self._whole = whole

    def on_mount(self) -> None:
        self.show([self._piece])

    def everything(self) -> str:
        return "\n".join([*(f"{label}: {text}" for label, text in self._facts), "", self._whole])

    def _piece(self, width: int, palette: Palette) -> Iterator[Line]:
        for label, text in self._facts:
            rows = wrap([(text, palette.text)], max(8, width - _LABEL - 2))
            for name, row in zip_longest([label], rows, fillvalue=None):
                beside: list[tuple[str, Style | None]] = [(f"{name or '':<{_LABEL}}  ", palette.muted)]
                yield line([*beside, *(row.parts if row else [])])
        yield line([])
        for row in wrap([(self._whole, palette.code)], max(8, width), words=False):
            yield line(row.parts, joins=row.joins)


class PermissionPage(Page):
    """A rule or a decision, whole."""

    def __init__(self, entry: RuleEntry | DecisionEntry) -> None:
        if isinstance(entry, RuleEntry):
            super().__init__("Rule")
            facts = [("does", WORDS[entry.rule.permission]), ("from", ORIGINS[entry.rule.origin])]
            self._pane = PermissionPane(facts, str(entry.rule))
            return
        super().__init__("Decision")
        row = entry.row
        kept = ", also in later sessions in this folder" if row.keep else ""
        self._pane = PermissionPane(
            [
                ("when", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.at))),
                ("outcome", row.outcome),
                ("who", decided_by(row)),
                ("tool", row.tool),
                ("rule", row.rule and row.rule + kept),
                ("why", row.reason),
                ("as a rule", row.proposal),
            ],
            row.what,
        )

    def pane(self) -> Pane:
        return self._pane

    def body(self) -> Sequence[Widget]:
        return [self._pane]
