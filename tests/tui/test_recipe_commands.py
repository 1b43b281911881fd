"""A recipe on the screen: completed like a command, trusted by a question, asked for what is
missing, and run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from textual.pilot import Pilot

from codeagent.core.acts import RunRecipe
from codeagent.core.recipes import Recipe, RecipeInput, RecipeStep
from codeagent.extensions.recipes.page import ValuePicker, recipes_markdown
from codeagent.tui.launcher import LaunchOptions
from codeagent.tui.pages.info import TextScreen
from codeagent.tui.pages.opening import FolderQuestion
from codeagent.tui.parts.suggestions import Completion
from tests.fakes import FakeRecipes
from tests.tui.fake_launcher import FakeLauncher
from tests.tui.guards import long_enough
from tests.tui.guards import stop_time as stop_time
from tests.tui.replay import ReplayApp, enter, until

INPUTS = (
    RecipeInput("project", "path", description="the folder"),
    RecipeInput("depth", "integer", required=False, default=2),
    RecipeInput("tone", "choice", choices=("kind", "harsh")),
)
REVIEW = Recipe(
    "review",
    "Review one folder.",
    (RecipeStep("1", "Review it."),),
    "review.md",
    "project",
    INPUTS,
    trusted=True,
)
NOTES = Recipe(
    "notes",
    "Write notes.",
    (RecipeStep("1", "Do ``` it."),),
    ".codeagent/commands/notes.md",
    "project",
)


@asynccontextmanager
async def chat(
    folder: Path, *listed: Recipe, off: tuple[str, ...] = (), **options: Any
) -> AsyncIterator[tuple[Pilot[None], ReplayApp]]:
    app = ReplayApp([], folder, now=0.0, options=LaunchOptions(**options), off=off)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.settled)
        launcher = app.clients[-1].launcher
        assert isinstance(launcher, FakeLauncher)
        launcher.book = FakeRecipes(*listed)
        yield pilot, app
    assert app.crash is None


def notice(app: ReplayApp) -> str:
    return app.chat.state.status.now.screen.notice


def shown(app: ReplayApp) -> list[str]:
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


async def test_a_recipe_is_completed_with_its_inputs_and_what_it_is_for(tmp_path: Path) -> None:
    async with chat(tmp_path, REVIEW, NOTES) as (pilot, app):
        await app.chat.conversation.offer_more(app.chat.composer)
        await pilot.press("/", "r", "e", "v")
        await until(pilot, lambda: app.chat.composer.choices.is_open)
        (row,) = [line for line in shown(app) if "/review" in line and "<project>" in line]
        assert row == " ▸ /review  <project> [depth] <tone> · Review one folder."
        await pilot.press("tab")
        assert app.chat.composer.text == "/review "


async def test_recipes_are_read_once_for_a_prompt_and_not_before_it_begins_with_a_slash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    recipes = FakeLauncher.recipes
    monkeypatch.setattr(FakeLauncher, "recipes", lambda self: read.append(self) or recipes(self))
    async with chat(tmp_path, NOTES) as (pilot, app):
        composer = app.chat.composer
        await pilot.press(*"go on", "enter")
        await until(pilot, lambda: bool(app.told))
        assert read == []
        await pilot.press("/")
        await until(pilot, lambda: composer.choices.is_open and not composer.awaits_commands)
        await pilot.press("n", "o", "t")
        assert len(read) == 1
        assert composer.choices.chosen == Completion("/notes", "/notes ", "Write notes.")


async def test_enter_runs_a_recipe_that_was_typed_before_the_recipes_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Event()
    recipes = FakeLauncher.recipes
    monkeypatch.setattr(FakeLauncher, "recipes", lambda self: read.wait() and recipes(self))
    async with chat(tmp_path, replace(REVIEW, name="pr", inputs=())) as (pilot, app):
        await pilot.press("/", "p", "r")
        guess = app.chat.composer.choices.chosen  # another command with these letters
        await pilot.press("enter")
        read.set()
        assert guess is not None and app.chat.composer.text == ""
        await until(pilot, lambda: bool(app.told))
        assert [type(act) for act in app.told] == [RunRecipe]


async def test_its_inputs_are_completed_by_name_and_enter_sends_what_is_typed(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path, REVIEW) as (pilot, app):
        composer = app.chat.composer
        await app.chat.conversation.offer_more(composer)
        await pilot.press(*"/review ")
        await until(pilot, lambda: composer.choices.is_open)
        assert [line for line in shown(app) if line.startswith((" ▸ ", "   ")) and "=" in line] == [
            " ▸ project=  a path in the workspace: the folder",
            "   depth=    a whole number",
            "   tone=     one of kind, harsh",
        ]
        await pilot.press("t", "tab", *"kind", "space")
        assert composer.text == "/review tone=kind "
        await until(pilot, lambda: not any("tone=  " in line for line in shown(app)))
        await pilot.press(*"src", "enter")
        await until(pilot, lambda: bool(app.told))
        assert app.told == [RunRecipe(REVIEW, {"project": "src", "depth": 2, "tone": "kind"})]


async def test_its_inputs_are_given_by_name_or_by_position(tmp_path: Path) -> None:
    async with chat(tmp_path, REVIEW) as (pilot, app):
        await enter(pilot, "/review src tone=kind")
        await until(pilot, lambda: bool(app.told))
        assert app.told == [RunRecipe(REVIEW, {"project": "src", "depth": 2, "tone": "kind"})]
        assert app.chat.composer.text == ""


async def test_what_is_missing_is_asked_for_one_after_the_other(tmp_path: Path) -> None:
    async with chat(tmp_path, REVIEW) as (pilot, app):
        await enter(pilot, "/review")
        await until(pilot, lambda: isinstance(app.screen, ValuePicker))
        assert any("/review · project · the folder" in line for line in shown(app))
        await pilot.press(*"src/d", "enter")
        await until(pilot, lambda: any("/review · tone" in line for line in shown(app)))
        await pilot.press("down", "enter")
        await until(pilot, lambda: bool(app.told))
        assert app.told == [
            RunRecipe(REVIEW, {"project": "src/dates.py", "depth": 2, "tone": "harsh"})
        ]


async def test_a_typed_value_that_does_not_fit_is_said_and_the_question_stays(
    tmp_path: Path,
) -> None:
    count = Recipe(
        "count", "", REVIEW.steps, "c.md", "user", (RecipeInput("n", "integer"),), trusted=True
    )
    async with chat(tmp_path, count) as (pilot, app):
        await enter(pilot, "/count")
        await until(pilot, lambda: isinstance(app.screen, ValuePicker))
        await pilot.press("x", "enter")
        await until(
            pilot, lambda: any("n must be a whole number, not 'x'" in line for line in shown(app))
        )
        await pilot.press("backspace", "7", "enter")
        await until(pilot, lambda: bool(app.told))
        assert app.told == [RunRecipe(count, {"n": 7})]


async def test_esc_in_the_question_runs_nothing_and_up_brings_the_line_back(tmp_path: Path) -> None:
    async with chat(tmp_path, REVIEW) as (pilot, app):
        await enter(pilot, "/review tone=kind")
        await until(pilot, lambda: isinstance(app.screen, ValuePicker))
        await pilot.press("escape")
        await until(
            pilot,
            lambda: notice(app) == "/review was not run: project is missing · Up brings it back",
        )
        await pilot.press("up")
        assert app.told == [] and app.chat.composer.text == "/review tone=kind"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "/review src depth=x tone=no",
            "the recipe review was not run: depth must be a whole number, not 'x'; tone",
        ),
        ("/review a 1 kind b", "/review takes <project> [depth] <tone>, not also 'b'"),
        ("/reviw src", "unknown command /reviw; did you mean /review?"),
    ],
)
async def test_what_is_wrong_is_said_and_up_brings_the_line_back(
    tmp_path: Path, line: str, said: str
) -> None:
    async with chat(tmp_path, REVIEW) as (pilot, app):
        await enter(pilot, line)
        await until(pilot, lambda: notice(app).startswith(said))
        assert app.chat.composer.text == ""
        await pilot.press("up")
        assert app.chat.composer.text == line
        assert app.told == []


async def test_a_projects_recipe_runs_only_once_it_is_trusted(tmp_path: Path) -> None:
    async with chat(tmp_path, NOTES) as (pilot, app):
        await enter(pilot, "/notes")
        await until(pilot, lambda: isinstance(app.screen, FolderQuestion))
        assert any(".codeagent/commands/notes.md" in line for line in shown(app))
        await pilot.press("n")
        await until(
            pilot,
            lambda: notice(app).startswith(
                "/notes was not run: /recipes shows the recipes of this"
            ),
        )
        assert app.told == []
        await pilot.press("up")
        assert app.chat.composer.text == "/notes"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, FolderQuestion))
        long_enough()
        await pilot.press("y")
        await until(pilot, lambda: bool(app.told))
        assert [(act.recipe.name, act.recipe.trusted) for act in app.told] == [("notes", True)]


async def test_a_mode_of_the_command_line_is_only_tightened(tmp_path: Path) -> None:
    async with chat(tmp_path, REVIEW, mode="ask") as (pilot, app):
        await enter(pilot, "/review src tone=kind")
        await until(pilot, lambda: bool(app.told))
        assert app.told[0].tightens


async def test_the_page_shows_every_recipe_in_full(tmp_path: Path) -> None:
    async with chat(tmp_path, REVIEW, NOTES) as (pilot, app):
        await enter(pilot, "/recipes")
        await until(pilot, lambda: isinstance(app.screen, TextScreen))
        text = recipes_markdown(FakeRecipes(REVIEW, NOTES))
    assert (
        "## /review <project> [depth] <tone>" in text
        and "- `project`: a path in the workspace. the folder" in text
    )
    assert (
        "These are not trusted yet; `/recipes trust` asks about them: .codeagent/commands/notes.md"
        in text
    )
    assert "````text\nDo ``` it.\n````" in text


async def test_with_the_room_off_its_commands_are_unknown_with_the_reason(tmp_path: Path) -> None:
    async with chat(tmp_path, REVIEW, off=("recipes",)) as (pilot, app):
        await enter(pilot, "/recipes")
        await until(pilot, lambda: "recipes is switched off" in notice(app))
        await enter(pilot, "/review src tone=kind")
        await until(pilot, lambda: "unknown command /review" in notice(app))
        assert app.told == []
