"""Pictures of the pages and lists that open over a conversation."""

import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.screen import Screen

from codeagent.config.extensions import all_extensions
from codeagent.config.model_marks import MarkedModel, ModelMarksFile
from codeagent.config.reference import every_setting
from codeagent.config.settings import LimitSettings, Settings
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.messages import AssistantMessage, TextPart, ToolCall, ToolMessage, UserMessage
from codeagent.core.model import ModelRequest
from codeagent.core.tool import ToolDefinition
from codeagent.extensions.board.page import BoardPage
from codeagent.extensions.board.sessions import BoardRow, State
from codeagent.extensions.mcp.page import ServerPage, ServersPage
from codeagent.extensions.review.findings import ReviewFinding
from codeagent.extensions.review.page import AsidePanel, FindingsScreen
from codeagent.extensions.usage.page import usage_facts
from codeagent.extensions.usage.requests import SpentRequest, SpentSession
from codeagent.extensions.usage.totals import totals
from codeagent.extensions.worktrees.merging import MergeOffer
from codeagent.extensions.worktrees.page import merge_picker
from codeagent.tui.context_facts import context_facts
from codeagent.tui.facts import Facts
from codeagent.tui.pages.config import settings_facts
from codeagent.tui.pages.facts import FactsPage
from codeagent.tui.pages.models import ModelPicker
from codeagent.tui.pages.picker import ThemePicker
from codeagent.tui.status import UsageStatus
from docs.pictures.screens import Play, Scene
from tests.tui.fake_servers import DEAD, GIT, THEIRS, WANTING, Book
from tests.tui.model_scenes import SILENT
from tests.tui.replay import ReplayApp, enter, until
from tests.tui.scripts import Recording, after_failing_tests, asks_to_edit, running_tests

CALLS = (
    ("read", '{"path":"src/dates.py"}', 21_000),
    ("bash", '{"command":"pytest -q tests/test_dates.py"}', 34_500),
    ("search", '{"pattern":"is_leap"}', 6_100),
    ("read", '{"path":"docs/calendar.md"}', 58_000),
)
INSTRUCTIONS = "# Instructions of this workspace (AGENTS.md)\n<agents-md>\n{}\n</agents-md>"
SPENT = {
    "anthropic/claude-sonnet-4-5": (18_400, 1_210, 61_200_000),
    "openai/gpt-5": (9_100, 800, 22_400_000),
    "ollama/qwen3": (12_700, 950, None),
}
NOON = time.mktime((2026, 11, 20, 12, 0, 0, 0, 0, -1))
FILE = "/home/ada/.config/codeagent/config.toml"


def context() -> Facts:
    tools = tuple(
        ToolDefinition(name, "x" * size, {})
        for name, size in (("bash", 2_900), ("edit", 2_100), ("read", 1_400), ("search", 1_100))
    )
    coming = ModelRequest("x" * 9_000 + "\n" + INSTRUCTIONS.format("x" * 5_200), (), tools)
    asked = [
        ToolCall(id=f"c{n}", name=name, arguments=given) for n, (name, given, _) in enumerate(CALLS)
    ]
    answered = (
        ToolMessage(call_id=call.id, name=call.name, content=(TextPart(text="x" * size),))
        for call, (_, _, size) in zip(asked, CALLS, strict=True)
    )
    said = (
        UserMessage.from_text("the date parser fails on leap days, fix it and add a test"),
        AssistantMessage(text="I'll look at the parser and its tests first.", calls=tuple(asked)),
        *answered,
    )
    usage = UsageStatus(context_tokens=38_214, context_window=128_000)
    return context_facts(usage, 0.8, coming, said)


def config() -> Facts:
    settings = Settings(
        model="anthropic/claude-sonnet-4-5",
        thinking="medium",
        limits=LimitSettings(max_turns=60, budget=2.0),
        origins={
            "model": FILE,
            "thinking": "CODEAGENT_THINKING",
            "limits.budget": FILE,
            "limits.max_turns": ".codeagent/config.toml",
        },
    )
    return settings_facts(every_setting(settings, all_extensions().sections), FILE)


def usage() -> Facts:
    requests = [
        SpentRequest(
            origin="",
            seq=day,
            at=NOON - 86_400 * (day % 9),
            model=model,
            input_tokens=tokens_in * (1 + day * day % 7),
            output_tokens=tokens_out,
            cache_read_tokens=tokens_in // 2,
            nanodollars=None if cost is None else cost * (1 + day * day % 7),
        )
        for day in range(20)
        for model, (tokens_in, tokens_out, cost) in SPENT.items()
    ]
    return usage_facts(totals([SpentSession("/home/ada/acme-api", tuple(requests))], "day"), 9)


SESSIONS: tuple[tuple[State, str, str, float, float, str], ...] = (
    ("waiting for you", "cover 1900 in the leap days", "acme-api", 0.041, 130, "asks about edit src/dates.py"),
    ("working", "move the loans to the new API", "acme-api", 0.312, 4, "bash pytest -q tests/test_loans.py"),
    ("done", "why is the import slow?", "acme-web", 0.018, 2_400, "It imports pandas for one function."),
    ("done", "write the release notes", "acme-api", 0.009, 9_000, "The notes are in CHANGELOG.md."),
    ("failed", "sort the fixtures", "acme-web", 0.0, 90_000, "the provider refused the key"),
    ("stopped", "upgrade the linter", "acme-api", 0.12, 200_000, "bash ruff check --fix"),
)  # fmt: skip


def rows() -> tuple[BoardRow, ...]:
    return tuple(
        BoardRow(
            id=f"20261128-1900{at:02}-5e55{at:04}",
            state=state,
            title=title,
            folder=f"/home/ada/{folder}",
            cost_usd=cost,
            modified=time.time() - age,
            last=last,
            in_use=at < 2,
        )
        for at, (state, title, folder, cost, age, last) in enumerate(SESSIONS)
    )


def offers() -> tuple[MergeOffer, ...]:
    old, new = Node("file", b"a\n"), Node("file", b"b\n")
    return (
        MergeOffer(Change("src/dates.py", old, new)),
        MergeOffer(Change("src/loans.py", old, new), clashes=True),
        MergeOffer(Change("tests/test_leap.py", None, new)),
    )


FINDINGS = (
    ReviewFinding(
        path="src/dates.py",
        line=42,
        severity="high",
        what="1900 counts as a leap year",
        why="`y % 4 == 0` is also true for centuries, so `days(1900)` is 366 and every later date is "
        "off by one. Add `and (y % 100 != 0 or y % 400 == 0)`, and a test for 1900 and 2000.",
    ),
    ReviewFinding(
        path="src/loans.py",
        line=7,
        severity="medium",
        what="an unknown kind raises KeyError in the middle of a request",
        why="Return the default period, or refuse the kind where it is read.",
    ),
    ReviewFinding(
        path="tests/test_dates.py",
        line=3,
        severity="low",
        what="the new branch has no test",
        why="Nothing calls `days` with a century.",
    ),
)
ANSWER = (
    "Because `test_leap` needs the fixture that the first call writes. I run it again once "
    "`src/dates.py` is changed:\n\n- first the edit you allowed\n- then `pytest -q tests`"
)


class Answered:
    """Has answered a side question."""

    async def ask(self, question: str) -> AsyncGenerator[str, None]:
        yield ANSWER


async def model_picker(pilot: Pilot[None], app: ReplayApp, folder: Path) -> None:
    marks = ModelMarksFile(folder / "state/models.json")
    marks.toggle(MarkedModel(name="anthropic/claude-opus-4-5"))
    marks.use(MarkedModel(name="openai/gpt-5"))
    app.clients[0].launcher.offered = (SILENT,)
    await enter(pilot, "/model")
    await until(pilot, lambda: isinstance(app.screen, ModelPicker) and bool(app.screen.models))
    await pilot.press("up")


async def theme_picker(pilot: Pilot[None], app: ReplayApp, folder: Path) -> None:
    await enter(pilot, "/theme")
    await until(pilot, lambda: isinstance(app.screen, ThemePicker))
    await pilot.press("down", "down")


SERVERS = Book(
    replace(GIT, shown="python3 -m mcp_server_git --repository .", details=()),
    replace(DEAD, name="linear", shown="https://mcp.linear.app/mcp", wrote=()),
    replace(WANTING, name="tracker", shown="https://tracker.example.org/mcp?key=${KEY}"),
    replace(THEIRS, name="docs", shown="npx -y @acme/docs-server --root docs"),
)


async def servers(pilot: Pilot[None], app: ReplayApp, folder: Path) -> None:
    app.clients[-1].agent.servers = SERVERS
    await enter(pilot, "/mcp")
    await until(pilot, lambda: isinstance(app.screen, ServersPage))
    await pilot.press("down")


async def server_question(pilot: Pilot[None], app: ReplayApp, folder: Path) -> None:
    await servers(pilot, app, folder)
    await pilot.press("down", "enter")
    await until(pilot, lambda: isinstance(app.screen, ServerPage))


def opens(page: Callable[[], Screen[Any]], *keys: str) -> Play:
    """Return what opens a page over the conversation, and presses keys on it."""

    async def play(pilot: Pilot[None], app: ReplayApp, folder: Path) -> None:
        app.push_screen(page())
        await pilot.pause(0.5)
        await pilot.press(*keys)

    return play


def _board() -> Screen[Any]:
    return BoardPage(rows, lambda session: "")


def _merge() -> Screen[Any]:
    return merge_picker(Path("/home/ada/acme-api"), offers())


def _findings() -> Screen[Any]:
    return FindingsScreen(FINDINGS, Path.cwd())


def _aside() -> Screen[Any]:
    return AsidePanel(Answered(), "why did you skip the second test?")  # type: ignore[arg-type]  # it answers as one does


_FINISHED = after_failing_tests()
SCENES = {
    **{
        name: Scene(_FINISHED, (80, 24), opens(lambda facts=facts: FactsPage(facts()), "down"))
        for name, facts in (("context", context), ("config", config), ("usage", usage))
    },
    "board": Scene(_FINISHED, (100, 24), opens(_board)),
    "merge": Scene(_FINISHED, (100, 24), opens(_merge)),
    "findings": Scene(Recording(), (100, 22), opens(_findings)),
    "btw": Scene(running_tests(), (100, 26), opens(_aside), seconds=0),
    "model-picker": Scene(
        _FINISHED, (116, 32), model_picker, status={"cost_usd": 0.041, "phase": "idle"}
    ),
    "servers": Scene(_FINISHED, (100, 16), servers),
    "server-question": Scene(_FINISHED, (100, 16), server_question),
    "theme-picker": Scene(asks_to_edit(), (116, 32), theme_picker),
}
PICTURES = {name: scene.draw for name, scene in SCENES.items()}
