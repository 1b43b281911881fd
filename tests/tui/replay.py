"""The real app on recorded events: what snapshot, payload and key tests open, with time that stands still."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from codeagent.core.decisions import decisions
from codeagent.core.errors import CodeagentError
from codeagent.core.events import KnownEvent
from codeagent.core.ledger import LedgerRow
from codeagent.core.policy import Decision, Rule
from codeagent.core.rewind import Rewind
from codeagent.core.toolbox import Toolbox
from codeagent.tui.app import CodeagentApp, Folders
from codeagent.tui.bridge import Bridge
from codeagent.tui.ports import Missing, Mode, ModelRow, SessionRow, Wish
from codeagent.tui.stage import Stage
from tests.tui.fake_rewind import FakeRewind

ROWS = (
    SessionRow("20261120-120000-0badcafe", 1_790_000_000.0, "the date parser fails on leap days", "demo", in_use=False),
    SessionRow("20261119-090000-deadbeef", 1_789_900_000.0, "add a --json option", "ollama/qwen3", in_use=True),
)
MODELS = (
    ModelRow("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY is set", ready=True),
    ModelRow("openai/gpt-5", "OPENAI_API_KEY is not set", ready=False),
    ModelRow("ollama/qwen3", "answers on 127.0.0.1:11434", ready=True, api_base="http://127.0.0.1:11434"),
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


async def until(pilot: Pilot[None], condition: Callable[[], bool], awaited: object = "what was waited for") -> None:
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


class ReplayTalk:
    """A conversation that only shows what was recorded, and notes what the person does."""

    def __init__(self, stage: Stage, events: Sequence[KnownEvent], missing: Missing | None, **status: Any) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.running = False
        self.shown = False
        self.stage = stage
        self._events = events
        self._missing = missing
        self._status = status
        self.rules_in_force: tuple[Rule, ...] = ()
        self.tools_in_use: Toolbox | None = None
        self.lines: Mapping[str, int] = {}
        self.ready: asyncio.Event | None = None
        """Where set: what is started only once this is."""
        self.obeys = True
        """What is asked of a job or a call is done."""
        self.refuses = ""
        """Why it does not start."""
        self.past = FakeRewind()

    async def open(self, wish: Wish) -> Missing | None:
        if self._missing is not None:
            missing, self._missing = self._missing, None
            self.shown = True
            return missing
        self.stage.status.set(
            phase="idle",
            workspace="acme-api",
            branch="main",
            changes=3,
            model="anthropic/claude-sonnet-4-5",
            sandbox="docker, net off",
            session="20261120-120000-0badcafe",
            context_window=200_000,
        )
        bridge = Bridge(self.stage, live=True)
        for event in self._events:
            bridge.show(event)
        self.stage.status.set(**self._status)
        self.running = self.stage.status.now.phase not in ("idle", "starting")
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

    def send(self, text: str) -> None:
        self.told.append(("send", text))

    def steer(self, text: str) -> None:
        self.told.append(("steer", text))

    def interrupt(self, text: str) -> None:
        self.told.append(("interrupt", text))

    def follow_up(self, text: str) -> None:
        self.told.append(("follow_up", text))

    def take_back(self, queued_id: str) -> str | None:
        self.told.append(("take_back", queued_id))
        return None

    def pause(self) -> None:
        self.told.append(("pause",))
        self.stage.status.set(halt="pausing")

    def go_on(self) -> None:
        self.told.append(("go_on",))

    def abort(self) -> None:
        self.told.append(("abort",))

    def answer(self, approval_id: str, decision: Decision) -> bool:
        self.told.append(("answer", approval_id, decision))
        return True

    def step(self, on: bool) -> None:
        self.told.append(("step", on))
        self.stage.status.set(stepping=on)

    def skip_call(self, call_id: str, reason: str = "") -> bool:
        self.told.append(("skip_call", call_id, reason))
        return True

    def amend_call(self, call_id: str, arguments: str) -> str:
        self.told.append(("amend_call", call_id, arguments))
        return ""

    def correct(self, text: str) -> None:
        self.told.append(("correct", text))

    def start_plan(self, text: str, mode: Mode) -> None:
        self.told.append(("start_plan", text, mode))

    def set_budget(self, text: str) -> str:
        self.told.append(("set_budget", text))
        return f"budget: {text or 'none'}"

    def rewrite(self, queued_id: str, text: str) -> bool:
        self.told.append(("rewrite", queued_id, text))
        return True

    def move(self, queued_id: str, position: int) -> bool:
        self.told.append(("move", queued_id, position))
        return True

    def rules(self) -> tuple[Rule, ...]:
        return self.rules_in_force

    async def allow(self, rule: str, *, keep: bool) -> None:
        self.told.append(("allow", rule, keep))

    async def revoke(self, rule: Rule) -> None:
        self.told.append(("revoke", str(rule)))

    async def decisions(self) -> tuple[LedgerRow, ...]:
        return decisions(self._events)

    @property
    def rewind(self) -> Rewind:
        return self.past

    def promote(self, call_id: str | None = None) -> bool:
        self.told.append(("promote", call_id))
        return self.obeys

    def job_lines(self) -> Mapping[str, int]:
        return self.lines

    async def job_output(self, job_id: str) -> str | None:
        return "\n".join(f"{job_id} line {number}" for number in range(1, 1001))

    async def stop_job(self, job_id: str) -> None:
        self.told.append(("stop_job", job_id))

    def send_to_job(self, job_id: str, text: str) -> bool:
        self.told.append(("send_to_job", job_id, text))
        return self.obeys

    def toolbox(self) -> Toolbox | None:
        return self.tools_in_use

    async def trust_tools(self, trusted: bool) -> None:
        self.told.append(("trust_tools", trusted))

    def set_mode(self, mode: Mode) -> None:
        self.told.append(("set_mode", mode))
        self.stage.status.set(mode=mode)

    def shell(self, command: str, *, shared: bool) -> None:
        self.told.append(("shell", command, shared))

    async def use_model(self, row: ModelRow) -> Missing | None:
        self.told.append(("use_model", row.name))
        return None

    async def set_effort(self, text: str) -> str:
        self.told.append(("set_effort", text))
        return f"thinking: {text}"

    async def keep_key(self, variable: str, value: str) -> str:
        self.told.append(("keep_key", variable))
        return "the keyring"

    async def sessions(self) -> tuple[SessionRow, ...]:
        return ROWS

    async def models(self) -> tuple[ModelRow, ...]:
        return MODELS

    async def files(self) -> tuple[str, ...]:
        return ("src/", "src/dates.py", "tests/", "tests/test_dates.py")

    async def full_output(self, call_id: str) -> str | None:
        return "\n".join(f"line {number}" for number in range(1, 1001))

    def facts(self, about: str) -> str:
        return f"# {about.capitalize()}\n\n| | |\n| --- | --- |\n| model | demo |\n"

    async def close(self) -> None:
        self.told.append(("close",))


class ReplayApp(CodeagentApp):
    """The app with a `ReplayTalk`; its clock shows `now` for ever."""

    def __init__(
        self,
        events: Sequence[KnownEvent],
        folder: Path,
        *,
        now: float,
        missing: Missing | None = None,
        wish: Wish | None = None,
        starts: asyncio.Event | None = None,
        **status: Any,
    ) -> None:
        """`starts`: the conversation has started once this is set; None: at once."""
        self.talks: list[ReplayTalk] = []

        async def open_talk(stage: Stage) -> ReplayTalk:
            self.talks.append(ReplayTalk(stage, events, missing, **status))
            self.talks[-1].ready = starts
            return self.talks[-1]

        folders = Folders(folder / "state", folder / "config", Path("/home/ada/acme-api"))
        super().__init__(open_talk, wish or Wish(), folders, clock=lambda: now)

    @property
    def settled(self) -> bool:
        """Everything recorded is on the stage, or what is missing is asked for."""
        return bool(self.talks) and self.talks[-1].shown

    @property
    def told(self) -> list[tuple[Any, ...]]:
        return [call for talk in self.talks for call in talk.told]

    def forget(self) -> None:
        """Begin the list of what was told again."""
        for talk in self.talks:
            talk.told.clear()
