"""Runs another program's calls as a conversation: a call is a model's answer, and so takes the
usual path.

program ─▶ CallQueue.start ─▶ CallingModel.stream ─▶ the agent's loop: policy, hooks, limits, log ─▶
PendingCall.next
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, assert_never

from codeagent.commands.arguments import say
from codeagent.core.acts import Answer, CancelCall, RunGroup, RunRecipe, Stop
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError
from codeagent.core.events import (
    KnownEvent,
    MessageAdded,
    RunFinished,
    ToolProgress,
    ToolResultAdded,
    ToolStarted,
    ToolUpdated,
)
from codeagent.core.json_types import MAIN
from codeagent.core.messages import AssistantMessage, ContentPart, TextPart, ToolCall, Usage
from codeagent.core.model import ModelAnswer, ModelEvent, ModelInUse, ModelRequest
from codeagent.core.notices import RunNotBegun
from codeagent.core.policy import Decision
from codeagent.core.runtime import AgentHandle, Session
from codeagent.core.sanitize import one_line

_END_SECONDS = 5.0
"""Seconds for a run to end by itself once all its calls were answered."""
_WIDTH = 200
"""The most characters of a line of progress."""


@dataclass(frozen=True)
class Progress:
    """A line of progress of a running call; the next one replaces it if nobody has read it yet."""

    text: str


@dataclass(frozen=True)
class CallOutcome:
    """The end of a call."""

    content: tuple[ContentPart, ...]
    is_error: bool


Step = Progress | ApprovalRequested | CallOutcome


class PendingCall:
    """A call in progress: `next` returns its progress and questions and, at last, its outcome."""

    def __init__(self, answer: Callable[[str, Decision], None], cancel: Callable[[], None]) -> None:
        self._steps: deque[Step] = deque()
        self._more = asyncio.Event()
        self._answer = answer
        self._cancel = cancel
        self._ended = False

    async def next(self) -> Step:
        while not self._steps:
            self._more.clear()
            await self._more.wait()
        return self._steps.popleft()

    def put(self, step: Step) -> None:
        if self._ended:
            return
        self._ended = isinstance(step, CallOutcome)
        if self._steps and isinstance(self._steps[-1], Progress):
            self._steps.pop()
        self._steps.append(step)
        self._more.set()

    def answer(self, question: ApprovalRequested, decision: Decision) -> None:
        self._answer(question.approval_id, decision)

    def cancel(self) -> None:
        """End the call, or do not begin it: nobody waits for it any longer."""
        if not self._ended:
            self._cancel()


class CallingModel:
    """A model that requests what another program calls; all waiting calls become one answer."""

    def __init__(self) -> None:
        self.waiting: list[ToolCall] = []

    @property
    def name(self) -> str:
        return "mcp"

    @property
    def context_window(self) -> int | None:
        return None

    async def open(
        self, name: str, api_base: str | None, effort: object
    ) -> tuple["CallingModel", ModelInUse]:
        """Return this model; the `core.model.ModelOpener` of the conversation."""
        return self, ModelInUse(self.name)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        calls = tuple(self.waiting)
        self.waiting.clear()
        if calls:
            message = AssistantMessage(calls=calls, stop="tool_calls", model=self.name)
        else:
            message = AssistantMessage(text="Every call was answered.", model=self.name)
        yield ModelAnswer(message, Usage())

    async def close(self) -> None:
        return None


class CallQueue:
    """Runs another program's calls in one conversation; calls that arrive while others run wait for
    these to end."""

    def __init__(self, agent: AgentHandle, model: CallingModel) -> None:
        self._agent = agent
        self._model = model
        self._calls: dict[str, PendingCall] = {}
        self._withdrawn: set[str] = set()
        self._count = 0
        self._work: asyncio.Task[None] | None = None

    def start(self, program: str, name: str, arguments: Mapping[str, Any]) -> PendingCall:
        """Begin a call; `program` is the caller's name."""
        self._count += 1
        call = ToolCall(id=f"call-{self._count}", name=name, arguments=json.dumps(dict(arguments)))
        pending = PendingCall(self._answer, lambda: self._withdraw(call))
        self._calls[call.id] = pending
        self._model.waiting.append(call)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._run(f"{program} calls tools over MCP."))
        return pending

    async def close(self) -> None:
        """End the calls in progress; a run whose calls were all answered may end by itself."""
        if self._work is None:
            return
        await asyncio.wait({self._work}, timeout=0 if self._calls else _END_SECONDS)
        if not self._work.done():
            self._agent.do(Stop("the connection was closed"))
            await asyncio.wait({self._work})

    async def _run(self, prompt: str) -> None:
        """Run until no calls wait. Then every call has its outcome, whatever ended the runs."""
        try:
            while self._model.waiting:
                await self._run_once(prompt)
        finally:
            self._model.waiting.clear()
            self._end_all("the call was not made")

    async def _run_once(self, prompt: str) -> None:
        first, why = self._model.waiting[0], "the call was not made"
        try:
            async for event in self._agent.run(prompt):
                why = self._take(event) or why
        except CodeagentError as error:
            why = str(error)
        if first in self._model.waiting:
            self._model.waiting.clear()  # a run cannot begin, and waiting longer would not help
        self._end_all(why)

    def _end_all(self, why: str) -> None:
        """Give an outcome to every call that a run has taken but left without a result."""
        left = {call.id for call in self._model.waiting}
        for call_id in [call_id for call_id in self._calls if call_id not in left]:
            self._end(call_id, failure(why))

    def _take(self, event: KnownEvent) -> str | None:
        """Pass an event to the call that it is about; return why the run ended early, if it did."""
        if event.agent != MAIN and not isinstance(event, ApprovalRequested):
            return None
        match event:
            case ToolStarted() if event.call_id in self._withdrawn:
                self._agent.do(CancelCall(event.call_id))
            case ApprovalRequested():
                if event.call_id in self._withdrawn or event.call_id not in self._calls:
                    self._answer(
                        event.approval_id, Decision("deny", "the call was cancelled", source="auto")
                    )
                else:
                    self._calls[event.call_id].put(event)
            case ToolUpdated() | ToolProgress() if event.call_id in self._calls:
                self._calls[event.call_id].put(Progress(_last_line(event.text)))
            case ToolResultAdded():
                self._end(event.call_id, CallOutcome(event.content, event.is_error))
            case RunFinished() if event.reason not in ("done", "denied"):
                return event.error or f"the run ended before the call was made ({event.reason})"
            case RunNotBegun():
                return event.text
            case _:
                pass
        return None

    def _end(self, call_id: str, outcome: CallOutcome) -> None:
        self._withdrawn.discard(call_id)
        if (pending := self._calls.pop(call_id, None)) is not None:
            pending.put(outcome)

    def _answer(self, approval_id: str, decision: Decision) -> None:
        self._agent.do(Answer(approval_id, decision))

    def _withdraw(self, call: ToolCall) -> None:
        if call in self._model.waiting:
            self._model.waiting.remove(call)
            self._end(call.id, failure("cancelled"))
            return
        self._withdrawn.add(call.id)
        self._agent.do(
            CancelCall(call.id)
        )  # if it has not started yet, it is cancelled once it does


def failure(text: str) -> CallOutcome:
    return CallOutcome((TextPart(text=text),), is_error=True)


class AgentReader:
    """Reads the work of an agent on another program's prompt, for the call that started it; its
    outcome is the model's last message."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self.pending = PendingCall(self._answer, cancel)
        self._session: Session | None = None

    def say(self, text: str) -> None:
        say(text)

    def show_outside(self, event: KnownEvent) -> None:
        """Show nothing: only the run is reported."""

    async def run(self, session: Session, prompt: str | RunRecipe | RunGroup) -> None:
        require_sandbox(session)
        self._session = session
        async for event in session.agent.run(prompt):
            self._take(event)

    def _answer(self, approval_id: str, decision: Decision) -> None:
        if self._session is not None:
            self._session.do(Answer(approval_id, decision))

    def _take(self, event: KnownEvent) -> None:
        match event:
            case ApprovalRequested():
                self.pending.put(event)
            case ToolStarted():
                self.pending.put(Progress(one_line(f"{event.name} {event.target}", _WIDTH)))
            case MessageAdded(message=AssistantMessage(text=text), agent=agent) if (
                text.strip() and agent == MAIN
            ):
                self.pending.put(Progress(_last_line(text)))
            case RunNotBegun():
                self.pending.put(failure(event.text))
            case RunFinished() if event.agent == MAIN:
                self.pending.put(_end_of(event))
            case _:
                pass


def require_sandbox(session: Session) -> None:
    """Raise CodeagentError if the session has no place to run commands in."""
    if session.sandbox is None:
        raise CodeagentError(
            "nothing is offered: it needs a sandbox, or --sandbox off; see codeagent doctor"
        )


def _end_of(event: RunFinished) -> CallOutcome:
    match event.reason:
        case "done":
            return CallOutcome(
                (TextPart(text=event.text or "The agent said nothing."),), is_error=False
            )
        case "failed" | "limit" | "denied" | "interrupted":
            said = f"\n\n{event.text}" if event.text else ""
            return failure(f"the run ended early: {event.error or event.reason}{said}")
        case _:
            assert_never(event.reason)


def _last_line(text: str) -> str:
    return one_line(text.rstrip().rpartition("\n")[2], _WIDTH)
