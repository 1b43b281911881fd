"""The session client: everything the screen has of a conversation. Acts go in, events come out,
into the UI state."""

import asyncio
import gc
from collections.abc import Awaitable, Coroutine
from dataclasses import replace
from typing import Any, get_args

from codeagent.config.settings import Settings
from codeagent.core import acts
from codeagent.core.acts import Act, Refused
from codeagent.core.errors import CodeagentError, SessionError
from codeagent.core.events import (
    JobUpdated,
    KnownEvent,
    ReasoningDelta,
    RunFinished,
    TextDelta,
    ToolProgress,
    ToolUpdated,
)
from codeagent.core.json_types import MAIN
from codeagent.core.model import ModelInUse
from codeagent.core.notices import ModelChanged
from codeagent.core.policy import Mode
from codeagent.core.runtime import AgentHandle, Session
from codeagent.core.sandbox import SandboxInfo
from codeagent.core.sanitize import one_line
from codeagent.tui.launcher import Launcher, LaunchOptions, Missing
from codeagent.tui.outcomes import show_act
from codeagent.tui.recorded import read_session
from codeagent.tui.reduce import AnyEvent, Reducer
from codeagent.tui.session_reader import STARTING, SessionReader, with_model
from codeagent.tui.state import UiState
from codeagent.tui.status import sandbox_words

_PACE = 0.05
"""Seconds between two pieces of one stream; what arrives in between is merged."""
_SETTLING = 0.3
"""Seconds before git is asked, so that a prompt sent during the start, or an answer, comes
first."""
_NOT_STARTED = "not started, see above: /new starts a new session, /resume another"


class SessionClient(SessionReader):
    """One session, and the UI state that shows it."""

    def __init__(self, launcher: Launcher, state: UiState) -> None:
        super().__init__(launcher, state)
        self._reducer = Reducer(state, live=True, cards=self._cards)
        self._shown = 0
        """The number of the last event that was shown."""
        self._told_last = ""
        self._settled = asyncio.Event()
        """Set once it has started, or never will."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None

    async def open(self, options: LaunchOptions) -> Missing | None:
        """Read the settings, show the recorded session if one is resumed, and begin to start model
        and sandbox.

        Returns before they are ready, with what is missing, if anything. Raises CodeagentError.
        """
        before = self.launcher.workspace
        try:
            resume = (
                None
                if options.resume is None
                else await asyncio.to_thread(self.launcher.enter, options.resume)
            )
        except SessionError as error:
            self._state.document.remark(str(error), "warning")
            return Missing("session", str(error))
        settings = await asyncio.to_thread(self.launcher.settings, options)
        name = self.launcher.workspace.name or str(self.launcher.workspace)
        self._state.status.set(workspace=name, model=settings.model or "", mode=settings.mode)
        self._state.prefer(settings)
        self._state.status.set(stepping=options.step)
        if options.api_base is not None:
            self._tell(f"asking {one_line(options.api_base, 60)} for its models…")
        missing = await self.launcher.missing(settings, options)
        if self._state.status.now.screen.notice == self._told_last:
            self._tell("")
        if missing is not None:
            return missing
        self._extensions = await asyncio.to_thread(self.launcher.extensions, settings)
        if resume is not None:
            await self._replay(resume)
        else:
            self._state.document.forget_recorded()
        if self.launcher.workspace != before:
            self._state.document.remark(
                f"this session belongs to {self.launcher.workspace}: working there"
            )
        self._settings = settings
        self._state.status.set(sandbox="starting", phase="starting")
        self._spawn(self._start(settings, resume, step=options.step))
        self._spawn(self._refresh_git())
        return None

    @property
    def started(self) -> bool:
        """Whether acts are carried out; a command may still wait for the sandbox."""
        return self._settled.is_set() and self._runtime is not None

    async def start_up(self) -> None:
        """Return once it has started. Raises CodeagentError if it cannot start."""
        await self._settled.wait()
        if self._runtime is None:
            raise CodeagentError(_NOT_STARTED)

    @property
    def running(self) -> bool:
        """Whether a run is in progress."""
        return self._runtime is not None and self._runtime.agent.running

    def do(self, act: Act) -> Refused | None:
        """Do the act now, or begin what takes time; refused text returns to the composer."""
        act = directed(act, running=self.running)
        refused = Refused(self._why_not) if self._runtime is None else self._runtime.agent.do(act)
        show_act(act, refused, self._state, running=self.running)
        return refused

    async def finish(self, act: Act) -> Refused | None:
        """Do the act and wait for what it begins; if that fails, the act is refused."""
        act = directed(act, running=self.running)
        refused = (
            Refused(self._why_not)
            if self._runtime is None
            else await self._runtime.agent.finish(act)
        )
        show_act(act, refused, self._state, running=self.running)
        return refused

    async def close(self) -> None:
        """End the run, the model's connections and the sandbox; idempotent, and never cancelled
        halfway."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        runtime = self._runtime
        self._runtime = None
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._settled.set()
        if runtime is not None:
            await runtime.close()

    async def _start(self, settings: Settings, resume: str | None, *, step: bool) -> None:
        """Open the runtime, catch up with what opening it wrote, then read it to its end."""
        status = self._state.status
        try:
            runtime = await self.launcher.open(settings, resume=resume, tell=self._tell)
        except Exception as error:
            if isinstance(error, CodeagentError):
                self._state.document.remark(f"{error}", "error")
            else:
                self._state.failed(error)
            status.set(sandbox="none", phase="idle", notice=_NOT_STARTED)
            self._settled.set()
            return
        self._runtime = runtime
        gc.freeze()
        for mode in get_args(Mode):
            if status.now.conversation.mode == mode != settings.mode:
                runtime.agent.do(acts.SetMode(mode))
        if step:
            runtime.agent.do(acts.Step(True))
        events = runtime.agent.events()
        for recorded in await asyncio.to_thread(
            self.launcher.recorded, runtime.agent.session_id, self._shown
        ):
            self._show(recorded)
        status.set(
            session=runtime.agent.session_id,
            sandbox="starting"
            if runtime.sandbox_starting is not None
            else sandbox_words(runtime.sandbox_info),
            model=runtime.agent.model.name,
            context_window=runtime.agent.model.context_window,
            phase="idle",
            notice="",
        )
        self._settled.set()
        if runtime.sandbox_starting is not None:
            self._spawn(self._await_sandbox(runtime, runtime.sandbox_starting))
        drawn: set[tuple[str, str]] = set()
        async for event in events:
            self._show(event)
            self._after(event, runtime.agent)
            await _pace(event, drawn)

    async def _await_sandbox(self, runtime: Session, starting: Awaitable[SandboxInfo]) -> None:
        """Show the kind of sandbox once commands can run, or a notice why they never will."""
        try:
            info = await asyncio.shield(starting)
        except Exception:
            self._state.status.set(sandbox="none")
            return
        self._runtime = replace(runtime, sandbox_info=info)
        notice = self._state.status.now.screen.notice
        self._state.status.set(
            sandbox=sandbox_words(info), notice="" if notice == self._told_last else notice
        )

    def _after(self, event: KnownEvent, agent: AgentHandle) -> None:
        """Follow up on an event; text that arrived too late for its run begins the next one."""
        if isinstance(event, ModelChanged):
            self._take_over(agent.model)
        elif isinstance(event, RunFinished) and event.agent == MAIN:
            self._spawn(self._refresh_git())
            if event.reason == "done" and agent.queued and not agent.running:
                self.do(acts.Prompt(None))

    def _show(self, event: AnyEvent) -> None:
        """Show an event unless it was shown before; if it cannot be drawn, later ones still are."""
        if (
            event.agent == MAIN
        ):  # events of children have numbers of their own, and arrive only once
            if event.seq <= self._shown:
                return
            self._shown = event.seq
        try:
            self._reducer.apply(event)
        except Exception as error:
            self._state.failed(error)

    async def _replay(self, session_id: str) -> None:
        """Show all of a recorded session without blocking the keys."""
        recorded, self._reducer, self._shown = await asyncio.to_thread(
            read_session, self.launcher, session_id, self._cards
        )
        for _ in self._state.replay(recorded):
            await asyncio.sleep(0)
        self._reducer.go_live(self._state)

    async def _refresh_git(self) -> None:
        await self._settled.wait()
        await asyncio.sleep(_SETTLING)
        branch, changes = await asyncio.to_thread(self.launcher.git_status)
        self._state.status.set(branch=branch, changes=changes)

    def _take_over(self, model: ModelInUse) -> None:
        self._state.status.set(model=model.name, context_window=model.context_window)
        if self._settings is not None:
            self._settings = with_model(self._settings, model)

    @property
    def _why_not(self) -> str:
        return _NOT_STARTED if self._settled.is_set() else STARTING

    def _tell(self, text: str) -> None:
        self._told_last = text
        self._state.status.set(notice=text)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._state.failed(error)


async def _pace(event: KnownEvent, drawn: set[tuple[str, str]]) -> None:
    """Wait if the same stream was drawn a moment ago, so that the channel merges what arrives in
    between."""
    match event:
        case TextDelta() | ReasoningDelta():
            key = (event.agent, str(event.type))
        case ToolUpdated() | ToolProgress():
            key = (event.agent, event.call_id)
        case JobUpdated():
            key = (event.agent, event.job_id)
        case _:
            return
    if key in drawn:
        drawn.clear()
        await asyncio.sleep(_PACE)
    drawn.add(key)


def directed(act: Act, *, running: bool) -> Act:
    """Return the act that fits the text now: a run may have begun or ended since the key was
    pressed."""
    match act:
        case acts.Prompt(str(text)) if running:
            return acts.Steer(text)
        case acts.Steer(text) | acts.Interrupt(text) | acts.FollowUp(text) if not running:
            return acts.Prompt(text)
        case _:
            return act
