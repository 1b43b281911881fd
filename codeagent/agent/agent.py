"""Agent: one conversation, to be run, steered, interrupted and stopped."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from codeagent import __version__
from codeagent.agent.approvals import Approvals
from codeagent.agent.channel import EventChannel
from codeagent.agent.emitter import Emitter
from codeagent.agent.executor import Executor, Surroundings
from codeagent.agent.loop import Conversation, Loop
from codeagent.agent.steering import Queued, Steering
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import CodeagentError, RunCancelled
from codeagent.core.events import KnownEvent, MessageAdded, Notice, RunFinished, RunReason, RunStarted
from codeagent.core.journal import Journal
from codeagent.core.messages import Message, UserMessage
from codeagent.core.policy import Decision


@dataclass(frozen=True)
class Past:
    """What an earlier process left in the session's log; empty for a new session."""

    history: tuple[Message, ...] = ()
    """A valid transcript: every call in it has its result."""
    queued: tuple[Queued, ...] = ()
    """Typed and never delivered."""


class Agent:
    """One conversation over one journal (the AgentHandle of `core.runtime`)."""

    def __init__(
        self, conversation: Conversation, surroundings: Surroundings, journal: Journal, past: Past | None = None
    ) -> None:
        past = past or Past()
        self._conversation = conversation
        self._surroundings = surroundings
        self._journal = journal
        self._emitter = Emitter(journal)
        self._steering = Steering(self._emitter, past.queued)
        self._approvals = Approvals(self._emitter)
        self._executor = Executor(surroundings, self._emitter, self._approvals)
        self._history = list(past.history)
        self._token = CancelToken()
        self._run_token: CancelToken | None = None

    @property
    def session_id(self) -> str:
        return self._journal.session_id

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(self._history)

    async def run(self, prompt: str) -> AsyncIterator[KnownEvent]:
        """One prompt to its end; the last event is `run.finished`.

        A reader that stops early aborts the run. Raises CodeagentError where one is running.
        """
        if self._run_token is not None:
            raise CodeagentError("this agent is already running; steer it, or wait for the end")
        channel = EventChannel()
        self._emitter.connect(channel)
        token = self._run_token = self._token.child()
        task = asyncio.create_task(self._run(prompt, token))
        task.add_done_callback(lambda _: channel.close())
        try:
            async for event in channel:
                yield event
        finally:
            token.cancel("interrupted")
            await task
            token.close()
            self._run_token = None
            self._emitter.connect(None)

    def steer(self, text: str) -> str:
        return self._steering.add("steer", text)

    def interrupt(self, text: str) -> str:
        return self._steering.add("interrupt", text)

    def follow_up(self, text: str) -> str:
        return self._steering.add("follow_up", text)

    def take_back(self, queued_id: str) -> str | None:
        return self._steering.take_back(queued_id)

    def abort(self, reason: str = "interrupted") -> None:
        if self._run_token is not None:
            self._run_token.cancel(reason)

    def cancel_call(self, call_id: str) -> None:
        self._executor.cancel(call_id, "cancelled")

    def respond(self, approval_id: str, decision: Decision) -> bool:
        return self._approvals.respond(approval_id, decision)

    def observe(self, observer: Callable[[KnownEvent], None]) -> None:
        self._emitter.observe(observer)

    def notify(self, code: str, text: str) -> None:
        """Log and show a warning that belongs to the session, such as a missing sandbox."""
        self._emitter.emit(Notice(**self._emitter.head(), level="warning", code=code, text=text))

    async def close(self) -> None:
        self._token.cancel("interrupted")
        await self._conversation.model.close()
        self._journal.close()

    async def _run(self, prompt: str, token: CancelToken) -> None:
        started = time.monotonic()
        loop = Loop(self._conversation, self._history, self._executor, self._emitter, self._steering)
        reason: RunReason = "failed"
        error: str | None = None
        try:
            self._begin(prompt)
            reason = await loop.run(token)
        except (RunCancelled, asyncio.CancelledError):
            reason = "interrupted"
            self._steering.take_back_all()
        except CodeagentError as failure:
            error = str(failure)
        except Exception as failure:
            error = f"internal error: {type(failure).__name__}: {failure}"
        self._emitter.emit(
            RunFinished(
                **self._emitter.head(),
                reason=reason,
                text=loop.text,
                usage=loop.meter.usage,
                error=error,
                turns=loop.meter.turns,
                calls=loop.meter.calls,
                duration_ms=round((time.monotonic() - started) * 1000),
            )
        )
        await self._finish_log()

    def _begin(self, prompt: str) -> None:
        self._emitter.emit(
            RunStarted(
                **self._emitter.head(),
                model=self._conversation.model.name,
                workspace=str(self._surroundings.workspace.root),
                mode=self._surroundings.policy.mode,
                strategy=str(self._conversation.strategy),
                codeagent=__version__,
                resumed=bool(self._history),
            )
        )
        message = UserMessage.from_text(prompt)
        self._history.append(message)
        self._emitter.emit(MessageAdded(**self._emitter.head(), message=message))

    async def _finish_log(self) -> None:
        try:
            await self._emitter.sync()
        except CodeagentError as failure:
            self.notify("session.write", str(failure))
