"""One line to type a reason or an answer in, which keeps all of a paste."""

from textual.events import Paste
from textual.widgets import Input

from codeagent.core.sanitize import visible


class ReasonInput(Input):
    """An `Input` in which the lines of a paste become one."""

    DEFAULT_CSS = """
    ReasonInput {
        height: 1;
        border: none;
        padding: 0;
        background: $surface;
    }
    ReasonInput:focus {
        border: none;
    }
    """

    def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert_text_at_cursor(" ".join(visible(event.text).split()))
