"""A launcher whose agent only notes what it is told, and emits what a test wants."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from codeagent.agent.parts import ConversationPart
from codeagent.config.checking import checked
from codeagent.config.choices import Choices
from codeagent.config.extensions import Extensions, all_extensions
from codeagent.config.model_marks import ModelMarksFile
from codeagent.config.settings import Settings
from codeagent.core.acts import Act, Prompt, Queued, Refused, RunGroup, RunRecipe
from codeagent.core.budget import LEVELS, Budget, Effort
from codeagent.core.checkpoints import Rewind
from codeagent.core.errors import CodeagentError, SessionInUse, SessionNotFound
from codeagent.core.events import KnownEvent, UnknownEvent
from codeagent.core.messages import Message
from codeagent.core.model import ModelInUse, ModelRequest
from codeagent.core.policy import Rule
from codeagent.core.runtime import Mentioned, OfferedText, PartT, Session, SessionSummary, TextKind
from codeagent.core.sandbox import SandboxInfo
from codeagent.core.toolbox import Toolbox
from codeagent.tui.commands import table_with
from codeagent.tui.launcher import LaunchOptions, Missing, ModelOffer, ModelRow
from tests.fakes import FakeOutputs, FakeRecipes, FakeSkills
from tests.tui.fake_jobs import FakeJobs

TABLE = table_with(all_extensions().on)
"""What a key or a slash command does with every built-in extension."""
SESSION = "20261120-120000-0badcafe"
INFO = SandboxInfo("docker", "debian", "configured", "1000:1000", "none")


class FakeAgent:
    """Notes acts in `told`; `emit` is what its readers get."""

    def __init__(self) -> None:
        self.told: list[Act] = []
        self.running = False
        self.queued: tuple[Queued, ...] = ()
        self.session_id = SESSION
        self.refuses: str = ""
        self.jobs = FakeJobs()
        self.toolbox: Toolbox | None = None
        self.servers: ConversationPart | None = None
        """What an extension has added to the conversation."""
        self.rewind: Rewind | None = None
        self.model = ModelInUse("demo", context_window=200_000)
        self.budget: Budget | None = None
        self.rules: tuple[Rule, ...] = ()
        self.mentions: Callable[[str], Mentioned] = lambda text: Mentioned()
        """What the mentions in a text stand for."""
        self._events: asyncio.Queue[KnownEvent | None] = asyncio.Queue()

    def do(self, act: Act) -> Refused | None:
        if self.refuses:
            return Refused(self.refuses)
        self.told.append(act)
        self.running = self.running or isinstance(act, Prompt)
        return None

    async def finish(self, act: Act) -> Refused | None:
        return self.do(act)

    async def settled(self) -> None:
        return None

    def emit(self, *events: KnownEvent) -> None:
        for event in events:
            self._events.put_nowait(event)

    def events(self) -> AsyncIterator[KnownEvent]:
        return self._read()

    async def _read(self) -> AsyncIterator[KnownEvent]:
        while (event := await self._events.get()) is not None:
            yield event

    def run(self, prompt: str | RunRecipe | RunGroup | None) -> AsyncIterator[KnownEvent]:
        raise AssertionError("the screen reads events()")

    def part(self, kind: type[PartT]) -> PartT | None:
        return self.servers if isinstance(self.servers, kind) else None

    async def texts(self, kind: TextKind) -> tuple[OfferedText, ...]:
        return () if self.servers is None else tuple(await self.servers.texts(kind))

    async def mentioned(self, text: str) -> Mentioned:
        return self.mentions(text)

    def observe(self, observer: Callable[[KnownEvent], None]) -> None:
        raise AssertionError("the screen reads events()")

    async def close(self) -> None:
        self._events.put_nowait(None)


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
    info: SandboxInfo = INFO
    starting: asyncio.Future[SandboxInfo] | None = None
    """Where set: what the sandbox becomes."""
    closed: int = 0
    kept: list[tuple[str, str]] = field(default_factory=list)
    coming: ModelRequest = field(default_factory=lambda: ModelRequest("You are codeagent.", (), ()))
    in_use: Extensions = field(default_factory=all_extensions)
    said: tuple[Message, ...] = ()
    """The messages that the model is sent."""
    book: FakeRecipes = field(default_factory=FakeRecipes)
    offered: tuple[ModelOffer, ...] = ()
    marks: Path = Path("/nonexistent/models.json")
    levels: tuple[tuple[Effort, str], ...] = tuple((level, f"as {level}") for level in LEVELS)

    def settings(self, options: LaunchOptions) -> Settings:
        return checked(
            Settings,
            {"model": options.model or "demo", "mode": options.mode or "ask", "theme": self.theme},
        )

    def extensions(self, settings: Settings) -> Extensions:
        return self.in_use

    async def missing(self, settings: Settings, options: LaunchOptions) -> Missing | None:
        return self.lacks

    async def open(
        self, settings: Settings, *, resume: str | None, tell: Callable[[str], None]
    ) -> Session:
        tell("making the image")
        await self.ready.wait()
        if self.refuses:
            raise CodeagentError(self.refuses)
        self.agent.model = ModelInUse(settings.model or "", context_window=200_000)

        async def close() -> None:
            self.closed += 1
            await self.agent.close()

        return Session(
            agent=self.agent,
            sandbox=None,
            sandbox_info=self.info if self.starting is None else None,
            outputs=FakeOutputs(),
            next_request=lambda: self.coming,
            close=close,
            skills=FakeSkills(),
            sandbox_starting=self.starting,
        )

    def sessions(self) -> tuple[SessionSummary, ...]:
        return (
            SessionSummary(SESSION, 1.0, 10, str(self.workspace), "demo", "fix it", in_use=False),
        )

    def find(self, session: str) -> str:
        if not SESSION.startswith(session):
            raise SessionNotFound(f"unknown session {session!r}")
        return SESSION

    def enter(self, session: str) -> str:
        found = self.find(session)
        if self.held:
            raise SessionInUse(f"session {found} is in use by process {self.held}", self.held)
        self.workspace = self.elsewhere or self.workspace
        return found

    def recorded(self, session_id: str, after: int = 0) -> tuple[KnownEvent | UnknownEvent, ...]:
        return tuple(event for event in self.log if event.seq > after)

    def messages(self, session_id: str) -> tuple[Message, ...]:
        return self.said

    def rename(self, session_id: str, title: str) -> None:
        self.kept.append(("title", title))

    def export(self, session_id: str, name: str) -> Path:
        self.kept.append(("export", name))
        return self.workspace / name

    def fork(self, session_id: str, before: int | None) -> str:
        self.kept.append(("fork", str(before)))
        return SESSION

    async def models(self, settings: Settings) -> tuple[ModelRow, ...]:
        return (ModelRow("demo", "needs no key", ready=True),)

    async def offers(
        self, settings: Settings, prompt: int | ModelRequest
    ) -> AsyncIterator[ModelOffer]:
        for offer in self.offered:
            yield offer

    @property
    def model_marks(self) -> ModelMarksFile:
        return ModelMarksFile(self.marks)

    async def efforts(self, settings: Settings) -> tuple[tuple[Effort, str], ...]:
        return self.levels

    async def keep_key(self, variable: str, value: str) -> str:
        self.kept.append((variable, value))
        return "the keyring"

    def keep(self, choices: Choices) -> str:
        self.kept += [(name, str(value)) for name, value in choices.items()]
        return "kept"

    async def files(self) -> tuple[str, ...]:
        return ("src/", "src/dates.py")

    def recipes(self) -> FakeRecipes:
        return self.book

    def git_status(self) -> tuple[str, int]:
        return "main", 3
