"""Agent: one conversation, to be run, steered, paused, interrupted and stopped."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import field, replace
from functools import partial
from typing import assert_never

from codeagent.agent.approvals import Approvals, UserQuestions
from codeagent.agent.batches import PauseGate
from codeagent.agent.checkpoints import Checkpointing, SessionRewind
from codeagent.agent.compaction.work import Compaction
from codeagent.agent.emitter import Emitter, Journal
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.executor import Executor
from codeagent.agent.hooks.hook import HookSession
from codeagent.agent.inspection import Inspection
from codeagent.agent.jobs.store import Jobs
from codeagent.agent.loop import Conversation, RunContext
from codeagent.agent.programs import SandboxPrograms
from codeagent.agent.queue import MessageQueue
from codeagent.agent.run import Runs, SessionModel
from codeagent.agent.shell import Shell
from codeagent.core import acts
from codeagent.core.acts import Act, Queued, Refused
from codeagent.core.budget import Budget
from codeagent.core.checkpoints import Checkpoints, Rewind
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError
from codeagent.core.events import KnownEvent
from codeagent.core.groups import RunGroup
from codeagent.core.jobs import JobBook
from codeagent.core.mcp import change_servers
from codeagent.core.messages import Message
from codeagent.core.model import ModelInUse, ModelOpener
from codeagent.core.notices import ActFailed
from codeagent.core.policy import Rule
from codeagent.core.toolbox import Toolbox
from codeagent.extensions.agents.children import Children, Origin, Parent, Shared
from codeagent.extensions.triggers.triggers import Triggers
from codeagent.session.fold import History

Outcome = Refused | asyncio.Task[Refused | None] | None
"""What became of an act: refused, done, or begun as a task that reports at its end whether it could
be done."""
_READ = "the agent has already read it"
_NOT_MOVED = "it cannot be moved, or has just ended: nothing was moved to the background"


@dataclass(frozen=True)
class AgentServices:
    """What tools ask of their agent: made with the tools, and connected once the agent is made."""

    questions: UserQuestions = field(default_factory=UserQuestions)
    jobs: Jobs = field(default_factory=Jobs)
    children: Children = field(default_factory=Children)
    """The agents that its calls start."""
    triggers: Triggers = field(default_factory=Triggers)
    programs: SandboxPrograms = field(default_factory=SandboxPrograms)
    """Those of the conversation's servers."""


class Agent:
    """One conversation over one journal (the AgentHandle of `core.runtime`).

    Without `checkpoints` nothing can be undone, without `open_model` it keeps its model, and
    without `origin` it is the user's.
    """

    _closed = False
    _session: HookSession | None = None

    def __init__(
        self,
        conversation: Conversation,
        environment: ToolEnvironment,
        journal: Journal,
        history: History | None = None,
        services: AgentServices | None = None,
        *,
        checkpoints: Checkpoints | None = None,
        model: ModelInUse | None = None,
        open_model: ModelOpener | None = None,
        origin: Origin | None = None,
    ) -> None:
        """`services` are those that the tools were made with."""
        history = history or History()
        services = services or AgentServices()
        self._journal = journal
        self._hooks = environment.hooks
        self.servers = environment.servers
        self._environment = environment
        self._done_steps = history.steps
        self._shared = shared = (
            Shared.of_user(environment, journal)
            if origin is None
            else origin.shared(environment, journal)
        )
        self._emitter = emitter = shared.emitter
        self._permissions = shared.permissions
        self._spending = shared.spending
        delivery = environment.preferences.delivery
        self._queue = MessageQueue(
            emitter, shared.submitted, history.undelivered, history.notes, delivery
        )
        self._approvals = Approvals(
            emitter, self._permissions, environment.hooks, self._spending, shared.granted
        )
        stepping = origin is not None and origin.parent.stepping
        self._gate = PauseGate(emitter, self._spending, stepping=stepping)
        self._jobs = services.jobs
        self._triggers = services.triggers
        self._children = services.children
        given = emitter, self._permissions, self._approvals, self._queue, lambda: self.running
        self._inspection = shared.inspection or Inspection(checkpoints, environment, *given)
        self._programs = services.programs.connected(self._permissions, self._inspection)
        self._executor = self._make_executor()
        self._shell = Shell(environment, emitter, shared.lock, self._queue)
        self._checkpoints = Checkpointing(
            checkpoints,
            emitter,
            shared.lock,
            environment.sandbox,
            line=history.line,
            timeline=history.timeline,
        )
        self._context = self._make_context(history)
        self._runs = Runs(conversation, self._context, shared.submitted, shared.lock)
        self._connect(services, history)
        self._model = SessionModel(model, open_model, self._runs, emitter)
        self._begun: set[asyncio.Task[Refused | None]] = set()

    def _make_executor(self) -> Executor:
        return Executor(
            self._environment,
            self._emitter,
            self._approvals,
            self._shared.lock,
            jobs=self._jobs,
            inspection=self._inspection,
            slots=self._shared.slots,
        )

    def _make_context(self, history: History) -> RunContext:
        return RunContext(
            workspace=self._environment.workspace,
            line=history.line,
            call_ids=set(history.call_ids),
            permissions=self._permissions,
            executor=self._executor,
            emitter=self._emitter,
            queue=self._queue,
            gate=self._gate,
            spending=self._spending,
            checkpoints=self._checkpoints,
            inspection=self._inspection,
            jobs=self._jobs,
            triggers=self._triggers,
            compaction=Compaction(
                self._environment,
                self._emitter,
                self._spending,
                self._queue,
                permissions=self._permissions,
                history=history,
            ),
            above=self._shared.meter,
        )

    def _connect(self, services: AgentServices, history: History) -> None:
        """Connect what the tools were made with to this agent."""
        environment, runs = self._environment, self._runs
        services.questions.connect(self._approvals)
        self._children.connect(self._parent, environment.limits.max_concurrency)
        self._jobs.connect(
            self._emitter,
            environment.outputs,
            self._queue,
            environment.sandbox,
            past=history.jobs,
            wake=runs.rouse,
        )
        self._triggers.connect(
            self._emitter,
            self._queue,
            environment.workspace,
            past=history.triggers,
            wake=runs.rouse,
            busy=runs.busy,
        )
        todo = environment.state.todo
        todo.connect(self._emitter, history.todo)
        self._going_back = SessionRewind(
            self._checkpoints, self._emitter, self._queue, todo, lambda: self.running
        )

    def do(self, act: Act) -> Refused | None:
        """Carry out an act. What takes time is begun and shows as events; its failure is a notice
        `act.failed`."""
        outcome = self._outcome(act)
        if not isinstance(outcome, asyncio.Task):
            return outcome
        outcome.add_done_callback(partial(self._tell_failed, act))
        return None

    async def finish(self, act: Act) -> Refused | None:
        """Like `do`, but wait for what it begins; if that fails, the act is refused."""
        outcome = self._outcome(act)
        if not isinstance(outcome, asyncio.Task):
            return outcome
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            outcome.add_done_callback(partial(self._tell_failed, act))
            raise

    async def settled(self) -> None:
        """Wait until everything that acts began has ended; runs are not waited for."""
        while self._begun:
            await asyncio.wait(set(self._begun))

    async def run(
        self, prompt: str | acts.RunRecipe | RunGroup | None
    ) -> AsyncIterator[KnownEvent]:
        """Run a prompt to its end; the last event is `run.finished`, or the notice `run.not_begun`
        if a hook denied it.

        A recipe is one run per step, a group is a single run, and None begins with what is queued.
        A reader that stops early stops it. Raises CodeagentError if one is running.
        """
        channel = self._emitter.connect(early=False)
        try:
            task = self._start(prompt)
        except BaseException:
            self._emitter.disconnect(channel)
            raise
        task.add_done_callback(lambda _: self._emitter.disconnect(channel))
        try:
            async for event in channel:
                yield event
        finally:
            if not task.done():
                self._runs.stop("interrupted")
            await asyncio.wait({task})

    def events(self) -> AsyncIterator[KnownEvent]:
        """Yield every event from now until the agent is closed; the first reader also gets the
        earlier ones."""
        return self._emitter.read(self._emitter.connect(early=True))

    def observe(self, observer: Callable[[KnownEvent], None]) -> None:
        self._emitter.observe(observer)

    @property
    def emitter(self) -> Emitter:
        """Logs and shows what belongs to the session."""
        return self._emitter

    @property
    def session_id(self) -> str:
        return self._journal.session_id

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(self._context.line.items)

    @property
    def running(self) -> bool:
        return self._runs.going_on

    @property
    def queued(self) -> tuple[Queued, ...]:
        return self._queue.waiting

    @property
    def model(self) -> ModelInUse:
        return self._model.in_use

    @property
    def budget(self) -> Budget | None:
        return self._spending.budget

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self._permissions.rules

    @property
    def rewind(self) -> Rewind | None:
        return None if self._checkpoints.store is None else self._going_back

    @property
    def jobs(self) -> JobBook:
        return self._jobs

    @property
    def toolbox(self) -> Toolbox | None:
        builder = self._runs.conversation.prompt_builder
        return None if builder is None else builder.catalog.now

    async def begin_session(self, *, resumed: bool) -> None:
        """Tell the hooks that a session starts; they are told of its end when it is closed."""
        self._session = HookSession(self.session_id, str(self._context.workspace.root), resumed)
        await self._hooks.session_start(self._session)
        self._triggers.begin()

    def begin_checkpoints(self) -> None:
        """Take the first snapshot in the background; needs a running event loop."""
        self._checkpoints.begin(lambda: self._jobs.running > 0 or self._inspection.needed)

    async def close(self) -> None:
        """End the run, the jobs and the user's commands, then the model's connections and the log;
        idempotent.

        What acts have begun is finished first.
        """
        self._closed = True
        self._runs.close()
        self._jobs.stop_all()  # with everything else: a process that ignores a signal is waited for only once
        await self._shell.close()
        await self._runs.ended()
        await self._triggers.close()
        await self._jobs.close()
        await self._children.close()
        await self.settled()
        self._programs.close()
        if self._shared.inspection is None:
            await self._inspection.close()
        await self._checkpoints.end()
        session, self._session = self._session, None
        if session is not None:
            await self._hooks.session_end(session)
        await self._runs.conversation.model.close()
        self._emitter.disconnect_all()
        self._journal.close()

    def _outcome(self, act: Act) -> Outcome:
        if self._closed:
            return Refused("this conversation is closed")
        if isinstance(act, acts.Pause | acts.Step):
            self._children.do(act)
        try:
            return self._act(act)
        except CodeagentError as error:
            return Refused(str(error))

    def _act(self, act: Act) -> Outcome:
        """Raises CodeagentError if it cannot be done now."""
        match act:
            case acts.Prompt(text=work) | (acts.RunRecipe() as work):
                return _done(self._start(work))
            case acts.Steer(text) | acts.Interrupt(text) | acts.FollowUp(text):
                return _done(self._queue.add(act.kind, text))
            case acts.TakeBack(queued_id):
                return _done(self._queue.take_back(queued_id) is not None, _READ)
            case acts.Rewrite(queued_id, text):
                return _done(self._queue.rewrite(queued_id, text), _READ)
            case acts.Reorder(queued_id, position):
                return _done(self._queue.move(queued_id, position), _READ)
            case acts.Pause():
                return self._pause()
            case acts.Resume():
                return _done(self._gate.resume() | self._children.do(act), "nothing is paused")
            case acts.Step(on):
                self._gate.step(on)
            case acts.Stop(reason):
                return _done(
                    self._runs.stop(reason) | self._shell.cancel_all(reason), "nothing is running"
                )
            case acts.CancelCall():
                return _done(self._cancel_call(act), "that call is no longer running")
            case acts.SkipCall(call_id, why):
                return _done(
                    self._gate.skip(call_id, why),
                    "the run is no longer paused; nothing was changed",
                )
            case acts.EditCall(call_id, arguments):
                return _done(self._gate.edit(call_id, arguments), "this call is no longer pending")
            case acts.Background(call_id):
                return _done(self._executor.promote(call_id), _NOT_MOVED)
            case acts.Answer(approval_id, decision):
                answered = self._approvals.respond(approval_id, decision) or self._children.do(act)
                return _done(answered, "the question is no longer pending")
            case acts.SetMode() | acts.SetNetwork():
                return None if (left := self._permissions.set(act)) is None else self._begin(left)
            case acts.SetBudget(budget):
                self._spending.set(budget)
            case acts.SetModel() | acts.SetEffort():
                return self._begin(self._model.change(act))
            case acts.AllowRule(text, keep):
                return self._begin(self._permissions.add(self._permissions.parse(text, keep=keep)))
            case acts.RevokeRule(rule):
                return self._begin(self._permissions.revoke(rule))
            case acts.RunShell(command, shared):
                return self._begin(self._shell.start(command, shared=shared))
            case acts.StopJob() | acts.StopTrigger():
                return self._stop(act)
            case acts.SendToJob(job_id, text):
                return _done(
                    self._jobs.send(self._jobs.require(job_id), text),
                    f"{job_id} accepts no text; it was not sent",
                )
            case acts.Compact() | acts.AnswerSummary() | acts.Pin() | acts.Unpin():
                return self._runs.act_on_context(act)
            case acts.TrustTools() | acts.SetToolset():
                return self._change_tools(act)
            case (
                acts.TrustServers()
                | acts.GiveVariables()
                | acts.RestartServer()
                | acts.AgreeToServer()
            ):
                return self._begin(change_servers(self.servers, act))
            case acts.Restore() | acts.RestoreFile():
                return self._begin(self._going_back.restore(act))
            case _:
                assert_never(act)
        return None

    def _start(self, work: str | acts.RunRecipe | RunGroup | None) -> asyncio.Task[None]:
        """Raises CodeagentError if it cannot begin."""
        if isinstance(work, RunGroup):
            from codeagent.extensions.agents.groups import for_group  # most conversations run none

            return self._runs.start(
                work.task, for_group(work, self._children, self._runs.conversation)
            )
        if not isinstance(work, acts.RunRecipe):
            return self._runs.start(work)
        from codeagent.extensions.recipes.steps import RecipeProgress, StepScope  # as above

        scope = StepScope(self._context, self._environment, self._model.open_for_step)
        return self._runs.follow(RecipeProgress(work, self._done_steps), scope)

    def _pause(self) -> Refused | None:
        if not self.running:
            return Refused("nothing is running that could be paused")
        self._gate.pause()
        return None

    def _cancel_call(self, act: acts.CancelCall) -> bool:
        if act.agent != self._emitter.agent:
            return self._children.do(act)
        return self._executor.cancel(act.call_id, "cancelled") or self._shell.cancel(
            act.call_id, "cancelled"
        )

    def _parent(self, call_id: str, depth: int) -> Parent:
        """Return what a child started by this call knows of its parent."""
        shared = replace(self._shared, inspection=self._inspection, meter=self._runs.meter)
        here = self._executor.tools, self._approvals, self._environment, self._gate.stepping
        return Parent(shared, call_id, depth, replace(self.model, server=self._runs.server), *here)

    def _stop(self, act: acts.StopJob | acts.StopTrigger) -> Outcome:
        """Raises CodeagentError."""
        if isinstance(act, acts.StopJob):
            return self._begin(
                self._jobs.stop(self._jobs.require(act.job_id), "stopped by the user")
            )
        stopped = self._triggers.stop(act.trigger_id, "user")
        return _done(stopped is not None, f"{act.trigger_id} is no longer set; nothing was stopped")

    def _change_tools(self, act: acts.TrustTools | acts.SetToolset) -> Outcome:
        builder = self._runs.conversation.prompt_builder
        if isinstance(act, acts.SetToolset):
            if builder is None:
                return Refused("there are no toolsets here; nothing was changed")
            return self._begin(builder.choose(act, self._emitter, running=lambda: self.running))
        if builder is None:
            return Refused("no tools are read from files here; nothing was changed")
        return self._begin(
            builder.trust(act.trusted, self._emitter, running=self.running, seen=act.seen)
        )

    def _begin(self, work: Awaitable[object]) -> Outcome:
        task = asyncio.create_task(_outcome_of(work))
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return task

    def _tell_failed(self, act: Act, task: asyncio.Task[Refused | None]) -> None:
        if not task.cancelled() and (refused := task.result()) is not None:
            self._emitter.emit(ActFailed(text=refused.reason, act=type(act).__name__))


def _done(done: object, otherwise: str = "") -> Refused | None:
    return Refused(otherwise) if done is False else None


async def _outcome_of(work: Awaitable[object]) -> Refused | None:
    try:
        await work
    except CodeagentError as error:
        return Refused(str(error))
    except Exception as error:
        return Refused(f"internal error: {type(error).__name__}: {error}")
    return None
