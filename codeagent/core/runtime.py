"""What a front end is handed: an agent to talk to and the sessions there are."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from codeagent.core.events import KnownEvent
from codeagent.core.policy import Decision
from codeagent.core.ports import Sandbox, Workspace


class AgentHandle(Protocol):
    """One conversation. Every method but `run` and `close` returns at once."""

    @property
    def session_id(self) -> str: ...

    def run(self, prompt: str) -> AsyncIterator[KnownEvent]:
        """One prompt to its end; the last event is `run.finished`."""

    def steer(self, text: str) -> str:
        """Queue text for the boundary after the running batch; returns its id."""

    def interrupt(self, text: str) -> str:
        """Skip what has not started by the strategy's next boundary, then deliver the text."""

    def follow_up(self, text: str) -> str:
        """Queue text for when the agent would stop."""

    def take_back(self, queued_id: str) -> str | None:
        """Remove a queued text; None where it was delivered already."""

    def abort(self, reason: str = "interrupted") -> None:
        """Cancel the run now; no prepared call starts afterwards."""

    def cancel_call(self, call_id: str) -> None:
        """Cancel one running call; its siblings go on."""

    def respond(self, approval_id: str, decision: Decision) -> bool:
        """Answer an approval; False where it is no longer waiting."""

    def observe(self, observer: Callable[[KnownEvent], None]) -> None:
        """Call `observer` with every event as it is emitted, before anything else happens."""

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Runtime:
    agent: AgentHandle
    workspace: Workspace
    sandbox: Sandbox | None
    close: Callable[[], Awaitable[None]]
    """Ends the agent, the model's connections and the sandbox; idempotent."""
