"""/tools: where every tool comes from, what is wrong with which file, and which files wait for
trust."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from textual.pilot import Pilot

from codeagent.core.acts import SetToolset, TrustTools
from codeagent.core.toolbox import Toolbox, ToolsetSummary
from codeagent.tui.pages.facts import FactsPage
from codeagent.tui.pages.tools import ToolsScreen, tools_pieces, trust_text
from codeagent.tui.parts.guard import TOO_SOON
from codeagent.tui.rendering.palette import Palette
from tests.table import for_each
from tests.tui.guards import long_enough
from tests.tui.job_scenes import TOOLBOX
from tests.tui.replay import ReplayApp, enter, settled, until


@asynccontextmanager
async def typed(
    line: str, folder: Path, toolbox: Toolbox | None = TOOLBOX
) -> AsyncIterator[tuple[Pilot[None], ReplayApp]]:
    """The chat after that line was sent."""
    app = ReplayApp([], folder, now=0.0)
    async with app.run_test(size=(100, 40)) as pilot:
        await settled(pilot)
        app.clients[-1].tools_in_use = toolbox
        await enter(pilot, line)
        yield pilot, app
    assert app.crash is None


@asynccontextmanager
async def page(
    folder: Path, toolbox: Toolbox = TOOLBOX, line: str = "/tools"
) -> AsyncIterator[tuple[Pilot[None], ReplayApp]]:
    async with typed(line, folder, toolbox) as (pilot, app):
        await until(pilot, lambda: isinstance(app.screen, ToolsScreen))
        await until(pilot, lambda: "Built in" in shown(app))
        yield pilot, app


def shown(app: ReplayApp) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def test_tools_stand_below_where_they_come_from_with_what_holds_for_them(
    tmp_path: Path,
) -> None:
    async with page(tmp_path) as (_, app):
        text = shown(app)
        places = [
            text.index(heading) for heading in ("Built in", "From Python files", "From YAML files")
        ]
        assert places == sorted(places)
        assert "background · on your machine · .codeagent/tools/deploy.py:12" in text
        assert "in the sandbox · ~/.config/codeagent/tools/lint.yaml:1" in text


async def test_problems_name_file_line_and_key_in_full(tmp_path: Path) -> None:
    long = replace(
        TOOLBOX.problems[1], where=".codeagent/tools/" + "deep/" * 30 + "report.yaml:4: timeout"
    )
    async with page(tmp_path, replace(TOOLBOX, problems=(*TOOLBOX.problems, long))) as (_, app):
        text = shown(app)
        assert (
            ".codeagent/tools/broken.py:7" in text
            and "expected ':' after the function's signature" in text
        )
        assert "error" in text and "warning" in text
        assert "".join(text.split()).count("report.yaml:4:timeout") == 2


def test_nothing_of_a_long_problem_is_left_out() -> None:
    long = replace(TOOLBOX.problems[0], text="expected " * 300 + "a colon")
    (piece,) = tools_pieces(replace(TOOLBOX, problems=(long,)))
    text = " ".join(found.strip.text for found in piece(80, Palette()))
    assert text.count("expected") == 300 and "a colon" in text


async def test_t_asks_and_y_loads_what_waits(tmp_path: Path) -> None:
    async with page(tmp_path) as (pilot, app):
        assert "Python tools of this project run on your machine, as you" in shown(app)
        await pilot.press("t")
        assert app.told == [] and "trust 2 files? y loads them" in shown(app)
        long_enough()
        await pilot.press("y")
        await until(pilot, lambda: app.told == [TrustTools(True, "")])
        await until(pilot, lambda: "loaded" in shown(app).splitlines()[-1])


async def test_a_y_that_was_typed_before_the_question_could_be_read_loads_nothing(
    tmp_path: Path,
) -> None:
    async with page(tmp_path, line="/tools trust") as (pilot, app):
        await until(pilot, lambda: "trust 2 files? y loads them" in shown(app))
        await pilot.press("y")
        assert app.told == [] and TOO_SOON in shown(app)
        long_enough()
        await pilot.press("y")
        await until(pilot, lambda: app.told == [TrustTools(True, "")])


async def test_no_other_keys_load_anything(tmp_path: Path) -> None:
    async with page(tmp_path) as (pilot, app):
        for keys in (("y",), ("t", "down", "y"), ("t", "enter"), ("t", "space", "y"), ("t", "t")):
            app.forget()
            for key in (*keys, "d"):
                long_enough()
                await pilot.press(key)
            await until(pilot, lambda: TrustTools(False) in app.told, keys)
            assert app.told == [TrustTools(False)], keys


async def test_a_file_that_changes_after_the_question_is_asked_about_again(tmp_path: Path) -> None:
    async with page(tmp_path) as (pilot, app):
        await pilot.press("t")
        long_enough()
        app.clients[-1].tools_in_use = replace(
            TOOLBOX, untrusted=(*TOOLBOX.untrusted, ".codeagent/tools/new.py")
        )
        await pilot.press("y")
        await until(pilot, lambda: "new.py" in shown(app))
        assert app.told == []


async def test_d_trusts_them_no_more(tmp_path: Path) -> None:
    async with page(tmp_path) as (pilot, app):
        await pilot.press("d")
        await until(pilot, lambda: app.told == [TrustTools(False)])


@for_each(
    ("line", "act"),
    [
        ("/tools off web", SetToolset("web", on=False)),
        ("/tools on web", SetToolset("web", on=True)),
        ("/tools off github search  issues", SetToolset("github", False, ("search", "issues"))),
    ],
)
async def test_a_set_or_some_of_its_tools_are_turned_off_and_on_by_name(
    tmp_path: Path, line: str, act: SetToolset
) -> None:
    async with typed(line, tmp_path) as (pilot, app):
        await until(pilot, lambda: app.told == [act])


async def test_off_without_a_name_says_what_it_needs(tmp_path: Path) -> None:
    async with typed("/tools off", tmp_path) as (pilot, app):
        await until(pilot, lambda: "/tools off needs the name of a toolset" in shown(app))
        assert app.told == []


async def test_where_nothing_waits_t_says_so(tmp_path: Path) -> None:
    async with page(tmp_path, replace(TOOLBOX, untrusted=())) as (pilot, app):
        await pilot.press("t", "y")
        assert app.told == []


async def test_what_cannot_be_kept_is_told_on_the_page(tmp_path: Path) -> None:
    async with page(tmp_path) as (pilot, app):
        app.clients[-1].refusal = "trusted.json cannot be written; nothing was changed"
        await pilot.press("d")
        await until(pilot, lambda: "trusted.json cannot be written" in shown(app))


async def test_a_file_that_changes_meanwhile_shows(tmp_path: Path) -> None:
    async with page(tmp_path) as (pilot, app):
        app.clients[-1].tools_in_use = replace(TOOLBOX, problems=())
        await until(pilot, lambda: "Problems" not in shown(app))


async def test_the_command_asks_on_the_page_and_distrusts_at_once(tmp_path: Path) -> None:
    async with page(tmp_path, line="/tools trust") as (pilot, app):
        await until(pilot, lambda: "trust 2 files? y loads them" in shown(app))
        assert app.told == []
    (tmp_path / "second").mkdir()
    async with typed("/tools distrust", tmp_path / "second") as (pilot, app):
        await until(pilot, lambda: app.told == [TrustTools(False)])
        await until(pilot, lambda: "no longer loaded" in app.chat.state.status.now.screen.notice)


async def test_a_word_it_does_not_know_is_reported(tmp_path: Path) -> None:
    async with typed("/tools reload", tmp_path) as (pilot, app):
        await until(pilot, lambda: "not 'reload'" in app.chat.state.status.now.screen.notice)


async def test_where_tools_cannot_change_they_are_a_page_to_read(tmp_path: Path) -> None:
    async with typed("/tools", tmp_path, None) as (pilot, app):
        await until(pilot, lambda: isinstance(app.screen, FactsPage))


async def test_what_a_file_says_of_itself_is_drawn_and_never_obeyed(tmp_path: Path) -> None:
    tool = replace(TOOLBOX.tools[2], description="[b]\x1b[2Jdeploy", origin="a\x1b]0;x\x07.py:1")
    problem = replace(TOOLBOX.problems[0], where="b\x1b[2J.py:1", text="[red]\x1b[31mwrong")
    async with page(tmp_path, Toolbox((TOOLBOX.tools[0], tool), (problem,), ("c\x1b[2J.py",))) as (
        _,
        app,
    ):
        assert "\x1b" not in shown(app) and "[red]" in shown(app)


async def test_toolsets_are_listed_with_their_state_and_the_tools_that_are_on_name_theirs(
    tmp_path: Path,
) -> None:
    tool = replace(TOOLBOX.tools[0], name="search_issues", source="mcp", toolset="github")
    sets = (
        ToolsetSummary("github", "ready", "issues and pull requests", 40, 1),
        ToolsetSummary("web", "waiting", "fetch pages", 1, 0),
        ToolsetSummary("linear", "failed", "tickets", 0, 0, "connection refused"),
    )
    box = replace(TOOLBOX, tools=(*TOOLBOX.tools, tool), toolsets=sets)
    async with page(tmp_path, box) as (pilot, app):
        await pilot.press("end")
        await until(pilot, lambda: "linear" in shown(app))
        text = shown(app)
    assert "toolset github" in text and "on · 1 of 40 tools" in text and "off · 1 tool" in text
    assert (
        "failed, will be tried again · 0 tools" in text
        and "connection refused" in text
        and "tickets" not in text
    )


async def test_files_that_are_rewritten_under_their_names_while_the_question_waits_are_not_loaded(
    tmp_path: Path,
) -> None:
    async with page(tmp_path, replace(TOOLBOX, digest="shown")) as (pilot, app):
        await pilot.press("t")
        long_enough()
        app.clients[-1].tools_in_use = replace(TOOLBOX, digest="another")
        await pilot.press("y")
        await pilot.pause()
        assert app.told == []
        await pilot.press("t")
        long_enough()
        await pilot.press("y")
        await until(pilot, lambda: app.told == [TrustTools(True, "another")])


def test_the_question_of_trust_names_what_the_files_are() -> None:
    assert "Python" in trust_text([".codeagent/tools/words.py"])
    agent = trust_text([".codeagent/agents/reviewer.md"])
    assert agent.startswith("Agents of this project") and "Python" not in agent
    both = trust_text([".codeagent/tools/words.py", ".codeagent/tools/todos.yaml"])
    assert "Python tools" in both and "Tool files" in both
