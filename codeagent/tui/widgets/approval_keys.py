"""The row of keys that answer a question."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.style import Style

from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.widgets.fitting import Part, cut_end, fit, joined_width, styled
from codeagent.tui.widgets.row import Row

_GAP = "   "
_HERE = "›"
"""In front of the choice that Enter would take."""
_LEAD_KEPT = 35
"""How late the lead goes, beside the `keep` of choices."""


@dataclass(frozen=True)
class Choice:
    """A key and what it does; `keep` says how late it goes where the row is narrow."""

    key: str
    words: str
    short: str = ""
    keep: int = 50
    allows: bool = False
    label: str = ""
    """The key as it is shown, where that is not `key`."""


class KeyRow(Row):
    """Choices in as many words as fit; those that allow are struck out while they are off."""

    def __init__(self) -> None:
        super().__init__()
        self._choices: tuple[Choice, ...] = ()
        self._marked = ""
        self._lead = ("", "")
        self._note = ""
        self._off = False

    def show(
        self, choices: Sequence[Choice], *, marked: str, lead: str, note: str, off: bool, short_lead: str = ""
    ) -> None:
        """`marked` is the key of the choice in focus; `lead` says how keys reach the card; `note` replaces all."""
        state = (tuple(choices), marked, (lead, short_lead or lead), note, off)
        if state != (self._choices, self._marked, self._lead, self._note, self._off):
            self._choices, self._marked, self._lead, self._note, self._off = state
            self.refresh()

    def row(self, width: int, palette: Palette) -> Line:
        if self._note:
            return line([(cut_end(self._note, width), palette.warning)])
        for brief, gap in ((False, _GAP), (True, _GAP), (True, "  ")):
            lead = Part(self._lead[brief], _LEAD_KEPT)
            parts = (*((lead,) if lead.text else ()), *(self._part(choice, brief=brief) for choice in self._choices))
            if joined_width(parts, gap) <= width:
                break
        return line(styled(fit(parts, width, gap), palette, gap))

    def _part(self, choice: Choice, *, brief: bool) -> Part:
        mark = _HERE if choice.key == self._marked else ""
        words = choice.short if brief and choice.short else choice.words
        return Part(f"{mark}{choice.label or choice.key} {words}", choice.keep, self._style(choice))

    def _style(self, choice: Choice) -> Callable[[Palette], Style]:
        if choice.allows and self._off:
            return lambda palette: palette.muted + Style(strike=True)
        if choice.key == self._marked:
            return lambda palette: palette.strong
        return lambda palette: palette.text
