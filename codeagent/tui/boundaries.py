"""What the card of the boundary shows, gathered from events: a pause with its batch, or a plan that is ready."""

from dataclasses import replace
from typing import Literal

from codeagent.core.events import (
    BatchPlanned,
    KnownEvent,
    Notice,
    RunFinished,
    RunStarted,
    ToolCallAdded,
    ToolResultAdded,
    UnknownEvent,
)
from codeagent.tui.stage import Boundary, Paused, PausedCall, PlanReady

_WHYS: dict[str, Literal["asked", "step", "budget", "limit"]] = {
    "asked": "asked",
    "step": "step",
    "budget": "budget",
    "limit": "limit",
}


class Boundaries:
    """Keeps a Boundary as the events say."""

    def __init__(self, boundary: Boundary) -> None:
        self._boundary = boundary
        self._arguments: dict[str, str] = {}
        self._planned: tuple[PausedCall, ...] = ()
        self._mode = "ask"

    def show(self, event: KnownEvent | UnknownEvent) -> None:
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
            case Notice():
                self._notice(event)
            case RunFinished():
                self._finish(event)
            case _:
                pass  # nothing that a pause shows

    def _notice(self, event: Notice) -> None:
        match event.code:
            case "run.paused":
                batch, asked = event.data.get("batch"), event.data.get("calls")
                why = _WHYS.get(str(event.data.get("why")), "asked")
                ids = asked if isinstance(asked, list) else []
                calls = tuple(call for call in self._planned if call.call_id in ids)
                self._boundary.set(Paused(why, event.text, batch if isinstance(batch, int) else 0, calls))
            case "run.resumed":
                self._forget()
            case "call.edited":
                self._edit(event)
            case "mode.changed":
                self._mode = str(event.data.get("mode", self._mode))
                if self._mode != "plan" and isinstance(self._boundary.now, PlanReady):
                    self._boundary.set(None)
            case _:
                pass  # nothing that a pause shows

    def _edit(self, event: Notice) -> None:
        data = event.data
        permission = data.get("permission")
        changes = {
            "target": str(data.get("target", "")),
            "arguments": str(data.get("arguments", "")),
            "state": "edited",
        }
        if permission in ("auto", "prompt", "deny"):
            changes["permission"] = permission
        self._replace(str(data.get("call_id", "")), **changes)

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
