"""The line of the card to type a reason, an answer, a rule or a command in, which keeps all of a paste."""

import re

from textual.events import Paste

from codeagent.core.sanitize import visible
from codeagent.tui.widgets.line_input import LineInput

_BREAKS = re.compile(r"[ \t]*(?:\r\n|\r|\n)[ \t\r\n]*")


class ReasonInput(LineInput):
    """A `LineInput` in which the lines of a paste become one."""

    DEFAULT_CSS = """
    ReasonInput {
        background: $surface;
    }
    """

    def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert_text_at_cursor(visible(_BREAKS.sub(" ", event.text.strip())))
