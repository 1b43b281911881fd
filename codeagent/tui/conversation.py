"""A conversation behind the chat screen: opens it, reads its events, and passes on what the person does."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, Literal

from codeagent.config.settings import Settings
from codeagent.core.budget import Budget, parse_effort, said_effort
from codeagent.core.errors import CodeagentError, SessionError
from codeagent.core.events import (
    JobUpdated,
    KnownEvent,
    ReasoningDelta,
    RunFinished,
    TextDelta,
    ToolProgress,
    ToolResultAdded,
    ToolUpdated,
    UnknownEvent,
)
from codeagent.core.messages import text_of
from codeagent.core.ports import SandboxInfo
from codeagent.core.runtime import AgentHandle
from codeagent.tui.agent_side import AgentSide
from codeagent.tui.bridge import Bridge
from codeagent.tui.facts import About, Facts, facts_about
from codeagent.tui.launcher import Launcher
from codeagent.tui.ports import Missing, Mode, ModelRow, SessionRow, Wish
from codeagent.tui.stage import Stage
from codeagent.tui.widgets.status_text import MODE_MEANS

_PACE = 0.05
"""Seconds between two pieces of one stream: what comes meanwhile is merged into one."""
_NOT_STARTED = "not started, see above: /new starts a new session, /resume another"
"""Id of the prompt that waits in its lane until there is something to send it to."""


class Conversation(AgentSide):
    """One session on one stage (the Talk of `tui.ports`)."""

    def __init__(self, launcher: Launcher, stage: Stage) -> None:
        super().__init__(launcher)
        self._stage = stage
        self._settings: Settings | None = None
        self._shown = 0
        self._stepping = False
        self._settled = asyncio.Event()
        """It has started, or never will."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._runtime is not None and self._runtime.agent.running

    @property
    def started(self) -> bool:
        return self._settled.is_set() and self._runtime is not None

    async def start_up(self) -> None:
        await self._settled.wait()
        if self._runtime is None:
            raise CodeagentError(_NOT_STARTED)

    async def open(self, wish: Wish) -> Missing | None:
        _spare_collections()
        before = self._launcher.workspace
        try:
            resume = None if wish.resume is None else await asyncio.to_thread(self._launcher.enter, wish.resume)
        except SessionError as error:
            self._stage.document.remark(str(error), "warning")
            return Missing("session", str(error))
        settings = await asyncio.to_thread(self._launcher.settings, wish)
        name = self._launcher.workspace.name or str(self._launcher.workspace)
        self._stage.status.set(workspace=name, model=settings.model or "", mode=settings.mode)
        self._stage.prefer(settings.theme, settings.bell)
        self.step(wish.step)
        self._spawn(self._refresh_git())
        if (missing := await self._launcher.missing(settings, wish)) is not None:
            return missing
        if resume is not None:
            await self._show_recorded(resume, live=False)
        if self._launcher.workspace != before:
            self._stage.document.remark(f"this session belongs to {self._launcher.workspace}: working there")
        self._settings = settings
        self._stage.status.set(sandbox="starting", phase="starting")
        self._spawn(self._start(settings, resume))
        return None

    def send(self, text: str) -> None:
        if self._runtime is None:
            self._stage.give_back(text)
            self._stage.status.set(notice=_NOT_STARTED)
            return
        if text and self._runtime.agent.running:
            self.steer(text)  # a job that ended began a run between the key and here
            return
        self._try(self._runtime.agent.start, text or None)
        if self._runtime.agent.running:
            self._stage.status.set(phase="thinking")

    def steer(self, text: str) -> None:
        self._queue("steer", text)

    def interrupt(self, text: str) -> None:
        self._queue("interrupt", text)

    def follow_up(self, text: str) -> None:
        self._queue("follow_up", text)

    def take_back(self, queued_id: str) -> str | None:
        return None if self._runtime is None else self._runtime.agent.take_back(queued_id)

    def pause(self) -> None:
        if self._runtime is not None and self._runtime.agent.running:
            self._runtime.agent.pause()

    def go_on(self) -> None:
        if self._runtime is not None:
            self._runtime.agent.go_on()

    def abort(self) -> None:
        if self._runtime is None:
            return
        if self._runtime.agent.running:
            self._stage.status.set(halt="stopping")
            self._runtime.agent.abort("interrupted")
        for call_id in self._stage.document.running_commands():
            self._runtime.agent.cancel_call(call_id)

    def step(self, on: bool) -> None:
        self._stepping = on
        if self._runtime is not None:
            self._runtime.agent.step(on)
        self._stage.status.set(stepping=on)

    def correct(self, text: str) -> None:
        self._agent().interrupt(text)
        self.go_on()

    def start_plan(self, text: str, mode: Mode) -> None:
        self.set_mode(mode)
        self.send(f"Carry out this plan:\n\n{text}")

    def set_budget(self, text: str) -> str:
        agent = self._agent()
        if text:
            agent.set_budget(None if text.strip().lower() == "off" else Budget.parse(text))
        return f"budget: {self._stage.status.now.budget or agent.budget or 'none'}"

    def set_mode(self, mode: Mode) -> None:
        if self._runtime is not None:
            self._runtime.agent.set_mode(mode)
        elif self._settings is not None:
            self._settings = self._settings.model_copy(update={"mode": mode})
        self._stage.status.set(mode=mode, notice=f"mode: {mode} · {MODE_MEANS[mode]}")

    def shell(self, command: str, *, shared: bool) -> None:
        if self._runtime is None:
            self._stage.document.remark("the sandbox is still starting; the command was not run", "warning")
            self._stage.give_back(("!" if shared else "!!") + command)
            return
        self._spawn(self._shell(self._runtime.agent, command, shared))

    async def use_model(self, row: ModelRow) -> Missing | None:
        if self._runtime is None or self._settings is None:
            raise CodeagentError("codeagent is still starting; the model was not changed")
        changes = {"model": row.name, "api_base": row.api_base}
        settings = self._settings.model_copy(update=changes)
        if (missing := await self._launcher.missing(settings, Wish(proceed=True))) is not None:
            return missing
        self._runtime = await self._runtime.use_model(row.name, row.api_base)
        self._settings = settings
        self._stage.status.set(model=row.name, context_window=self._runtime.context_window)
        return None

    async def set_effort(self, text: str) -> str:
        if self._runtime is None or self._settings is None:
            raise CodeagentError("codeagent is still starting; nothing was changed")
        now = self._settings.thinking
        if not text:
            return "thinking: " + ("as the provider has it" if now is None else said_effort(now))
        effort = parse_effort(text)
        self._runtime = await self._runtime.use_effort(effort)
        self._settings = self._settings.model_copy(update={"thinking": effort})
        return f"thinking: {said_effort(effort)}, from the next answer on"

    async def keep_key(self, variable: str, value: str) -> str:
        said = await self._launcher.keep_key(variable, value)
        self._stage.document.remark(said)
        return said

    async def sessions(self) -> tuple[SessionRow, ...]:
        found = await asyncio.to_thread(self._launcher.sessions)
        return tuple(SessionRow(item.id, item.modified, item.prompt, item.model, item.in_use) for item in found)

    async def models(self) -> tuple[ModelRow, ...]:
        if self._settings is not None:
            return await self._launcher.models(self._settings)
        return await self._launcher.models(await asyncio.to_thread(self._launcher.settings, Wish()))

    async def files(self) -> tuple[str, ...]:
        return await self._launcher.files()

    async def full_output(self, call_id: str) -> str | None:
        """The kept output where there is one, else the result as the log has it."""
        if self._runtime is None:
            return None
        session, outputs = self._runtime.agent.session_id, self._runtime.outputs
        if call_id in outputs.handles():
            total = outputs.read(call_id, 1, 1).total
            return "\n".join((await asyncio.to_thread(outputs.read, call_id, 1, max(total, 1))).lines)
        recorded = await asyncio.to_thread(self._launcher.recorded, session)
        results = (event for event in recorded if isinstance(event, ToolResultAdded) and event.call_id == call_id)
        return next((text_of(result.content) for result in results), None)

    def facts(self, about: About) -> str:
        return facts_about(about, Facts(self._launcher.workspace, self._stage, self._settings, self._runtime))

    async def close(self) -> None:
        """Whoever comes second waits for the same end, and nobody who gives up waiting stops it half way."""
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
        status = self._stage.status
        try:
            runtime = await self._launcher.open(settings, resume=resume, tell=self._tell)
        except Exception as error:
            if isinstance(error, CodeagentError):
                self._stage.document.remark(f"{error}", "error")
            else:
                self._stage.failed(error)
            status.set(sandbox="none", phase="idle", notice=_NOT_STARTED)
            self._settled.set()
            return
        self._runtime = runtime
        _spare_collections()
        if status.now.mode != settings.mode:
            runtime.agent.set_mode(_mode(status.now.mode))
        if self._stepping:
            runtime.agent.step(True)
        events = runtime.agent.events()
        await self._show_recorded(runtime.agent.session_id, live=True)
        status.set(
            session=runtime.agent.session_id,
            sandbox=sandbox_words(runtime.sandbox_info),
            model=runtime.model,
            context_window=runtime.context_window,
            phase="idle",
            notice="",
        )
        self._settled.set()
        bridge = Bridge(self._stage, live=True)
        drawn: set[tuple[str, str]] = set()
        async for event in events:
            if event.seq > self._shown:
                self._shown = event.seq
                self._show(bridge, event)
            self._after(event, runtime.agent)
            await _pace(event, drawn)

    def _after(self, event: KnownEvent, agent: AgentHandle) -> None:
        """Text that came too late for its run begins the next one."""
        if isinstance(event, RunFinished):
            self._spawn(self._refresh_git())
            if event.reason == "done" and agent.queued and not agent.running:
                self._try(agent.start, None)

    def _show(self, bridge: Bridge, event: KnownEvent) -> None:
        """One event that cannot be drawn does not keep those after it from being."""
        try:
            bridge.show(event)
        except Exception as error:
            self._stage.failed(error)

    async def _show_recorded(self, session_id: str, *, live: bool) -> None:
        bridge = Bridge(self._stage, live=live)
        for event in await asyncio.to_thread(self._recorded_after, session_id, self._shown):
            bridge.show(event)
            self._shown = event.seq
        if not live:
            bridge.end_recording()

    def _recorded_after(self, session_id: str, seq: int) -> tuple[KnownEvent | UnknownEvent, ...]:
        return tuple(event for event in self._launcher.recorded(session_id) if event.seq > seq)

    def _queue(self, lane: Literal["steer", "interrupt", "follow_up"], text: str) -> None:
        if self._runtime is None or not self._runtime.agent.running:
            self.send(text)
            return
        agent = self._runtime.agent
        {"steer": agent.steer, "interrupt": agent.interrupt, "follow_up": agent.follow_up}[lane](text)

    async def _shell(self, agent: AgentHandle, command: str, shared: bool) -> None:
        try:
            await agent.shell(command, shared=shared)
        except CodeagentError as error:
            self._stage.document.remark(str(error), "error")

    async def _refresh_git(self) -> None:
        branch, changes = await asyncio.to_thread(self._launcher.git_status)
        self._stage.status.set(branch=branch, changes=changes)

    def _try(self, start: Any, text: str | None) -> None:
        try:
            start(text)
        except CodeagentError as error:
            self._stage.document.remark(str(error), "error")
            if text:
                self._stage.give_back(text)

    def _tell(self, text: str) -> None:
        self._stage.status.set(notice=text)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._stage.failed(error)


def _spare_collections() -> None:
    """What was imported until now stays: later searches for garbage, which stop everything, pass over it."""
    gc.freeze()


def sandbox_words(info: SandboxInfo | None) -> str:
    """The sandbox in the few words of the header."""
    if info is None:
        return "none"
    if info.kind == "host":
        return "off"
    return "docker, net off" if info.network in ("none", "off") else f"docker, net {info.network}"


def _mode(text: str) -> Mode:
    modes: dict[str, Mode] = {"ask": "ask", "accept-edits": "accept-edits", "plan": "plan", "auto": "auto"}
    return modes[text]


async def _pace(event: KnownEvent, drawn: set[tuple[str, str]]) -> None:
    """Wait where the same stream was drawn a moment ago, so that the channel merges what comes meanwhile."""
    key: tuple[str, str]
    match event:
        case TextDelta() | ReasoningDelta():
            key = (event.type, "")
        case ToolUpdated() | ToolProgress():
            key = (event.type, event.call_id)
        case JobUpdated():
            key = (event.type, event.job_id)
        case _:
            return
    if key in drawn:
        drawn.clear()
        await asyncio.sleep(_PACE)
    drawn.add(key)
