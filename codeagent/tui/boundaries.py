"""What the card of the boundary shows, gathered from events: a pause with its batch, or a plan that is ready."""

from dataclasses import replace

from codeagent.core.events import (
    BatchPlanned,
    KnownEvent,
    RunFinished,
    RunStarted,
    ToolCallAdded,
    ToolResultAdded,
    UnknownEvent,
)
from codeagent.core.notices import CallEdited, ModeChanged, RunPaused, RunResumed
from codeagent.core.policy import Mode
from codeagent.tui.state import Boundary, Paused, PausedCall, PlanReady


class Boundaries:
    """Keeps a Boundary as the events say."""

    def __init__(self, boundary: Boundary) -> None:
        self._boundary = boundary
        self._arguments: dict[str, str] = {}
        self._planned: tuple[PausedCall, ...] = ()
        self._mode: Mode = "ask"

    def apply(self, event: KnownEvent | UnknownEvent) -> None:
        match event:
            case RunStarted():
                self._mode = event.mode
                self._arguments.clear()
                self._forget()
            case ToolCallAdded():
                self._arguments[event.call_id] = event.arguments
            case BatchPlanned():
                self._planned = tuple(
                    PausedCall(
                        call.call_id,
                        call.name,
                        call.target,
                        call.permission,
                        call.reason,
                        self._arguments.get(call.call_id, ""),
                    )
                    for call in event.calls
                )
            case ToolResultAdded() if event.error is not None and event.error.kind == "skipped":
                self._replace(event.call_id, state="skipped")
            case RunPaused():
                calls = tuple(call for call in self._planned if call.call_id in event.calls)
                self._boundary.set(Paused(event.why, event.text, event.batch, calls))
            case RunResumed():
                self._forget()
            case CallEdited():
                self._edit(event)
            case ModeChanged():
                self._change_mode(event.mode)
            case RunFinished():
                self._finish(event)
            case _:
                pass  # nothing that a pause shows

    def _change_mode(self, mode: Mode) -> None:
        self._mode = mode
        if mode != "plan" and isinstance(self._boundary.now, PlanReady):
            self._boundary.set(None)

    def _edit(self, event: CallEdited) -> None:
        self._replace(
            event.call_id, target=event.target, arguments=event.arguments, permission=event.permission, state="edited"
        )

    def _finish(self, event: RunFinished) -> None:
        self._forget()
        if self._mode == "plan" and event.reason == "done" and event.text.strip():
            self._boundary.set(PlanReady(event.text))

    def _replace(self, call_id: str, **changes: str) -> None:
        self._planned = tuple(
            replace(call, **changes) if call.call_id == call_id else call  # type: ignore[arg-type]  # by name
            for call in self._planned
        )
        if isinstance(now := self._boundary.now, Paused):
            ids = {call.call_id for call in now.calls}
            self._boundary.set(replace(now, calls=tuple(call for call in self._planned if call.call_id in ids)))

    def _forget(self) -> None:
        self._boundary.set(None)
