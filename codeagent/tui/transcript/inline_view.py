"""The transcript of a screen below the shell's lines: shows the current turn, and prints finished
ones into the terminal's scrollback."""

from collections.abc import Callable, Sequence
from typing import Any

from textual.strip import Strip

from codeagent.tui.inline import InlineDriver
from codeagent.tui.transcript.render import printed, runs
from codeagent.tui.transcript.view import TranscriptView

_MOST_PRINTED = 2_000
"""Rows printed of a conversation that is continued."""


class InlineView(TranscriptView):
    """Is as high as what is not printed yet, up to half of the terminal; half of it while it is read.

    `at_rest` says whether no turn is running.
    """

    def __init__(self, *args: Any, at_rest: Callable[[], bool], **options: Any) -> None:
        super().__init__(*args, **options)
        self._at_rest = at_rest
        self._printed = 0
        """How many blocks were printed."""
        self._turned = False
        """Whether the user turned a page back, and did not return to the end."""

    def on_mount(self) -> None:
        super().on_mount()
        self.screen.screen_layout_refresh_signal.subscribe(self, lambda _: self._laid_out())
        self.watch(self, "has_focus", self._fit, init=False)

    def _laid_out(self) -> None:
        """Also print what could not be printed before."""
        self._fit()
        if self._at_rest() and self._printed < len(self.document.blocks):
            self._arm()

    def to_leave(self) -> str:
        return printed(
            self.document.blocks[self._printed :], self.sheet.width, self.detail, self._clock()
        )

    def flush(self) -> None:
        super().flush()
        if self._at_rest() and not self.document.partial:
            self._print()
        self._fit()

    def find(self, text: str) -> int:
        matches = super().find(text)
        self._fit()
        return matches

    def clear_search(self) -> None:
        super().clear_search()
        self._fit()

    def scroll_page_up(self, **options: Any) -> None:
        self._turn_back(super().scroll_page_up, options)

    def scroll_home(self, **options: Any) -> None:
        self._turn_back(super().scroll_home, options)

    def go_to_end(self) -> None:
        self._turn(False)
        super().go_to_end()

    def _turn_back(self, scroll: Callable[..., None], options: dict[str, Any]) -> None:
        """Scroll once the view has a height, so that no key is lost that opens it."""
        self._turn(True)
        if self.size.height:
            scroll(**options)
        else:
            self.call_after_refresh(scroll, **options)

    def _turn(self, turned: bool) -> None:
        self._turned = turned
        self._fit()

    def _print(self) -> None:
        blocks, console = self.document.blocks, self.app.console
        self.sheet.set_width(self.app.size.width - 1)
        rows: list[str] = []
        place = self._printed
        while place < len(blocks) and not runs(blocks[place]):
            drawn = self.sheet.draw(place)
            rows += [""] * (self.sheet.gap(place) or not place) if drawn.lines else []
            for each in drawn.lines:
                strip = Strip([drawn.margin, *self.linked(each).strip])
                for change in self.app.get_line_filters():
                    strip = strip.apply_filter(change, self.background_colors[1])
                rows.append(strip.render(console))
            place += 1
        if rows and not self._looks and self._print_above(rows[-_MOST_PRINTED:]):
            self._printed = place

    async def _look(self) -> None:
        """Print once it is known which of the places are links."""
        await super()._look()
        self._arm()

    def _print_above(self, rows: Sequence[str]) -> bool:
        """Print rows above the screen; False if that is not possible now."""
        driver = self.app._driver
        return isinstance(driver, InlineDriver) and driver.print_above(rows)

    def _fit(self) -> None:
        layout, most = self.sheet.layout, max(1, self.app.size.height // 2)
        left = layout.total - layout.offset(self._printed) if self._printed < len(layout) else 0
        read = self.has_focus or self._finding is not None or self._turned
        others = (each.outer_size.height for each in self.screen.children if each is not self)
        room = max(0, self.app.size.height - sum(others))
        rows = min(most if read else left, most, room)
        self.styles.height = rows
        self.display = rows > 0
