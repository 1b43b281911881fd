"""A launcher whose agent only notes what it is told, and emits what a test wants."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from codeagent.config.settings import Settings
from codeagent.core.budget import Budget, Effort
from codeagent.core.errors import CodeagentError, ConfigError, SessionInUse, SessionNotFound
from codeagent.core.events import KnownEvent, UnknownEvent
from codeagent.core.policy import Decision, Mode, Rule
from codeagent.core.ports import SandboxInfo
from codeagent.core.queued import Queued
from codeagent.core.runtime import Runtime, SessionSummary
from codeagent.tui.ports import Missing, ModelRow, Wish
from tests.fakes import FakeOutputs
from tests.tui.fake_jobs import FakeJobs, FakeToolbox

SESSION = "20261120-120000-0badcafe"
INFO = SandboxInfo("docker", "debian", "configured", "1000:1000", "none")


class FakeAgent:
    """Notes calls in `told`; `emit` is what its readers get."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.running = False
        self.queued: tuple[Queued, ...] = ()
        self.session_id = SESSION
        self.refuses: str = ""
        self.jobs = FakeJobs()
        self.toolbox: FakeToolbox | None = None
        self._events: asyncio.Queue[KnownEvent | None] = asyncio.Queue()

    def emit(self, *events: KnownEvent) -> None:
        for event in events:
            self._events.put_nowait(event)

    def events(self) -> AsyncIterator[KnownEvent]:
        return self._read()

    async def _read(self) -> AsyncIterator[KnownEvent]:
        while (event := await self._events.get()) is not None:
            yield event

    def start(self, prompt: str | None) -> None:
        if self.refuses:
            raise CodeagentError(self.refuses)
        self.told.append(("start", prompt))
        self.running = True

    def run(self, prompt: str) -> AsyncIterator[KnownEvent]:
        raise AssertionError("the screen reads events()")

    def steer(self, text: str) -> str:
        return self._note("steer", text)

    def interrupt(self, text: str) -> str:
        return self._note("interrupt", text)

    def follow_up(self, text: str) -> str:
        return self._note("follow_up", text)

    def take_back(self, queued_id: str) -> str | None:
        return self._note("take_back", queued_id)

    def abort(self, reason: str = "interrupted") -> None:
        self._note("abort", reason)

    def cancel_call(self, call_id: str) -> None:
        self._note("cancel_call", call_id)

    def respond(self, approval_id: str, decision: Decision) -> bool:
        self._note("respond", approval_id, decision)
        return True

    def pause(self) -> None:
        self._note("pause")

    def go_on(self) -> None:
        self._note("go_on")

    stepping = False
    budget: Budget | None = None
    rules: tuple[Rule, ...] = ()

    def step(self, on: bool) -> None:
        self._note("step", on)

    def skip(self, call_id: str, reason: str = "") -> bool:
        return bool(self._note("skip", call_id, reason))

    def amend(self, call_id: str, arguments: str) -> bool:
        if self.refuses:
            raise ConfigError(self.refuses)
        return bool(self._note("amend", call_id, arguments))

    def set_budget(self, budget: Budget | None) -> None:
        self.budget = budget

    def rewrite(self, queued_id: str, text: str) -> bool:
        return bool(self._note("rewrite", queued_id, text))

    def move(self, queued_id: str, position: int) -> bool:
        return bool(self._note("move", queued_id, position))

    async def allow(self, rule: str, *, keep: bool) -> None:
        self._note("allow", rule, keep)

    async def revoke(self, rule: Rule) -> None:
        self._note("revoke", rule)

    def promote(self, call_id: str | None = None) -> bool:
        return bool(self._note("promote", call_id))

    def set_mode(self, mode: Mode) -> None:
        self._note("set_mode", mode)

    async def shell(self, command: str, *, shared: bool) -> None:
        if self.refuses:
            raise CodeagentError(self.refuses)
        self._note("shell", command, shared)

    def observe(self, observer: Callable[[KnownEvent], None]) -> None:
        raise AssertionError("the screen reads events()")

    async def close(self) -> None:
        self._events.put_nowait(None)

    def _note(self, *call: Any) -> str:
        self.told.append(call)
        return "q1"


@dataclass
class FakeLauncher:
    """Opens `agent` once `ready` is set, or raises `refuses`."""

    agent: FakeAgent = field(default_factory=FakeAgent)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    lacks: Missing | None = None
    refuses: str = ""
    log: tuple[KnownEvent | UnknownEvent, ...] = ()
    workspace: Path = Path("/home/ada/acme-api")
    theme: str | None = None
    held: int | None = None
    """The process that has the session."""
    elsewhere: Path | None = None
    """The folder the session belongs to."""
    closed: int = 0
    efforts: list[Effort] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)

    def settings(self, wish: Wish) -> Settings:
        return Settings.model_validate({"model": wish.model or "demo", "mode": wish.mode or "ask", "theme": self.theme})

    async def missing(self, settings: Settings, wish: Wish) -> Missing | None:
        return self.lacks

    async def open(self, settings: Settings, *, resume: str | None, tell: Callable[[str], None]) -> Runtime:
        tell("making the image")
        await self.ready.wait()
        if self.refuses:
            raise CodeagentError(self.refuses)
        runtime: Runtime

        async def use_model(name: str, api_base: str | None) -> Runtime:
            return replace(runtime, model=name, context_window=1000)

        async def use_effort(effort: Effort) -> Runtime:
            self.efforts.append(effort)
            return runtime

        async def close() -> None:
            self.closed += 1
            await self.agent.close()

        runtime = Runtime(
            agent=self.agent,
            workspace=None,  # type: ignore[arg-type]  # no screen asks the workspace
            sandbox=None,
            sandbox_info=INFO,
            outputs=FakeOutputs(),
            rewind=None,
            tools=(),
            system_prompt="You are codeagent.",
            model=settings.model or "",
            context_window=200_000,
            use_model=use_model,
            use_effort=use_effort,
            close=close,
        )
        return runtime

    def sessions(self) -> tuple[SessionSummary, ...]:
        return (SessionSummary(SESSION, 1.0, 10, str(self.workspace), "demo", "fix it", in_use=False),)

    def find(self, session: str) -> str:
        if not SESSION.startswith(session):
            raise SessionNotFound(f"there is no session {session!r}")
        return SESSION

    def enter(self, session: str) -> str:
        found = self.find(session)
        if self.held:
            raise SessionInUse(f"session {found} is in use by process {self.held}", self.held)
        self.workspace = self.elsewhere or self.workspace
        return found

    def recorded(self, session_id: str) -> tuple[KnownEvent | UnknownEvent, ...]:
        return self.log

    async def models(self, settings: Settings) -> tuple[ModelRow, ...]:
        return (ModelRow("demo", "needs no key", ready=True),)

    async def keep_key(self, variable: str, value: str) -> str:
        self.kept.append((variable, value))
        return "the keyring"

    async def files(self) -> tuple[str, ...]:
        return ("src/", "src/dates.py")

    def git_status(self) -> tuple[str, int]:
        return "main", 3
