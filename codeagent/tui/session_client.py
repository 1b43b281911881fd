"""The session client: everything the screen has of a conversation. Acts go in, events come out,
into the UI state."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from codeagent.config.choices import Choices
from codeagent.config.settings import Settings
from codeagent.core import acts
from codeagent.core.acts import Act, Refused
from codeagent.core.audit import LedgerRow, decisions
from codeagent.core.checkpoints import Rewind
from codeagent.core.compaction import preview
from codeagent.core.errors import CheckpointError, CodeagentError, ConfigError, SessionError
from codeagent.core.events import (
    JobUpdated,
    KnownEvent,
    ReasoningDelta,
    RunFinished,
    TextDelta,
    ToolProgress,
    ToolResultAdded,
    ToolUpdated,
)
from codeagent.core.json_types import MAIN
from codeagent.core.messages import text_of
from codeagent.core.model import ModelInUse
from codeagent.core.notices import ModelChanged
from codeagent.core.policy import Mode
from codeagent.core.ports import OutputPage, OutputStore, SandboxInfo
from codeagent.core.runtime import AgentHandle, Session, SessionSummary
from codeagent.core.sanitize import one_line
from codeagent.core.toolbox import Toolbox
from codeagent.tui.info_pages import About, info_page, sandbox_words
from codeagent.tui.launcher import Launcher, LaunchOptions, Missing, ModelRow
from codeagent.tui.parts.status import MODE_MEANS
from codeagent.tui.reduce import AnyEvent, Reducer, replayed
from codeagent.tui.state import UiState

_PACE = 0.05
"""Seconds between two pieces of one stream; what arrives in between is merged."""
_SETTLING = 0.3
"""Seconds before git is asked, so that a prompt sent during the start, or an answer, comes
first."""
_STARTING = "codeagent is still starting; nothing was changed"
_NOT_STARTED = "not started, see above: /new starts a new session, /resume another"


class SessionClient:
    """One session, and the UI state that shows it."""

    def __init__(self, launcher: Launcher, state: UiState) -> None:
        self.launcher = launcher
        self._state = state
        self._runtime: Session | None = None
        self._settings: Settings | None = None
        self._reducer = Reducer(state, live=True)
        self._shown = 0
        """The number of the last event that was shown."""
        self._stepping = False
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
        self._state.prefer(settings.theme, settings.bell)
        self._stepping = options.step
        self._state.status.set(stepping=options.step)
        if options.api_base is not None:
            self._tell(f"asking {one_line(options.api_base, 60)} for its models…")
        missing = await self.launcher.missing(settings, options)
        if self._state.status.now.notice == self._told_last:
            self._tell("")
        if missing is not None:
            return missing
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
        self._spawn(self._start(settings, resume))
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
        act = self._directed(act)
        refused = Refused(self._why_not) if self._runtime is None else self._runtime.agent.do(act)
        self._show_act(act, refused)
        return refused

    async def finish(self, act: Act) -> Refused | None:
        """Do the act and wait for what it begins; if that fails, the act is refused."""
        act = self._directed(act)
        refused = (
            Refused(self._why_not)
            if self._runtime is None
            else await self._runtime.agent.finish(act)
        )
        self._show_act(act, refused)
        return refused

    @property
    def agent(self) -> AgentHandle:
        """The agent, to read from; acts go through `do`. Raises CodeagentError while it is
        starting."""
        if self._runtime is None:
            raise CodeagentError(_STARTING)
        return self._runtime.agent

    async def decisions(self) -> tuple[LedgerRow, ...]:
        """Return every decision of this session so far, the oldest first. Raises CodeagentError."""
        return decisions(await asyncio.to_thread(self.launcher.recorded, self.agent.session_id))

    @property
    def rewind(self) -> Rewind:
        """The way back to checkpoints. Raises CheckpointError if none are kept, or not yet."""
        rewind = None if self._runtime is None else self._runtime.agent.rewind
        if rewind is None:
            missing = (
                "codeagent is still starting"
                if self._runtime is None
                else "no checkpoints are kept here"
            )
            raise CheckpointError(f"{missing}; nothing was changed")
        return rewind

    @property
    def toolbox(self) -> Toolbox | None:
        """The tools in use, or None if they cannot change. Raises CodeagentError."""
        now, info = (
            self.agent.toolbox,
            None if self._runtime is None else self._runtime.sandbox_info,
        )
        if now is None or info is None or info.kind != "host":
            return now
        # Without a sandbox, commands run on this machine.
        return replace(now, tools=tuple(replace(tool, sandboxed=False) for tool in now.tools))

    def job_lines(self) -> Mapping[str, int]:
        """Return how many lines each running job printed so far, by its id, including those too
        fast to be shown."""
        jobs = () if self._runtime is None else self._runtime.agent.jobs.jobs()
        return {job.id: job.lines for job in jobs if job.status == "running"}

    async def job_output(self, job_id: str) -> str | None:
        """Return everything that a job printed so far, or None if it is gone. Raises
        CodeagentError."""
        try:
            return await asyncio.to_thread(_whole, partial(self.agent.jobs.read, job_id))
        except KeyError:
            return None

    async def missing(self, row: ModelRow) -> Missing | None:
        """Return what another model still needs, such as its key."""
        settings = await self._present_settings()
        settings = replace(settings, model=row.name, api_base=row.api_base)
        return await self.launcher.missing(settings, LaunchOptions(proceed=True))

    async def keep_key(self, variable: str, value: str) -> str:
        """Try a key and keep it; shows and returns how that went and where the key is. Raises
        CodeagentError."""
        said = await self.launcher.keep_key(variable, value)
        self._state.document.remark(said)
        return said

    async def keep(self, choices: Choices) -> str:
        """Keep what the user chose for the next start; return how that went, to be read behind what
        was chosen."""
        try:
            said = await asyncio.to_thread(self.launcher.keep, choices)
        except ConfigError as error:
            return f"; not kept for the next start: {error}"
        return said and f"; {said}"

    async def sessions(self) -> tuple[SessionSummary, ...]:
        """Return the sessions of this workspace, the latest first."""
        return await asyncio.to_thread(self.launcher.sessions)

    async def models(self) -> tuple[ModelRow, ...]:
        """Return the models worth offering."""
        return await self.launcher.models(await self._present_settings())

    async def files(self) -> tuple[str, ...]:
        """Return the paths of the workspace that are not ignored, for `@`; directories end with a
        slash."""
        return await self.launcher.files()

    @property
    def reads_kept_texts(self) -> bool:
        """Whether the model has the tool that reads what `keep_text` keeps."""
        tools = () if self._runtime is None else self._runtime.next_request().tools
        return any(tool.name == "output_read" for tool in tools)

    async def keep_text(self, text: str) -> str:
        """Keep a long text as a file of the session; return what is sent instead of it. Raises
        CodeagentError."""
        if self._runtime is None:
            raise CodeagentError(_STARTING)
        return await asyncio.to_thread(_kept, self._runtime.outputs, text)

    async def full_output(self, call_id: str) -> str | None:
        """Return the whole text of a call's result, even if it was too long for the model; None if
        it is gone."""
        if self._runtime is None:
            return None
        session, outputs = self._runtime.agent.session_id, self._runtime.outputs
        if call_id in outputs.handles():
            return await asyncio.to_thread(_whole, partial(outputs.read, call_id))
        recorded = await asyncio.to_thread(self.launcher.recorded, session)
        results = (
            event
            for event in recorded
            if isinstance(event, ToolResultAdded) and event.call_id == call_id
        )
        return next((text_of(result.content) for result in results), None)

    def info_page(self, about: About) -> str:
        """Return Markdown for the slash command of that name."""
        return info_page(
            about, self.launcher.workspace, self._state.status.now, self._settings, self._runtime
        )

    async def close(self) -> None:
        """End the run, the model's connections and the sandbox; idempotent, and never cancelled
        halfway."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        runtime, self._runtime = self._runtime, None
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._settled.set()
        if runtime is not None:
            await runtime.close()

    async def _start(self, settings: Settings, resume: str | None) -> None:
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
            if status.now.mode == mode != settings.mode:
                runtime.agent.do(acts.SetMode(mode))
        if self._stepping:
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
        notice = self._state.status.now.notice
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
            _read, self.launcher, session_id
        )
        for _ in self._state.replay(recorded):
            await asyncio.sleep(0)
        self._reducer.go_live(self._state)

    async def _refresh_git(self) -> None:
        await self._settled.wait()
        await asyncio.sleep(_SETTLING)
        branch, changes = await asyncio.to_thread(self.launcher.git_status)
        self._state.status.set(branch=branch, changes=changes)

    def _directed(self, act: Act) -> Act:
        """Return the act that fits the text now: a run may have begun or ended since the key was
        pressed."""
        match act:
            case acts.Prompt(str(text)) if self.running:
                return acts.Steer(text)
            case acts.Steer(text) | acts.Interrupt(text) | acts.FollowUp(text) if not self.running:
                return acts.Prompt(text)
            case _:
                return act

    def _show_act(self, act: Act, refused: Refused | None) -> None:
        """Show what an act did if no event does."""
        status = self._state.status
        match act:
            case _ if refused is not None:
                self._give_back(act, refused)
            case acts.Prompt() | acts.RunRecipe() if self.running:
                status.set(phase="working", since=time.time())
            case acts.Stop() if self.running:
                status.set(halt="stopping")
            case acts.Step(on):
                status.set(stepping=on)
            case acts.SetMode(mode):
                status.set(mode=mode, notice=f"mode: {mode} · {MODE_MEANS[mode]}")
            case _:
                pass

    def _give_back(self, act: Act, refused: Refused) -> None:
        """Return refused text to the composer; of other acts, the caller says why they were
        refused."""
        match act:
            case acts.Prompt(text) | acts.Steer(text) | acts.Interrupt(text) | acts.FollowUp(text):
                lost = text or ""
            case acts.RunShell(command, shared):
                lost = ("!" if shared else "!!") + command
            case _:
                return
        self._state.document.remark(refused.reason, "error")
        if lost:
            self._state.give_back(lost)

    def _take_over(self, model: ModelInUse) -> None:
        self._state.status.set(model=model.name, context_window=model.context_window)
        if self._settings is not None:
            self._settings = with_model(self._settings, model)

    @property
    def _why_not(self) -> str:
        return _NOT_STARTED if self._settled.is_set() else _STARTING

    async def _present_settings(self) -> Settings:
        known = self._settings
        return (
            known
            if known is not None
            else await asyncio.to_thread(self.launcher.settings, LaunchOptions())
        )

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


def with_model(settings: Settings, model: ModelInUse) -> Settings:
    """Return the settings with the model that is in use now; what differs comes from the
    conversation."""
    now: dict[str, Any] = {
        "model": model.name,
        "api_base": model.api_base,
        "thinking": model.effort,
    }
    changes = {name: value for name, value in now.items() if value != getattr(settings, name)}
    origins = settings.origins | dict.fromkeys(changes, "this conversation")
    return replace(settings, **changes, origins=origins)


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


def _read(launcher: Launcher, session_id: str) -> tuple[UiState, Reducer, int]:
    """Read and reduce a session; also returns the number of its last event. Blocks on a file."""
    recorded = launcher.recorded(session_id)
    return *replayed(recorded), max(
        (event.seq for event in recorded if event.agent == MAIN), default=0
    )


def _kept(outputs: OutputStore, text: str) -> str:
    """Keep a text, and return its beginning with its handle; blocks on a file. Raises
    CodeagentError."""
    sink = outputs.create("paste")
    sink.write(text)
    sink.close()
    try:
        lost = outputs.read(sink.handle, 1, 1).dropped_bytes
    except (KeyError, OSError):
        lost = len(text)
    if lost:
        raise CodeagentError(
            "the text could not be kept as a file: there is no room for it; nothing was sent"
        )
    return preview(text, sink.handle, unseen=True)


def _whole(read: Callable[[int, int], OutputPage]) -> str:
    """Read all of an output; blocks on a file."""
    return "\n".join(read(1, max(read(1, 1).total, 1)).lines)
