"""Tells extensions what the agent wants of the user's attention, and lends them the terminal for it."""

from collections.abc import Iterable
from typing import Any, Literal

from textual.app import App

from codeagent.core.attention import Attention, Follower
from codeagent.tui.driver import TerminalDriver
from codeagent.tui.state import ASK_USER, Paused, PlanReady, SummaryReady, UiState

_ENDED: dict[str, Literal["idle", "done", "stopped", "failed"]] = {
    "": "idle",
    "done": "done",
    "failed": "failed",
}


class AppTerminal:
    """The terminal of an app; see `core.attention.Terminal`."""

    def __init__(self, app: App[Any], state: UiState) -> None:
        self._app = app
        self._state = state

    @property
    def in_front(self) -> bool:
        return self._app.app_focus

    def title(self, text: str) -> None:
        if (driver := self._driver) is not None:
            driver.set_title(text)

    def send(self, sequence: str) -> None:
        if (driver := self._driver) is not None:
            driver.write(sequence)
            driver.flush()

    def tell(self, problem: str) -> None:
        self._state.document.remark(problem, "warning")

    @property
    def _driver(self) -> TerminalDriver | None:
        """The driver; None if the screen is not drawn on a terminal."""
        driver = self._app._driver  # as Textual's own `App.bell` does; nothing public writes
        return driver if isinstance(driver, TerminalDriver) else None


class AttentionWatch:
    """Watches the UI state of one conversation from when it is open until it ends."""

    def __init__(self, state: UiState) -> None:
        self._state = state
        self._followers: tuple[Follower, ...] = ()
        self._last: Attention | None = None
        self._watched = (state.status, state.approvals, state.boundary)

    def begin(self, followers: Iterable[Follower]) -> None:
        self._followers = tuple(followers)
        for model in self._watched if self._followers else ():
            model.watch(self._sync)
        self._sync()

    def end(self) -> None:
        """Leave the terminal to another conversation."""
        for model in self._watched if self._followers else ():
            model.unwatch(self._sync)
        self._followers = ()

    def _sync(self) -> None:
        now = attention(self._state)
        if now == self._last:
            return
        self._last = now
        for follower in self._followers:
            follower(now)


def attention(state: UiState) -> Attention:
    """Return what the agent wants of the user now."""
    run, place = state.status.now.run, state.status.now.folder.workspace
    questions = tuple(each.approval_id for each in state.approvals.waiting)
    if about := _waits_for(state):
        return Attention("waiting", place, about, questions)
    if run.in_run:
        return Attention("working", place)
    return Attention(_ENDED.get(run.ended, "stopped"), place)


def _waits_for(state: UiState) -> str:
    if state.approvals.waiting:
        asked = state.approvals.waiting[0]
        return "an answer" if asked.name == ASK_USER else f"{asked.name} {asked.target}"
    match state.boundary.now:
        case Paused(text=text):
            return text
        case PlanReady():
            return "the plan is ready"
        case SummaryReady():
            return "a summary to read"
        case None:
            return ""
