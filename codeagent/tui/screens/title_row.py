"""The first and the last row of a screen that lies over the conversation."""

from collections.abc import Sequence

from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.widgets.fitting import Part, cut_end, fit, flat, joined_width, styled
from codeagent.tui.widgets.row import Row


class TitleRow(Row):
    """`── title ─────── note ──`."""

    def __init__(self, title: str, note: str = "") -> None:
        super().__init__()
        self._title = flat(title)
        self._note = flat(note)

    def name_it(self, title: str) -> None:
        """Change what stands at the left."""
        if flat(title) != self._title:
            self._title = flat(title)
            self.refresh()

    def tell(self, note: str) -> None:
        """Change what stands at the right."""
        if flat(note) != self._note:
            self._note = flat(note)
            self.refresh()

    def row(self, width: int, palette: Palette) -> Line:
        title = cut_end(self._title, width - 6)
        note = f" {self._note} " if self._note and joined_width([Part(title + self._note, 0)]) + 10 <= width else ""
        filled = joined_width([Part(title + note, 0)]) + 6
        rest = "─" * max(0, width - filled)
        return line(
            [
                ("── ", palette.rule),
                (title, palette.heading),
                (f" {rest}", palette.rule),
                (note, palette.muted),
                ("──", palette.rule),
            ]
        )


class HintRow(Row):
    """What the keys do here, as much of it as fits; or, for a while, what just happened."""

    def __init__(self, hints: Sequence[str]) -> None:
        """The first hints are the last to go where the row is narrow."""
        super().__init__()
        self._hints = tuple(hints)
        self._said = ""

    def tell(self, text: str) -> None:
        """Stands in place of the hints; empty brings them back."""
        if flat(text) != self._said:
            self._said = flat(text)
            self.refresh()

    def row(self, width: int, palette: Palette) -> Line:
        if self._said:
            return line([(f" {cut_end(self._said, width - 2)}", palette.accent)])
        parts = [Part(hint, -place) for place, hint in enumerate(self._hints)]
        return line([(" ", None), *styled(fit(parts, width - 2), palette)])
