"""The composer together with the lists that open above it."""

from textual.app import ComposeResult
from textual.containers import Vertical

from codeagent.tui.widgets.choice_list import ChoiceList
from codeagent.tui.widgets.composer import Composer
from codeagent.tui.widgets.history_search import HistorySearch


class ComposerArea(Vertical):
    """As high as the composer; the lists lie over what is above. Messages of the composer pass through."""

    DEFAULT_CSS = """
    ComposerArea {
        width: 1fr;
        height: auto;
    }
    """

    def __init__(self, composer: Composer) -> None:
        super().__init__()
        self.composer = composer

    def compose(self) -> ComposeResult:
        yield self.composer.choices
        yield self.composer.search
        yield self.composer

    def on_choice_list_picked(self, event: ChoiceList.Picked) -> None:
        event.stop()
        self.composer.take(event.choice)

    def on_history_search_closed(self, event: HistorySearch.Closed) -> None:
        event.stop()
        self.composer.end_search(event)
