"""`/model` lists what can be asked, with columns, favourites first, while answers still come;
`/effort` lists what the model takes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from codeagent.config.model_marks import MarkedModel, ModelMarksFile
from codeagent.core.acts import SetEffort, SetModel
from codeagent.core.model import ModelFacts, ModelInUse
from codeagent.tui.launcher import ModelOffer, ModelRow
from codeagent.tui.pages.models import ModelPicker
from codeagent.tui.pages.picker import Picker
from tests.table import for_each
from tests.tui.model_scenes import LOCAL, ROWS
from tests.tui.pages.stand_in import MANNERS
from tests.tui.replay import ReplayApp, enter, settled, until

SONNET = MarkedModel(name="anthropic/claude-sonnet-4-5")
QWEN = MarkedModel(name="openai/qwen3-coder-30b", api_base=LOCAL)


def shown(app: ReplayApp) -> list[str]:
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


def listed(app: ReplayApp) -> list[str]:
    """The rows of the list, without the mark."""
    rows = shown(app)
    head = next(at for at, row in enumerate(rows) if row.strip().startswith("model "))
    page = app.screen
    assert isinstance(page, ModelPicker)
    return [row[3:] for row in rows[head + 1 :][: page.list.size.height]]


def in_use(app: ReplayApp, **model: str | None) -> None:
    app.clients[0].agent_shown.model = ModelInUse(**{"name": SONNET.name, **model})  # type: ignore[arg-type]  # by name


async def opened(pilot: Pilot[None], app: ReplayApp, *offers: ModelOffer) -> None:
    await settled(pilot)
    app.clients[0].launcher.offered = offers or (ModelOffer(ROWS),)
    await enter(pilot, "/model")
    await until(pilot, lambda: isinstance(app.screen, ModelPicker) and bool(app.screen.models))
    await pilot.pause()


@for_each(
    ("size", "row", "told"),
    [
        (
            (120, 40),
            " ●  anthropic/claude-sonnet-4-5   200k     3/15        ✓      ✓       ✓      in use, hosted",
            "next request about $0.055",
        ),
        (
            (80, 24),
            " ●  anthropic/claude-sonnet-4-5   200k     3/15        ✓      ✓       ✓",
            "next request about $0.055",
        ),
        ((60, 20), " ●  anthropic/claude-sonnet-4-5   200k     3/15", "next request about $0.055"),
    ],
)
async def test_each_fact_has_a_column_if_there_is_room_and_is_shown_for_the_marked_model(
    tmp_path: Path, size: tuple[int, int], row: str, told: str
) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, app)
        rows = "\n".join(shown(app))
        assert f" ▸{row}" in rows
        words = " ".join(rows.split())
        assert "$3 in, $15 out per million tokens · tools, thinking, images · " in words
        assert told in words
        assert all(len(each) <= size[0] for each in shown(app))


async def test_favourites_come_first_then_those_used_last(tmp_path: Path) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    marks = ModelMarksFile(tmp_path / "state/models.json")
    gone = MarkedModel(name="openai/gone", api_base=LOCAL)
    for each in (QWEN, gone):
        marks.toggle(each)
    marks.use(MarkedModel(name="openai/gpt-5"))
    missing = ModelRow(gone.name, "not listed", ready=True, api_base=gone.api_base)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app, ModelOffer((*ROWS, missing)))
        names = [row.split()[0 if row[1] == " " and row[0] == " " else 1] for row in listed(app)]
        assert names[:4] == [
            "openai/qwen3-coder-30b",
            "openai/gone",
            "openai/gpt-5",
            "anthropic/claude-sonnet-4-5",
        ]
        assert [row[:3] for row in listed(app)[:4]] == [" ★ ", " ★ ", "   ", "●  "]
        assert "not listed" in listed(app)[1]


async def test_a_key_makes_the_marked_model_a_favourite_and_says_where_that_is_kept(
    tmp_path: Path,
) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    marks = ModelMarksFile(tmp_path / "state/models.json")
    async with app.run_test(size=(140, 40)) as pilot:
        await opened(pilot, app)
        await pilot.press("ctrl+f")
        await until(pilot, lambda: "is a favourite; kept in " in shown(app)[-1])
        assert f"kept in {marks.file}".startswith(shown(app)[-1].partition("; ")[2].rstrip("…"))
        assert marks.read().favourites == (SONNET,)
        assert any("●★ anthropic/claude-sonnet-4-5" in row for row in shown(app))
        await pilot.press("ctrl+f")
        await until(pilot, lambda: "is no longer a favourite" in shown(app)[-1])
        assert marks.read().favourites == ()
        await pilot.press("end", "pagedown", "pagedown", "ctrl+f")
        await pilot.pause()
        assert marks.read().favourites == ()


async def test_a_damaged_file_of_marks_is_reported_and_the_models_are_shown(tmp_path: Path) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    file = tmp_path / "state/models.json"
    async with app.run_test(size=(140, 40)) as pilot:
        await settled(pilot)
        file.touch(0o600)
        file.write_text("{")
        await opened(pilot, app)
        assert any("models.json is damaged" in row for row in shown(app))
        await pilot.press("ctrl+f")
        await until(pilot, lambda: "models.json is damaged" in shown(app)[-1])
        assert file.read_text() == "{" and "★" not in "".join(shown(app))


async def test_the_mark_and_what_was_typed_stay_while_answers_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    answered = asyncio.Event()

    async def coming(*_: object) -> AsyncIterator[ModelOffer]:
        yield ModelOffer((ROWS[0], ROWS[3], ROWS[7]), ("openai", "mistral"))
        await answered.wait()
        new = ModelRow("anthropic/claude-new", "hosted", True, facts=ModelFacts())
        yield ModelOffer((new, *ROWS), problems=("mistral: no answer from api.mistral.ai",))

    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        monkeypatch.setattr(app.clients[0].launcher, "offers", coming)
        await opened(pilot, app)
        assert "asking openai, mistral · 4" in "\n".join(shown(app))
        await pilot.press(*"claude", "down")
        await pilot.pause()
        [marked] = [row for row in shown(app) if " ▸ " in row]
        assert "anthropic/claude-opus" in marked
        answered.set()
        await until(pilot, lambda: "4 of 10" in "\n".join(shown(app)))
        await pilot.pause()
        assert [row for row in shown(app) if " ▸ " in row] == [marked]
        rows = "\n".join(shown(app))
        assert "asking" not in rows and "! mistral: no answer from api.mistral.ai" in rows


async def test_names_of_servers_are_drawn_and_never_obeyed(tmp_path: Path) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    row = ModelRow(f"openai/{MANNERS}", MANNERS, ready=True, api_base=MANNERS)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app, ModelOffer((row,), (MANNERS,), (MANNERS,)))
        rows = "\n".join(shown(app))
        assert "\x1b" not in rows and "\u202e" not in rows and "[bold]x[/] \\x1b[2J" in rows


@for_each(
    ("server", "whose", "asked"),
    [
        (
            {"api_base": LOCAL, "server": "127.0.0.1:8080"},
            "for 127.0.0.1:8080: tried once, then kept",
            f"Paste the API key for {LOCAL}: it goes to this server only",
        ),
        ({}, "tried once, then kept", "its first letters tell the provider"),
    ],
)
async def test_the_row_for_a_key_says_which_server_the_key_goes_to(
    tmp_path: Path, server: dict[str, str], whose: str, asked: str
) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        in_use(app, **server)
        await opened(pilot, app)
        await pilot.press("end")
        await pilot.pause()
        row = next(row for row in shown(app) if "▸" in row)
        assert row.split("Paste an API key")[1].strip() == whose
        await pilot.press("enter")
        await until(pilot, lambda: any(asked in row for row in shown(app)))


async def test_what_was_chosen_is_remembered(tmp_path: Path) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    marks = ModelMarksFile(tmp_path / "state/models.json")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await pilot.press(*"qwen", "enter")
        await until(pilot, lambda: SetModel(QWEN.name, LOCAL) in app.told)
        await until(pilot, lambda: marks.read().recent == (QWEN,))
        assert ("keep", {"model": QWEN.name, "api_base": LOCAL}) in app.told


async def test_another_server_is_named_when_a_model_of_it_is_chosen(tmp_path: Path) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        agent = app.clients[0].agent_shown
        await pilot.press(*"gpt")
        agent.model = ModelInUse("openai/gpt-5", server="api.openai.com")
        await pilot.press("enter")
        said = "model: openai/gpt-5; from now on: api.openai.com; kept"
        await until(pilot, lambda: app.chat.state.status.now.screen.notice == said)


async def test_the_levels_that_the_model_takes_are_listed_and_the_chosen_one_is_kept(
    tmp_path: Path,
) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        app.clients[0].launcher.levels = (("low", "up to 4,096 tokens of thinking"), ("high", ""))
        in_use(app, effort="high")
        await enter(pilot, "/effort")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        await pilot.pause()
        rows = "\n".join(shown(app))
        assert "How much anthropic/claude-sonnet-4-5 thinks: high" in rows
        assert " ▸ high" in rows and "low   up to 4,096 tokens of thinking" in rows
        await pilot.press("up", "enter")
        await until(pilot, lambda: ("keep", {"thinking": "low"}) in app.told)
        assert SetEffort("low") in app.told


async def test_a_model_that_does_not_think_has_no_levels(tmp_path: Path) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test(size=(120, 24)) as pilot:
        await settled(pilot)
        app.clients[0].launcher.levels = ()
        await enter(pilot, "/effort")
        await until(
            pilot, lambda: "is not known to think" in app.chat.state.status.now.screen.notice
        )
        assert app.screen is app.chat
