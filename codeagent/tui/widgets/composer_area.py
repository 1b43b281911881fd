"""The composer with its rule, on which the mode stands, and the lists that open above it."""

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Resize

from codeagent.tui.stage import StatusBoard
from codeagent.tui.widgets.choice_list import ChoiceList
from codeagent.tui.widgets.composer import Composer
from codeagent.tui.widgets.fitting import SEPARATOR, Part, flat
from codeagent.tui.widgets.history_search import HistorySearch
from codeagent.tui.widgets.rule_row import RuleRow
from codeagent.tui.widgets.status_text import MODE_MEANS, mode_style

_AIRY = 16
"""Rows of a screen from which on there is a blank one above the rule."""
_ROOMY = 10
"""Rows of a screen from which on there is a rule."""


class ComposerArea(Vertical):
    """As high as the composer; the lists lie over what is above. Messages of the composer pass through."""

    DEFAULT_CSS = """
    ComposerArea {
        width: 1fr;
        height: auto;
        & > RuleRow { color: $text-muted; }
        & > Composer { margin: 0 1 0 0; }
        &.-airy { margin-top: 1; }
    }
    """

    def __init__(self, composer: Composer, status: StatusBoard, *, mode_key: str) -> None:
        """`mode_key` is the key that changes the mode."""
        super().__init__()
        self.composer = composer
        self._status = status
        self._mode_key = mode_key
        self._rule = RuleRow(("─", "─"))
        self._framed = False

    def compose(self) -> ComposeResult:
        yield self._rule
        yield self.composer.choices
        yield self.composer.search
        yield self.composer

    def on_mount(self) -> None:
        self._status.watch(self.sync)
        self.sync()

    def sync(self) -> None:
        """Say the mode that is in force, and what it means."""
        mode = self._status.now.mode
        self._rule.show(
            (
                Part(
                    SEPARATOR.join(words for words in (flat(mode), MODE_MEANS.get(mode)) if words), 90, mode_style(mode)
                ),
            ),
            (Part(f"{self._mode_key} changes it", 20),),
        )

    def below_card(self, framed: bool) -> None:
        """Whether what is above has a frame of its own, and needs no air between."""
        self._framed = framed
        self._fit()

    def on_resize(self, event: Resize) -> None:
        self._fit()

    def _fit(self) -> None:
        height = self.app.size.height
        self._rule.display = height >= _ROOMY
        self.set_class(height >= _AIRY and not self._framed, "-airy")

    def on_choice_list_picked(self, event: ChoiceList.Picked) -> None:
        event.stop()
        self.composer.take(event.choice)

    def on_history_search_closed(self, event: HistorySearch.Closed) -> None:
        event.stop()
        self.composer.end_search(event)
