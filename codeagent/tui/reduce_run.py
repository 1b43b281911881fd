"""Reduces the events of a run: its beginning, its end, what holds it, and the mode that it works
in."""

from codeagent.core import notices
from codeagent.core.events import RunFinished, RunStarted
from codeagent.core.policy import Mode
from codeagent.tui import outcomes
from codeagent.tui.state import PlanReady, UiState
from codeagent.tui.status import Halt
from codeagent.tui.transcript.spelling import counted, duration


class RunReducer:
    """Keeps what is known of the run, and of the session's mode."""

    def __init__(self, state: UiState) -> None:
        self.state = state
        self._mode: Mode = (
            "ask"  # according to the events; the status shows the user's choice at once
        )
        self._own_mode: Mode = "ask"
        """The session's mode, to which it returns after a step of a recipe."""
        self._step_mode: Mode | None = None
        self._stopped: notices.RunStopped | None = None
        self._paused_since = 0.0
        """Since when the run has waited at a boundary, in seconds since the epoch."""

    def begin(self, event: RunStarted) -> None:
        self._own_mode = event.mode
        self._stopped = None
        self._mode = self._step_mode or event.mode
        self._step_mode = None
        self.state.boundary.set(None)
        self.state.status.set(
            in_run=True, model=event.model, mode=self._mode, session=event.session
        )
        self.state.status.set(phase="working", since=event.ts, batch=0)

    def refuse(self, event: notices.RunNotBegun) -> None:
        """Show why a run did not begin."""
        self._step_mode = None
        self.state.document.remark(event.text, event.level)
        self.state.status.set(phase="idle", halt="")

    def begin_step(self, event: notices.RecipeStepBegun) -> None:
        self._step_mode = event.mode
        self.state.document.remark(event.text, event.level)

    def change_mode(self, event: notices.ModeChanged) -> None:
        self._mode = self._own_mode = event.mode
        self.state.status.set(mode=event.mode)
        if event.mode != "plan" and isinstance(self.state.boundary.now, PlanReady):
            self.state.boundary.set(None)

    def stop(self, event: notices.RunStopped) -> None:
        """Keep what was stopped; it is shown with the end of the run."""
        self._stopped = event

    def end(self, event: RunFinished) -> None:
        """Show how it ended, and a plan that it ended with."""
        state = self.state
        state.document.close()
        if event.reason != "done" or event.error is not None:
            lines = outcomes.stopped_lines(self._stopped) if self._stopped is not None else ()
            if event.reason == "failed":
                lines += outcomes.failed_lines(event.error or "")
            state.document.end(event.reason, event.error or "", lines)
        elif event.calls:
            took = duration(event.ts - state.status.now.run.since)
            state.document.end("done", f"{took} · {counted(event.calls, 'call')}", ())
        planned = self._mode == "plan" and event.reason == "done" and event.text.strip()
        state.boundary.set(PlanReady(event.text) if planned else None)

    def rest(self, event: RunFinished) -> None:
        """Show that nothing is running, once its calls have ended, too."""
        state = self.state
        if self._mode != self._own_mode:
            state.status.set(mode=self._own_mode)
        state.status.set(in_run=False, ended=event.reason, waits_since=None, retry_reason="")
        state.status.set(phase=state.phase_at_rest, halt="", since=event.ts, batch=0)

    def wait_at_boundary(self, event: notices.RunPaused | notices.RunResumed) -> None:
        state = self.state
        if isinstance(event, notices.RunPaused):
            self._paused_since = event.ts
            state.boundary.pause(event.why, event.text, event.batch, event.calls)
            state.status.set(batch=event.batch)
            self.hold("paused")
            return
        if state.status.now.run.halt == "paused":
            state.status.add_wait(event.ts - self._paused_since)
        state.boundary.resumed()
        self.hold("")

    def hold(self, halt: Halt) -> None:
        """Set what holds the run; a run that is being stopped stays that way until it ends."""
        if self.state.status.now.run.halt != "stopping":
            self.state.status.set(halt=halt)
