"""Chooses the colours: every theme is shown in force while the mark is on it."""

from collections.abc import Callable

from codeagent.tui.screens.picker import Picker
from codeagent.tui.screens.picker_list import PickerRow
from codeagent.tui.themes import DEFAULT_THEME, ThemeError, Themes


class ThemePicker(Picker):
    """Gives the name of the theme that was taken; after Esc the one before is in force again."""

    def __init__(self, themes: Themes, current: str, use: Callable[[str], str]) -> None:
        """`use` draws everything in a theme, and returns what is wrong with it, empty where nothing is."""
        super().__init__(
            "Themes", [_row(themes, name) for name in themes.names()], marked=current, on_highlight=self._try
        )
        self._before = current
        self._use = use
        self._problem = ""

    def action_choose(self) -> None:
        """A theme that cannot be used is not taken."""
        if not self._problem:
            super().action_choose()

    def action_close(self) -> None:
        self._use(self._before)
        super().action_close()

    def _try(self, name: str) -> None:
        self._problem = self._use(name)
        self.tell(self._problem)


def _row(themes: Themes, name: str) -> PickerRow:
    try:
        theme = themes.get(name)
    except ThemeError as problem:
        return PickerRow(name, name, str(problem), warn=True)
    words = ["the terminal's own colours" if theme.textual.ansi else "dark" if theme.dark else "light"]
    if themes.is_own(name):
        words.append("yours")
    elif name == DEFAULT_THEME:
        words.append("the default")
    return PickerRow(name, name, " · ".join(words))
