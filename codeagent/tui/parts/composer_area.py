"""The composer with the rule above it, which shows the mode, and the lists that open above it."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Resize

from codeagent.tui.parts.composer import Composer
from codeagent.tui.parts.rows import SEPARATOR, Part, RowsWidget, RuleRow
from codeagent.tui.parts.status import MODE_MEANS, mode_style, prompt_words
from codeagent.tui.parts.suggestions import ChoiceList, HistorySearch
from codeagent.tui.rendering.attached import attached_row
from codeagent.tui.rendering.lines import Line, flat, indented, line, paragraph
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.state import UiState

_INDENT = "  "
_MOST_CHIPS = 4
_AIRY = 16
"""Rows of a screen from which on there is a blank row above the rule."""
_WIDE = 60
"""Columns from which on the rule says how to change the mode, and what it means if that fits."""
_CHANGES = "changes it"
_RULE = 12
"""Cells of the rule that are not words."""
_ROOMY = 10
"""Rows of a screen from which on there is a rule; two more are needed below a card, which has its
own."""


class AttachmentRows(RowsWidget):
    """The attachments of the text, a row each: name and size."""

    DEFAULT_CSS = """
    AttachmentRows { height: auto; width: 1fr; display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._chips: tuple[tuple[str, str], ...] = ()
        self._refusal = ""

    def show(self, chips: Sequence[tuple[str, str]], refusal: str = "") -> None:
        """Show these names with their sizes; `refusal` is why they cannot be sent."""
        self._chips = tuple(chips)
        self._refusal = refusal
        self.display = bool(chips)
        self.refresh(layout=True)

    def rows(self, width: int, palette: Palette) -> Sequence[Line]:
        room = width - len(_INDENT)
        shown = [attached_row(*chip, room, palette) for chip in self._chips[:_MOST_CHIPS]]
        if more := len(self._chips) - len(shown):
            shown.append(line([(f"… {more} more", palette.muted)]))
        if self._refusal:
            shown += paragraph(f"! {flat(self._refusal)}", room, palette.warning)
        return [indented(row, Segment(_INDENT)) for row in shown]


class ComposerArea(Vertical):
    """As high as the composer; the lists cover what is above it. Messages of the composer pass
    through."""

    DEFAULT_CSS = """
    ComposerArea {
        width: 1fr;
        height: auto;
        & > RuleRow { color: $text-muted; }
        & > Composer { margin: 0 1 0 0; }
        &.-airy { margin-top: 1; }
    }
    """

    def __init__(self, composer: Composer, state: UiState, *, mode_key: str) -> None:
        """`mode_key` is the key that changes the mode."""
        super().__init__()
        self.composer = composer
        self._state = state
        self._mode_key = mode_key
        self._rule = RuleRow(("─", "─"))
        self._attached = AttachmentRows()

    def compose(self) -> ComposeResult:
        yield self._rule
        yield self.composer.choices
        yield self.composer.search
        yield self.composer
        yield self._attached

    def on_mount(self) -> None:
        for model in (self._state.status, self._state.boundary, self._state.approvals):
            model.watch(self.sync)
        self.sync()

    def sync(self) -> None:
        """Show the mode in force, its meaning, and what typing would do now."""
        mode = self._state.status.now.conversation.mode
        self.composer.placeholder = prompt_words(self._state.status.now, self._state.boundary.now)
        # A card above has its own frame, and needs no blank row below.
        height = self.app.size.height
        framed = bool(self._state.approvals.waiting) or self._state.boundary.now is not None
        self._rule.display = height >= _ROOMY + 2 * framed
        self.set_class(height >= _AIRY and not framed, "-airy")
        wide = self.size.width >= _WIDE
        means = SEPARATOR.join(filter(None, (flat(mode), MODE_MEANS.get(mode))))
        fits = cell_len(f"{means}{self._mode_key} {_CHANGES}") + _RULE <= self.size.width
        self._rule.show(
            (Part(means if fits else flat(mode), 90, mode_style(mode)),),
            (
                *((Part(vim, 80, "strong"),) if (vim := self.composer.vim_mode) else ()),
                *((Part(f"{self._mode_key} {_CHANGES}", 20),) if wide else ()),
            ),
        )

    @property
    def shows_attached(self) -> bool:
        return bool(self._attached.display)

    def attach(self, chips: Sequence[tuple[str, str]], refusal: str = "") -> None:
        """Show the attachments of the text below it; `refusal` is why it cannot be sent."""
        self._attached.show(chips, refusal)
        self.composer.mark_mentions([name for name, _ in chips])

    def on_resize(self, event: Resize) -> None:
        self.sync()

    def on_vim_prompt_mode_shown(self) -> None:
        self.sync()

    def on_choice_list_picked(self, event: ChoiceList.Picked) -> None:
        event.stop()
        self.composer.take(event.choice)

    def on_history_search_closed(self, event: HistorySearch.Closed) -> None:
        event.stop()
        self.composer.end_search(event)
