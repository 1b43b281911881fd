"""Agent: one conversation, to be run, steered, paused, interrupted and stopped."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace

from codeagent.agent.approvals import Approvals, UserQuestions
from codeagent.agent.boundary import Boundary
from codeagent.agent.briefing import tell
from codeagent.agent.calls import ToolEnvironment
from codeagent.agent.channel import EventChannel
from codeagent.agent.checkpointing import Checkpointing
from codeagent.agent.emitter import Emitter
from codeagent.agent.executor import Executor
from codeagent.agent.floor import Floor
from codeagent.agent.gate import Gate
from codeagent.agent.going_back import GoingBack
from codeagent.agent.hooks.hook import HookSession
from codeagent.agent.inspection import Contact, Inspection
from codeagent.agent.jobs.store import Jobs
from codeagent.agent.limits import BudgetMeter
from codeagent.agent.loop import Conversation
from codeagent.agent.parts import Parts
from codeagent.agent.permissions import Permissions
from codeagent.agent.run import Run
from codeagent.agent.shell import Shell
from codeagent.agent.steering import Steering
from codeagent.agent.submission import Submission
from codeagent.agent.tool_keeping import ToolKeeping
from codeagent.core.budget import Budget
from codeagent.core.cancel import CancelToken
from codeagent.core.checkpoints import Checkpoints
from codeagent.core.errors import CodeagentError, RunCancelled
from codeagent.core.events import KnownEvent, Notice
from codeagent.core.job import EndedJob
from codeagent.core.jobs import JobBook
from codeagent.core.journal import Journal
from codeagent.core.line import Line
from codeagent.core.messages import Message, UserMessage
from codeagent.core.model import Model
from codeagent.core.moments import Moments
from codeagent.core.notices import ModelChanged, SessionNotSaved
from codeagent.core.policy import Decision, Mode, Rule
from codeagent.core.queued import Queued
from codeagent.core.rewind import Rewind
from codeagent.core.toolbox import ToolKeeper
from codeagent.tools.catalog import CatalogChange


@dataclass(frozen=True)
class Past:
    """What an earlier process left in the session's log; empty for a new session."""

    line: Line[Message] = field(default_factory=Line)
    """A valid transcript: every call in it has its result."""
    call_ids: frozenset[str] = frozenset()
    """Of every call there ever was, also of those that were taken back."""
    moments: Moments = field(default_factory=Moments)
    queued: tuple[Queued, ...] = ()
    """Typed and never delivered."""
    notes: tuple[UserMessage, ...] = ()
    """Of shared commands and ends of jobs, never delivered."""
    jobs: tuple[EndedJob, ...] = ()
    """All there ever were."""


class Agent:
    """One conversation over one journal (the AgentHandle of `core.runtime`)."""

    def __init__(
        self,
        conversation: Conversation,
        surroundings: ToolEnvironment,
        journal: Journal,
        past: Past | None = None,
        questions: UserQuestions | None = None,
        checkpoints: Checkpoints | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        """`questions` are those of the tools that ask the person; they are asked here from now on.

        `checkpoints` None: nothing can be taken back. `jobs` are those of the tools that ask about jobs.
        """
        past = past or Past()
        around = surroundings
        self._conversation = conversation
        self._journal = journal
        self._emitter = emitter = Emitter(journal)
        self._hooks = around.hooks
        self._session: HookSession | None = None
        submission = Submission(around.hooks, emitter)
        self._steering = Steering(emitter, submission, past.queued, past.notes)
        self._approvals = Approvals(emitter)
        if questions is not None:
            questions.connect(self._approvals)
        self._gate, floor = Gate(emitter), Floor()
        self._spending = BudgetMeter(emitter)
        self._boundary = Boundary(self._gate, self._spending)
        self._permissions = Permissions(around.policy, emitter, around.book, around.objection)
        self._floor, self._jobs = floor, jobs or Jobs()
        self._jobs.connect(emitter, around.outputs, self._steering, around.sandbox, past.jobs, self._rouse)
        contact = Contact(emitter, self._permissions, self._approvals, self._steering, around.attended)
        self._inspection = Inspection(checkpoints, around.sandbox, around.workspace, contact, lambda: self.running)
        self._executor = Executor(
            around, emitter, self._approvals, self._permissions, floor, self._jobs, self._inspection
        )
        sandbox = (around.sandbox, around.sandbox_kind) if around.sandbox and around.sandbox_kind else None
        self._shell = Shell(sandbox, around.outputs, emitter, floor, self._steering.add_note)
        self._checkpoints = Checkpointing(checkpoints, emitter, floor, around.sandbox, past.line, past.moments)
        self._parts = Parts(
            root=around.workspace.root,
            line=past.line,
            call_ids=set(past.call_ids),
            permissions=self._permissions,
            executor=self._executor,
            emitter=emitter,
            steering=self._steering,
            submission=submission,
            boundary=self._boundary,
            spending=self._spending,
            checkpoints=self._checkpoints,
            inspection=self._inspection,
            jobs=self._jobs,
        )
        self._token = CancelToken()
        self._current: Run | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._rousing: asyncio.Task[None] | None = None

    @property
    def session_id(self) -> str:
        return self._journal.session_id

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(self._parts.line.items)

    @property
    def running(self) -> bool:
        """From `start` until `run.finished` is emitted, or a hook denied what it was to begin with."""
        return self._current is not None

    @property
    def queued(self) -> tuple[Queued, ...]:
        return self._steering.waiting

    async def run(self, prompt: str) -> AsyncIterator[KnownEvent]:
        """One prompt to its end; the last event is `run.finished`, or a notice `run.not_begun` where a hook denied it.

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

    @property
    def stepping(self) -> bool:
        return self._gate.stepping

    def step(self, on: bool) -> None:
        self._gate.step(on)

    def skip(self, call_id: str, reason: str = "") -> bool:
        return self._boundary.skip(call_id, reason)

    def amend(self, call_id: str, arguments: str) -> bool:
        return self._boundary.amend(call_id, arguments)

    @property
    def budget(self) -> Budget | None:
        return self._spending.budget

    def set_budget(self, budget: Budget | None) -> None:
        self._spending.set(budget)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self._permissions.rules

    async def allow(self, rule: str, *, keep: bool) -> None:
        await self._permissions.add(self._permissions.parse(rule, keep=keep))

    async def revoke(self, rule: Rule) -> None:
        await self._permissions.revoke(rule)

    @property
    def rewind(self) -> Rewind | None:
        """None where no checkpoints are kept."""
        if self._checkpoints.store is None:
            return None
        return GoingBack(self._checkpoints, self._emitter, self._steering, lambda: self.running)

    async def begin_session(self, *, resumed: bool) -> None:
        """Tell the hooks that a session starts; they are told of its end when it is closed."""
        self._session = HookSession(self.session_id, str(self._parts.root), resumed)
        await self._hooks.session_start(self._session)

    def begin_checkpoints(self) -> None:
        """Make the first one in the background; an event loop is running."""
        self._checkpoints.begin()

    def set_mode(self, mode: Mode) -> None:
        self._permissions.set_mode(mode)

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

    def rewrite(self, queued_id: str, text: str) -> bool:
        return self._steering.rewrite(queued_id, text)

    def move(self, queued_id: str, position: int) -> bool:
        return self._steering.move(queued_id, position)

    def abort(self, reason: str = "interrupted") -> None:
        """Stops the person's own commands as well."""
        if self._current is not None:
            self._current.token.cancel(reason)
        self._shell.cancel_all(reason)

    def cancel_call(self, call_id: str) -> None:
        self._executor.cancel(call_id, "cancelled")
        self._shell.cancel(call_id, "cancelled")

    def promote(self, call_id: str | None = None) -> bool:
        return self._executor.promote(call_id)

    @property
    def jobs(self) -> JobBook:
        return self._jobs

    @property
    def toolbox(self) -> ToolKeeper | None:
        briefing = self._conversation.briefing
        return None if briefing is None else ToolKeeping(briefing, self._emitter, lambda: self.running)

    def respond(self, approval_id: str, decision: Decision) -> bool:
        return self._approvals.respond(approval_id, decision)

    def observe(self, observer: Callable[[KnownEvent], None]) -> None:
        self._emitter.observe(observer)

    def notify(self, code: str, text: str) -> None:
        """Log and show a warning that belongs to the session, such as a missing sandbox."""
        self._emitter.emit(Notice(level="warning", code=code, text=text))

    def tell_tools(self, found: CatalogChange | None) -> None:
        """Say what the first look at the tool files brought, where something of it has to be known."""
        if found is not None:
            tell(replace(found, added=(), removed=(), changed=()), self._emitter)

    def use_model(self, model: Model, api_base: str | None, said: str = "") -> Model:
        """Go on with this model; returns the one before, to be closed. Raises CodeagentError during a run.

        `said` is what is told of it where its name is not what changed.
        """
        if self.running:
            raise CodeagentError("the model is changed between runs: wait for the end of this one, or stop it")
        before = self._conversation.model
        self._conversation = replace(self._conversation, model=model)
        text = said or f"the model is {model.name}"
        self._emitter.emit(ModelChanged(text=text, model=model.name, api_base=api_base))
        return before

    async def close(self) -> None:
        """End the run, the jobs and the person's commands, then the model's connections and the log; idempotent."""
        self._token.cancel("interrupted")
        self._jobs.stop_all()  # at once with everything else: what ignores a signal is waited for, and only once
        await self._shell.close()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        await self._jobs.close()
        await self._inspection.close()
        await self._checkpoints.end()
        session, self._session = self._session, None
        if session is not None:
            await self._hooks.session_end(session)
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
        if not self._hooks.judges_prompts:
            self._enter(run, prompt)
        work = self._submit(run, prompt) if self._hooks.judges_prompts else self._work(run)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run, task

    def _enter(self, run: Run, prompt: str | None) -> None:
        try:
            run.begin(prompt)
        except BaseException:
            self._current = None
            raise

    async def _submit(self, run: Run, prompt: str | None) -> None:
        """Begin once the hooks have let it through; where they do not, no run begins and nothing is lost."""
        try:
            why = await run.submit(prompt)
        except (RunCancelled, asyncio.CancelledError):
            why = "stopped before the prompt was sent; it is kept"
            self._steering.take_back_all()
        if why is None:
            self._enter(run, prompt)
            await self._work(run)
            return
        self._leave(run)
        self._parts.submission.tell_not_begun(prompt, why)

    async def _work(self, run: Run) -> None:
        finished = await run.work()
        if finished.reason not in ("done", "denied"):
            self._steering.rest()
        self._leave(run)
        finished = self._emitter.emit(finished)
        try:
            await self._emitter.sync()
        except CodeagentError as failure:
            self._emitter.emit(SessionNotSaved(text=str(failure)))
        await self._hooks.run_finished(finished)
        self._rouse()

    def _rouse(self) -> None:
        """A job has ended: where a person is there and nothing is going on, one run begins for all that ended."""
        if self._conversation.attended and (self._rousing is None or self._rousing.done()):
            self._rousing = asyncio.create_task(self._wake_up())

    async def _wake_up(self) -> None:
        await self._floor.enter(alone=False)
        self._floor.leave(alone=False)
        idle = self._current is None and not self.queued and not self._token.cancelled
        if idle and self._steering.wakes:
            self._begin(None)

    def _leave(self, run: Run) -> None:
        run.token.close()
        self._gate.end()
        self._current = None

    async def _read(self, channel: EventChannel) -> AsyncIterator[KnownEvent]:
        try:
            async for event in channel:
                yield event
        finally:
            self._emitter.disconnect(channel)
