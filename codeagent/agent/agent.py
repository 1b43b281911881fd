"""Agent: one conversation, to be run, steered, paused, interrupted and stopped."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING

from codeagent.agent.acting import Acting
from codeagent.agent.approvals import Approvals
from codeagent.agent.batches import PauseGate
from codeagent.agent.checkpoints import Checkpointing
from codeagent.agent.compaction.work import Compaction
from codeagent.agent.conversation import Conversation, RunContext
from codeagent.agent.emitter import Journal
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.executor import Executor
from codeagent.agent.hooks.hook import HookSession
from codeagent.agent.inspection import Inspection
from codeagent.agent.jobs.store import Jobs
from codeagent.agent.parts import AgentServices, Host, PartT, Shared
from codeagent.agent.queue import MessageQueue
from codeagent.agent.rewind import SessionRewind
from codeagent.agent.run import Runs
from codeagent.agent.session_model import SessionModel
from codeagent.core import acts
from codeagent.core.acts import Act, Queued, Refused, RunGroup
from codeagent.core.budget import Budget
from codeagent.core.checkpoints import Checkpoints, Rewind
from codeagent.core.errors import CodeagentError
from codeagent.core.events import KnownEvent
from codeagent.core.jobs import SessionJobs
from codeagent.core.messages import Message
from codeagent.core.model import ModelInUse, ModelOpener
from codeagent.core.policy import Rule
from codeagent.core.toolbox import Toolbox
from codeagent.session.fold import History

if TYPE_CHECKING:
    from codeagent.core.runtime import Mentioned, OfferedText, TextKind


class Agent:
    """One conversation over one journal (the AgentHandle of `core.runtime`).

    Without `checkpoints` nothing can be undone, without `open_model` it keeps its model, and
    without `shared`, which is that of the agent it works for, it is the user's.
    """

    _session: HookSession | None = None

    def __init__(
        self,
        conversation: Conversation,
        environment: ToolEnvironment,
        journal: Journal,
        history: History | None = None,
        *,
        services: AgentServices | None = None,
        checkpoints: Checkpoints | None = None,
        model: ModelInUse | None = None,
        open_model: ModelOpener | None = None,
        shared: Shared | None = None,
    ) -> None:
        """`services` are those that the tools were made with."""
        history = history or History()
        services = services or AgentServices()
        shared = shared or Shared.of_user(environment, journal)
        self._journal = journal
        self._environment = environment
        self._shared = shared
        self.emitter = shared.emitter
        """Logs and shows what belongs to the session."""
        self._parts = services.parts
        self._approvals = Approvals(
            shared.emitter, shared.permissions, environment.hooks, shared.spending, shared.granted
        )
        services.questions.connect(self._approvals)
        self._context = self._made_context(history, checkpoints, services.jobs)
        self._runs = Runs(conversation, self._context, shared.submitted, shared.lock)
        self._model = SessionModel(model, open_model, self._runs, shared.emitter)
        self._going_back = SessionRewind(
            self._context.checkpoints,
            shared.emitter,
            self._context.queue,
            environment.state.todo,
            lambda: self.running,
        )
        host = Host(
            context=self._context,
            environment=environment,
            history=history,
            approvals=self._approvals,
            runs=self._runs,
            model=self._model,
            shared=shared,
            parts=self._parts,
        )
        self._acting = Acting(host, self._going_back)
        services.jobs.connect(
            self.emitter,
            environment.outputs,
            self._context.queue,
            environment.sandbox,
            past=history.jobs,
            wake=self._runs.rouse,
        )
        services.parts.connect(host)
        environment.state.todo.connect(self.emitter, history.todo)

    def _made_context(self, history: History, store: Checkpoints | None, jobs: Jobs) -> RunContext:
        """Make what the runs share."""
        environment = self._environment
        shared = self._shared
        emitter = shared.emitter
        queue = MessageQueue(
            emitter,
            shared.submitted,
            history.undelivered,
            history.notes,
            environment.preferences.delivery,
        )
        inspection = shared.inspection or Inspection(
            store, environment, self._approvals, queue, running=lambda: self.running
        )
        checkpointing = Checkpointing(
            store,
            emitter,
            shared.lock,
            environment.sandbox,
            line=history.line,
            timeline=history.timeline,
        )
        compaction = Compaction(
            environment,
            emitter,
            shared.spending,
            queue,
            permissions=shared.permissions,
            history=history,
        )
        return RunContext(
            workspace=environment.workspace,
            line=history.line,
            call_ids=set(history.call_ids),
            permissions=shared.permissions,
            executor=Executor(
                environment,
                self._approvals,
                self._parts.channels,
                lock=shared.lock,
                jobs=jobs,
                inspection=inspection,
                slots=shared.slots,
            ),
            emitter=emitter,
            queue=queue,
            gate=PauseGate(emitter, shared.spending, stepping=shared.stepping),
            spending=shared.spending,
            checkpoints=checkpointing,
            inspection=inspection,
            jobs=jobs,
            parts=self._parts,
            compaction=compaction,
            above=shared.meter,
        )

    def do(self, act: Act) -> Refused | None:
        """Carry out an act. What takes time is begun and shows as events; its failure is a notice
        `act.failed`."""
        return self._acting.do(act)

    async def finish(self, act: Act) -> Refused | None:
        """Like `do`, but wait for what it begins; if that fails, the act is refused."""
        return await self._acting.finish(act)

    async def settled(self) -> None:
        """Wait until everything that acts began has ended; runs are not waited for."""
        await self._acting.settled()

    def run(self, prompt: str | acts.RunRecipe | RunGroup | None) -> AsyncIterator[KnownEvent]:
        """Run a prompt to its end; the last event is `run.finished`, or the notice `run.not_begun`
        if a hook denied it.

        None begins with what is queued; anything but text is begun by the extension whose work it
        is.
        A reader that stops early stops it. Raises CodeagentError if one is running.
        """
        return self.emitter.follow(partial(self._start, prompt), self._runs.stop)

    def events(self) -> AsyncIterator[KnownEvent]:
        """Yield every event from now until the agent is closed; the first reader also gets the
        earlier ones."""
        return self.emitter.read(self.emitter.connect(early=True))

    def observe(self, observer: Callable[[KnownEvent], None]) -> None:
        self.emitter.observe(observer)

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
        return self._context.queue.waiting

    @property
    def model(self) -> ModelInUse:
        return self._model.in_use

    @property
    def budget(self) -> Budget | None:
        return self._shared.spending.budget

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self._shared.permissions.rules

    @property
    def rewind(self) -> Rewind | None:
        return None if self._context.checkpoints.store is None else self._going_back

    @property
    def jobs(self) -> SessionJobs:
        return self._context.jobs

    def part(self, kind: type[PartT]) -> PartT | None:
        return self._parts.part(kind)

    async def texts(self, kind: "TextKind") -> "tuple[OfferedText, ...]":
        return await self._parts.texts(kind)

    async def mentioned(self, text: str) -> "Mentioned":
        return await self._parts.mentioned(text)

    @property
    def toolbox(self) -> Toolbox | None:
        builder = self._runs.conversation.prompt_builder
        return None if builder is None else builder.catalog.now

    async def begin_session(self, *, resumed: bool) -> None:
        """Tell the hooks that a session starts; they are told of its end when it is closed."""
        self._session = HookSession(self.session_id, str(self._context.workspace.root), resumed)
        await self._environment.hooks.session_start(self._session)
        self._parts.begin()

    def begin_checkpoints(self) -> None:
        """Take the first snapshot in the background; needs a running event loop."""
        context = self._context
        context.checkpoints.begin(lambda: context.jobs.running > 0 or context.inspection.needed)

    async def close(self) -> None:
        """End the run, the jobs and the user's commands, then the model's connections and the log;
        idempotent.

        What acts have begun is finished first.
        """
        context = self._context
        self._acting.closed = True
        self._runs.close()
        # With everything else: a process that ignores a signal is waited for only once.
        context.jobs.stop_all()
        await self._acting.close()
        await self._runs.ended()
        await self._parts.close()
        await context.jobs.close()
        await self.settled()
        if self._shared.inspection is None:
            await context.inspection.close()
        await context.checkpoints.end()
        session = self._session
        self._session = None
        if session is not None:
            await self._environment.hooks.session_end(session)
        await self._runs.conversation.model.close()
        self.emitter.disconnect_all()
        self._journal.close()

    def _start(self, work: str | acts.RunRecipe | RunGroup | None) -> asyncio.Task[None]:
        """Raises CodeagentError if it cannot begin."""
        if work is None or isinstance(work, str):
            return self._runs.start(work)
        begun = self._parts.do(work)
        if isinstance(begun, asyncio.Task):
            return begun
        raise CodeagentError(begun.reason if isinstance(begun, acts.Refused) else "nothing was run")
