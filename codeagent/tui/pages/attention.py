"""Tells extensions what the agent wants of the user's attention, and lends them the terminal for it."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from textual.app import App

from codeagent.core.attention import Attention, Follower
from codeagent.tui.driver import TerminalDriver
from codeagent.tui.state import ASK_USER, Paused, PlanReady, SummaryReady, UiState

if TYPE_CHECKING:  # it loads pydantic, which would delay the first keys
    from codeagent.tui.session_reader import SessionReader

_ENDED: dict[str, Literal["idle", "done", "stopped", "failed"]] = {
    "": "idle",
    "done": "done",
    "failed": "failed",
}


class AppTerminal:
    """The terminal that an app is drawn on; see `core.attention.Terminal`."""

    def __init__(self, app: App[Any], driver: TerminalDriver, state: UiState) -> None:
        self._app = app
        self._driver = driver
        self._state = state
        self.title = driver.set_title

    @property
    def in_front(self) -> bool:
        return self._app.app_focus

    def send(self, sequence: str) -> None:
        self._driver.write(sequence)
        self._driver.flush()

    def tell(self, problem: str) -> None:
        self._state.document.remark(problem, "warning")


class AttentionWatch:
    """Watches the UI state of one conversation from when it is open until it ends."""

    def __init__(self, state: UiState) -> None:
        self._state = state
        self._followers: tuple[Follower, ...] = ()
        self._last: Attention | None = None
        self._worked = False
        """Whether a run was seen: one that ended before that is not reported."""
        self._watched = (state.status, state.approvals, state.boundary)

    async def begin(self, app: App[Any], client: "SessionReader") -> None:
        """Begin, if the screen is drawn on a terminal. Raises ConfigError."""
        driver = app._driver  # as Textual's own `App.bell` does; no public method writes
        if not isinstance(driver, TerminalDriver):
            return
        self._followers = await client.followers(AppTerminal(app, driver, self._state))
        for model in self._watched:
            model.watch(self._sync)
        self._sync()

    def end(self) -> None:
        """Leave the terminal to another conversation."""
        self._followers = ()

    def _sync(self) -> None:
        now = attention(self._state)
        self._worked = self._worked or now.state in ("working", "waiting")
        if not self._worked:
            now = replace(now, state="idle")
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
