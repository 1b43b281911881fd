"""Agent: one conversation, to be run, steered, paused, interrupted and stopped."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

from codeagent.agent.approvals import Approvals
from codeagent.agent.channel import EventChannel
from codeagent.agent.emitter import Emitter
from codeagent.agent.executor import Executor, Surroundings
from codeagent.agent.floor import Floor
from codeagent.agent.gate import Gate
from codeagent.agent.loop import Conversation
from codeagent.agent.questions import Questions
from codeagent.agent.run import Parts, Run
from codeagent.agent.shell import Shell
from codeagent.agent.steering import Steering
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import CodeagentError
from codeagent.core.events import KnownEvent, Notice
from codeagent.core.journal import Journal
from codeagent.core.messages import Message, UserMessage
from codeagent.core.model import Model
from codeagent.core.policy import Decision, Mode
from codeagent.core.runtime import Queued


@dataclass(frozen=True)
class Past:
    """What an earlier process left in the session's log; empty for a new session."""

    history: tuple[Message, ...] = ()
    """A valid transcript: every call in it has its result."""
    queued: tuple[Queued, ...] = ()
    """Typed and never delivered."""
    notes: tuple[UserMessage, ...] = ()
    """Of shared commands, never delivered."""


class Agent:
    """One conversation over one journal (the AgentHandle of `core.runtime`)."""

    def __init__(
        self,
        conversation: Conversation,
        surroundings: Surroundings,
        journal: Journal,
        past: Past | None = None,
        questions: Questions | None = None,
    ) -> None:
        """`questions` are those of the tools that ask the person; they are asked here from now on."""
        past = past or Past()
        around = surroundings
        self._conversation = conversation
        self._journal = journal
        self._emitter = emitter = Emitter(journal)
        self._steering = Steering(emitter, past.queued, past.notes)
        self._approvals = Approvals(emitter)
        if questions is not None:
            questions.connect(self._approvals)
        self._gate, floor = Gate(emitter), Floor()
        self._executor = Executor(around, emitter, self._approvals, floor)
        sandbox = (around.sandbox, around.sandbox_kind) if around.sandbox and around.sandbox_kind else None
        self._shell = Shell(sandbox, around.outputs, emitter, floor, self._steering.add_note)
        self._parts = Parts(
            around.workspace.root, list(past.history), self._executor, emitter, self._steering, self._gate
        )
        self._token = CancelToken()
        self._current: Run | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def session_id(self) -> str:
        return self._journal.session_id

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(self._parts.history)

    @property
    def running(self) -> bool:
        """From `start` until `run.finished` is emitted."""
        return self._current is not None

    @property
    def queued(self) -> tuple[Queued, ...]:
        return self._steering.waiting

    async def run(self, prompt: str) -> AsyncIterator[KnownEvent]:
        """One prompt to its end; the last event is `run.finished`.

        A reader that stops early aborts the run. Raises CodeagentError where one is running.
        """
        self._refuse_second()
        channel = self._emitter.connect(early=False)
        try:
            run, task = self._begin(prompt)
        except BaseException:
            self._emitter.disconnect(channel)
            raise
        task.add_done_callback(lambda _: self._emitter.disconnect(channel))
        try:
            async for event in channel:
                yield event
        finally:
            run.token.cancel("interrupted")
            await asyncio.wait({task})

    def start(self, prompt: str | None) -> None:
        self._refuse_second()
        if prompt is None and not self.queued:
            raise CodeagentError("nothing is queued, so there is nothing to begin with")
        self._begin(prompt)

    def events(self) -> AsyncIterator[KnownEvent]:
        """Every event from now until the agent is closed; the first reader also gets those before it."""
        return self._read(self._emitter.connect(early=True))

    def pause(self) -> None:
        """Does nothing while no run is going on; a pause that was not reached ends with its run."""
        if self.running:
            self._gate.pause()

    def go_on(self) -> None:
        self._gate.go_on()

    def set_mode(self, mode: Mode) -> None:
        if mode == self._executor.mode:
            return
        self._executor.set_mode(mode)
        self._emitter.notice("mode.changed", f"the mode is {mode} from now on", mode=mode)

    async def shell(self, command: str, *, shared: bool) -> None:
        if self._token.cancelled:
            raise CodeagentError("this conversation is closed")
        await self._shell.run(command, shared=shared)

    def steer(self, text: str) -> str:
        return self._steering.add("steer", text)

    def interrupt(self, text: str) -> str:
        return self._steering.add("interrupt", text)

    def follow_up(self, text: str) -> str:
        return self._steering.add("follow_up", text)

    def take_back(self, queued_id: str) -> str | None:
        return self._steering.take_back(queued_id)

    def abort(self, reason: str = "interrupted") -> None:
        """Stops the person's own commands as well."""
        if self._current is not None:
            self._current.token.cancel(reason)
        self._shell.cancel_all(reason)

    def cancel_call(self, call_id: str) -> None:
        self._executor.cancel(call_id, "cancelled")
        self._shell.cancel(call_id, "cancelled")

    def respond(self, approval_id: str, decision: Decision) -> bool:
        return self._approvals.respond(approval_id, decision)

    def observe(self, observer: Callable[[KnownEvent], None]) -> None:
        self._emitter.observe(observer)

    def notify(self, code: str, text: str) -> None:
        """Log and show a warning that belongs to the session, such as a missing sandbox."""
        self._emitter.emit(Notice(**self._emitter.head(), level="warning", code=code, text=text))

    def use_model(self, model: Model, api_base: str | None) -> Model:
        """Go on with this model; returns the one before, to be closed. Raises CodeagentError during a run."""
        if self.running:
            raise CodeagentError("the model is changed between runs: wait for the end of this one, or stop it")
        before = self._conversation.model
        self._conversation = replace(self._conversation, model=model)
        self._emitter.notice("model.changed", f"the model is {model.name}", model=model.name, api_base=api_base)
        return before

    async def close(self) -> None:
        """End the run and the person's commands, then the model's connections and the log; idempotent."""
        self._token.cancel("interrupted")
        await self._shell.close()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        await self._conversation.model.close()
        self._emitter.disconnect_all()
        self._journal.close()

    def _refuse_second(self) -> None:
        if self._token.cancelled:
            raise CodeagentError("this conversation is closed")
        if self._current is not None:
            raise CodeagentError("this agent is already running; steer it, or wait for the end")

    def _begin(self, prompt: str | None) -> "tuple[Run, asyncio.Task[None]]":
        run = self._current = Run(self._conversation, self._parts, self._token.child())
        try:
            run.begin(prompt)
        except BaseException:
            self._current = None
            raise
        task = asyncio.create_task(self._work(run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run, task

    async def _work(self, run: Run) -> None:
        finished = await run.work()
        run.token.close()
        self._gate.go_on()
        self._current = None
        self._emitter.emit(finished)
        try:
            await self._emitter.sync()
        except CodeagentError as failure:
            self.notify("session.write", str(failure))

    async def _read(self, channel: EventChannel) -> AsyncIterator[KnownEvent]:
        try:
            async for event in channel:
                yield event
        finally:
            self._emitter.disconnect(channel)
