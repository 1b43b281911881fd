"""What the agent can do, what is wrong with which tool file, and which files wait for trust."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from codeagent.core.acts import TrustTools
from codeagent.core.toolbox import Toolbox
from codeagent.tui.screens.page import Page, Pane
from codeagent.tui.screens.tools_pane import ToolsPane
from codeagent.tui.session_client import SessionClient
from codeagent.tui.transcript.spelling import counted

_LATER = "trusted; loaded before the next request of the run that goes on"
DISTRUSTED = "no tool file of this project is loaded any more"
_NOTHING = "no tool file waits for your trust"
_LOOK = 0.5
"""Seconds between two looks at whether files changed; nothing is drawn where none did."""


class ToolsScreen(Page):
    """Covers the conversation, which goes on; files that change meanwhile show."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "trust", "trust the tool files", show=False, id="tools.trust"),
        Binding("y", "yes", "yes, load them", show=False, id="tools.yes"),
        Binding("d", "distrust", "trust them no more", show=False, id="tools.distrust"),
    ]

    def __init__(self, client: SessionClient, toolbox: Toolbox, *, ask: bool = False) -> None:
        """`ask`: begin with the question whether to trust the files."""
        hints = [*(["t trusts"] if toolbox.untrusted else []), "d distrusts"]
        super().__init__("Tools", _note(toolbox), hints)
        self._client = client
        self._shown = toolbox
        self._pane = ToolsPane(toolbox)
        self._asked: tuple[str, ...] = ()
        """The files it was asked about whether to trust them."""
        self._ask = ask

    def pane(self) -> Pane:
        return self._pane

    def body(self) -> Sequence[Widget]:
        return [self._pane]

    def on_mount(self) -> None:
        self.set_interval(_LOOK, self._look)
        if self._ask:
            self.action_trust()

    def settle(self) -> None:
        self._asked = ()
        super().settle()

    def action_trust(self) -> None:
        self._look()
        self._pane.turn("home")  # what trusting means stands there
        self._asked = self._shown.untrusted
        files = counted(len(self._asked), "file", "files")
        self.hint_row.tell(f"trust {files}? y loads them; any other key leaves it" if self._asked else _NOTHING)

    def action_yes(self) -> None:
        asked = self._asked
        self._look()
        if asked and asked == self._shown.untrusted:
            self._change(trusted=True)

    def action_distrust(self) -> None:
        self._change(trusted=False)

    def _change(self, *, trusted: bool) -> None:
        self.settle()
        self.app.run_worker(self._trust(trusted))  # of the app: closing the page must not end it half way

    async def _trust(self, trusted: bool) -> None:
        if (refused := await self._client.finish(TrustTools(trusted))) is not None:
            self.hint_row.tell(refused.reason)
            return
        self._look()
        loaded = _LATER if self._shown.untrusted else "loaded"
        self.hint_row.tell(loaded if trusted else DISTRUSTED)

    def _look(self) -> None:
        """Files that changed since they were asked about are asked about anew."""
        toolbox = self._client.toolbox
        if toolbox is None or toolbox == self._shown:
            return
        if toolbox.untrusted != self._shown.untrusted and self._asked:
            self.settle()
        self._shown = toolbox
        self.title_row.tell(_note(toolbox))
        self._pane.change(toolbox)


def _note(toolbox: Toolbox) -> str:
    problems = counted(len(toolbox.problems), "problem", "problems") if toolbox.problems else ""
    untrusted = f"{counted(len(toolbox.untrusted), 'file waits', 'files wait')} for trust" if toolbox.untrusted else ""
    return " · ".join(part for part in (counted(len(toolbox.tools), "tool", "tools"), problems, untrusted) if part)
