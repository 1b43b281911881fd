"""The real app on recorded events: what snapshot, payload and key tests open, with time that stands
still."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from codeagent.config.choices import Choices
from codeagent.config.extensions import all_extensions
from codeagent.core.acts import Act, Pause, Refused, Restore, RestoreFile, SetMode, Step, Stop
from codeagent.core.audit import LedgerRow, decisions
from codeagent.core.checkpoints import Rewind
from codeagent.core.errors import CodeagentError
from codeagent.core.events import KnownEvent
from codeagent.core.model import ModelFacts, ModelInUse
from codeagent.core.runtime import SessionSummary
from codeagent.core.toolbox import Toolbox
from codeagent.tui.app import CodeagentApp
from codeagent.tui.launcher import AppFolders, LaunchOptions, Missing, ModelOffer, ModelRow
from codeagent.tui.reduce import Reducer
from codeagent.tui.session_client import SessionClient, directed
from codeagent.tui.state import UiState
from tests.tui.fake_launcher import FakeAgent, FakeLauncher
from tests.tui.fake_rewind import FakeRewind

ROWS = (
    SessionSummary(
        "20261120-120000-0badcafe",
        1_790_000_000.0,
        0,
        "",
        "demo",
        "the date parser fails on leap days",
        in_use=False,
    ),
    SessionSummary(
        "20261119-090000-deadbeef",
        1_789_900_000.0,
        0,
        "",
        "ollama/qwen3",
        "add a --json option",
        in_use=True,
    ),
)
MODELS = (
    ModelRow(
        "anthropic/claude-sonnet-4-5",
        "in use, hosted",
        ready=True,
        facts=ModelFacts(200_000, tools=True, thinking=True, images=True, prices=(3.0, 15.0)),
        next_cost=0.0546,
    ),
    ModelRow("openai/gpt-5", "hosted, needs OPENAI_API_KEY", ready=False),
    ModelRow(
        "ollama/qwen3",
        "answers on 127.0.0.1:11434",
        ready=True,
        api_base="http://127.0.0.1:11434",
        facts=ModelFacts(32_768, tools=True, thinking=False),
    ),
    ModelRow("demo", "follows a script; needs no key", ready=True),
)


async def settled(pilot: Pilot[None]) -> None:
    """Return once the conversation of a `ReplayApp` is open and everything is drawn."""
    app = pilot.app
    assert isinstance(app, ReplayApp)
    async with asyncio.timeout(10):
        while not app.settled:  # noqa: ASYNC110  # whatever it waits for, it shows here
            await asyncio.sleep(0.01)
    await pilot.pause()


async def until(
    pilot: Pilot[Any], condition: Callable[[], bool], awaited: object = "what was waited for"
) -> None:
    """Return once the condition holds; `awaited` names it where it never does."""
    try:
        async with asyncio.timeout(30):
            while not condition():
                await pilot.pause()
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"never came: {awaited}") from None


async def enter(pilot: Pilot[None], *lines: str) -> None:
    """Send lines from the composer; how they are typed is the subject of other tests."""
    app = pilot.app
    assert isinstance(app, ReplayApp)
    for line in lines:
        app.chat.composer.set_text(line)
        await pilot.press("enter")


class ReplayClient(SessionClient):
    """A conversation that only shows what was recorded, and notes the acts made on it."""

    running = False
    reads_kept_texts = True

    def __init__(
        self, state: UiState, events: Sequence[KnownEvent], missing: Missing | None, **status: Any
    ) -> None:
        self.launcher: FakeLauncher
        super().__init__(FakeLauncher(), state)
        self.told: list[Any] = []
        self.shown = False
        self.state = state
        self._events = events
        self._missing = missing
        self._status = status
        self.agent_shown = FakeAgent()
        self.agent_shown.model = ModelInUse("anthropic/claude-sonnet-4-5", context_window=200_000)
        self.tools_in_use: Toolbox | None = None
        self.lines: Mapping[str, int] = {}
        self.ready: asyncio.Event | None = None
        """Where set: what is started only once this is."""
        self.refusal = ""
        """Why acts are refused."""
        self.refuses = ""
        """Why it does not start."""
        self.full = ""
        """Why no text can be kept."""
        self.past = FakeRewind()

    async def open(self, options: LaunchOptions) -> Missing | None:
        if self._missing is not None:
            missing, self._missing = self._missing, None
            self.shown = True
            return missing
        self.state.status.set(
            phase="idle",
            workspace="acme-api",
            branch="main",
            changes=3,
            model="anthropic/claude-sonnet-4-5",
            sandbox="docker",
            network="none",
            session="20261120-120000-0badcafe",
            context_window=200_000,
        )
        await self.extensions()
        reducer = Reducer(self.state, live=True, cards=self._cards)
        for event in self._events:
            reducer.apply(event)
        self.state.status.set(**self._status)
        self.running = self.state.status.now.run.phase not in ("idle", "starting")
        self.shown = True
        return None

    @property
    def started(self) -> bool:
        return self.ready is None or self.ready.is_set()

    async def start_up(self) -> None:
        if self.ready is not None:
            await self.ready.wait()
        if self.refuses:
            raise CodeagentError(self.refuses)

    def do(self, act: Act) -> Refused | None:
        if (
            isinstance(act, Stop)
            and not self.running
            and not self.state.document.running_commands()
        ):
            return Refused("nothing is running")
        act = directed(act, running=self.running)
        self.told.append(act)
        match act:
            case Pause():
                self.state.status.set(halt="pausing")
            case Step(on):
                self.state.status.set(stepping=on)
            case SetMode(mode):
                self.state.status.set(mode=mode)
            case _:
                pass
        return Refused(self.refusal) if self.refusal else None

    async def finish(self, act: Act) -> Refused | None:
        return (
            await self.past.restore(act) if isinstance(act, Restore | RestoreFile) else self.do(act)
        )

    @property
    def agent(self) -> FakeAgent:
        return self.agent_shown

    async def decisions(self) -> tuple[LedgerRow, ...]:
        return decisions(self._events)

    @property
    def rewind(self) -> Rewind:
        return self.past

    @property
    def toolbox(self) -> Toolbox | None:
        return self.tools_in_use

    def job_lines(self) -> Mapping[str, int]:
        return self.lines

    async def job_output(self, job_id: str) -> str | None:
        return "\n".join(f"{job_id} line {number}" for number in range(1, 1001))

    async def missing(self, row: ModelRow) -> Missing | None:
        return None

    async def keep_key(self, variable: str, value: str) -> str:
        self.told.append(("keep_key", variable))
        return "the keyring"

    async def keep(self, choices: Choices) -> str:
        self.told.append(("keep", dict(choices)))
        return "; kept"

    async def sessions(self) -> tuple[SessionSummary, ...]:
        return ROWS

    async def models(self) -> tuple[ModelRow, ...]:
        return MODELS

    async def files(self) -> tuple[str, ...]:
        return ("src/", "src/dates.py", "tests/", "tests/test_dates.py")

    async def keep_text(self, text: str) -> str:
        if self.full:
            raise CodeagentError(self.full)
        self.told.append(("keep_text", text))
        return "[beginning of a file]"

    async def full_output(self, call_id: str) -> str | None:
        return "\n".join(f"line {number}" for number in range(1, 1001))

    async def close(self) -> None:
        self.told.append(("close",))


class ReplayApp(CodeagentApp):
    """The app with a `ReplayClient`; its clock shows `now` for ever."""

    def __init__(
        self,
        events: Sequence[KnownEvent],
        folder: Path,
        *,
        now: float,
        missing: Missing | None = None,
        options: LaunchOptions | None = None,
        starts: asyncio.Event | None = None,
        off: Collection[str] = (),
        **status: Any,
    ) -> None:
        """`starts`: the conversation has started once this is set; None: at once. `off`: the extensions
        that are switched off."""
        self.clients: list[ReplayClient] = []

        async def open_client(state: UiState, options: LaunchOptions) -> ReplayClient:
            self.clients.append(ReplayClient(state, events, missing, **status))
            self.clients[-1].ready = starts
            self.clients[-1].launcher.offered = (ModelOffer(MODELS),)
            self.clients[-1].launcher.marks = folder / "state" / "models.json"
            self.clients[-1].launcher.in_use = all_extensions().without(off)
            return self.clients[-1]

        folders = AppFolders(folder / "state", folder / "config", Path("/home/ada/acme-api"))
        super().__init__(open_client, options or LaunchOptions(), folders, clock=lambda: now)

    @property
    def settled(self) -> bool:
        """Everything recorded is on the state, or what is missing is asked for."""
        return bool(self.clients) and self.clients[-1].shown

    @property
    def told(self) -> list[Any]:
        return [call for client in self.clients for call in client.told]

    def forget(self) -> None:
        """Begin the list of what was told again."""
        for client in self.clients:
            client.told.clear()
