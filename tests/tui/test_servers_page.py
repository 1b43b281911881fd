"""/mcp: what every server is, what is wrong and the next step; trust and changed tools wait for a
y."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from textual.pilot import Pilot

from codeagent.core.acts import AgreeToServer, GiveVariables, RestartServer, TrustServers
from codeagent.core.display import DiffBlock
from codeagent.extensions.mcp.config import WantedVariable
from codeagent.extensions.mcp.page import ServersScreen, servers_plain
from codeagent.tui.parts.guard import TOO_SOON
from tests.tui.fake_servers import CHANGED, DEAD, GIT, THEIRS, WANTING, Book
from tests.tui.guards import long_enough
from tests.tui.replay import ReplayApp, enter, settled, until


@asynccontextmanager
async def typed(folder: Path, book: Book | None) -> AsyncIterator[tuple[Pilot[None], ReplayApp]]:
    """The chat after `/mcp` was sent."""
    app = ReplayApp([], folder, now=0.0)
    async with app.run_test(size=(100, 40)) as pilot:
        await settled(pilot)
        app.clients[-1].agent.servers = book
        await enter(pilot, "/mcp")
        yield pilot, app
    assert app.crash is None


@asynccontextmanager
async def page(folder: Path, book: Book) -> AsyncIterator[tuple[Pilot[None], ReplayApp]]:
    async with typed(folder, book) as (pilot, app):
        await until(pilot, lambda: isinstance(app.screen, ServersScreen))
        await until(pilot, lambda: book.servers[0].name in shown(app))
        yield pilot, app


def shown(app: ReplayApp) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def test_every_server_shows_its_state_what_it_runs_and_the_next_step(tmp_path: Path) -> None:
    async with page(tmp_path, Book(GIT, DEAD, THEIRS)) as (_, app):
        text = shown(app)
    assert (
        "git · ready · 2 tools · stdio · yours" in text
        and "uvx mcp-server-git" in text
        and "status, log" in text
    )
    assert (
        "dead · failed · http · yours" in text
        and "wants you to log in" in text
        and "r starts it again" in text
    )
    assert "theirs · untrusted · stdio · from the project" in text and "npx -y theirs" in text
    assert "t trusts the project's servers" in text and "may reach x.org" in text
    assert "1 of 3 ready · 1 not trusted" in text


async def test_what_a_server_wrote_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    async with page(tmp_path, Book(DEAD)) as (_, app):
        assert "no key" in shown(app) and "\x1b" not in shown(app)


async def test_the_chosen_server_is_restarted(tmp_path: Path) -> None:
    async with page(tmp_path, Book(GIT, DEAD)) as (pilot, app):
        await pilot.press("tab", "r")
        await until(pilot, lambda: app.told == [RestartServer("dead")])
        await until(pilot, lambda: "dead is being restarted" in shown(app))


async def test_trust_is_given_by_y_once_the_question_could_be_read(tmp_path: Path) -> None:
    async with page(tmp_path, Book(THEIRS)) as (pilot, app):
        await pilot.press("y", "t", "y")
        assert app.told == [] and TOO_SOON in shown(app)
        long_enough()
        await pilot.press("y")
        await until(pilot, lambda: app.told == [TrustServers(True)])


async def test_trust_shows_the_programs_of_the_project_and_is_given_to_them_as_they_were_seen(
    tmp_path: Path,
) -> None:
    program = DiffBlock(path="tools/srv.py", before="", after="import os\n")
    book = Book(replace(THEIRS, changed=(program,)))
    async with page(tmp_path, book) as (pilot, app):
        assert "its program in the workspace" in shown(app) and "+import os" in shown(app)
        await pilot.press("a")
        assert "has nothing that waits for your agreement" in shown(app)
        await pilot.press("t")
        long_enough()
        await pilot.press("y")
        await until(pilot, lambda: app.told == [TrustServers(True, ("import os\n",))])


async def test_a_program_that_changes_after_the_question_is_not_what_a_y_starts(
    tmp_path: Path,
) -> None:
    book = Book(
        replace(THEIRS, changed=(DiffBlock(path="srv.py", before="", after="import os\n"),))
    )
    async with page(tmp_path, book) as (pilot, app):
        await pilot.press("t")
        long_enough()
        book.servers = (
            replace(THEIRS, changed=(DiffBlock(path="srv.py", before="", after="evil\n"),)),
        )
        await pilot.press("y")
        await until(pilot, lambda: "+evil" in shown(app))
        assert app.told == []


async def test_another_key_than_y_starts_nothing(tmp_path: Path) -> None:
    async with page(tmp_path, Book(THEIRS)) as (pilot, app):
        for keys in (("t", "enter"), ("t", "space", "y"), ("t", "down", "y")):
            for key in keys:
                long_enough()
                await pilot.press(key)
        await pilot.press("d")
        await until(pilot, lambda: bool(app.told))
        assert app.told == [TrustServers(False)]


async def test_what_changes_after_the_question_is_not_what_a_y_starts(tmp_path: Path) -> None:
    book = Book(THEIRS)
    async with page(tmp_path, book) as (pilot, app):
        await pilot.press("t")
        long_enough()
        book.servers = (replace(THEIRS, shown="rm -rf /"),)
        await pilot.press("y")
        await until(pilot, lambda: "rm -rf /" in shown(app))
        assert app.told == []


async def test_tools_that_changed_are_shown_as_a_difference_and_agreed_to_by_y(
    tmp_path: Path,
) -> None:
    async with page(tmp_path, Book(CHANGED)) as (pilot, app):
        assert "-Push." in shown(app) and "+Push and tell everybody." in shown(app)
        await pilot.press("a")
        assert "agree to 1 change of git? y does it" in shown(app)
        long_enough()
        await pilot.press("y")
        await until(
            pilot, lambda: app.told == [AgreeToServer("git", ("Push and tell everybody.",))]
        )


async def test_a_server_that_changes_its_state_is_shown_as_it_is_now(tmp_path: Path) -> None:
    book = Book(replace(GIT, state="starting", tools=()))
    async with page(tmp_path, book) as (pilot, app):
        book.servers = (GIT,)
        await until(pilot, lambda: "git · ready · 2 tools" in shown(app))


async def test_without_servers_the_next_step_is_said(tmp_path: Path) -> None:
    async with typed(tmp_path, None) as (pilot, app):
        said = "no MCP server; codeagent mcp add NAME URL (or NAME -- COMMAND) adds one"
        await until(pilot, lambda: said in shown(app))


async def test_a_server_that_lacks_a_variable_is_shown_as_waiting_for_it_with_the_key_that_gives_it(
    tmp_path: Path,
) -> None:
    lacks = WantedVariable("HUB_TOKEN", ("its address",), None, given=False)
    async with page(tmp_path, Book(replace(DEAD, wants=(lacks,)))) as (_, app):
        assert "dead · waits for HUB_TOKEN" in shown(app) and "failed" not in shown(app)
        assert "v gives it your HUB_TOKEN" in shown(app) and "v gives variables" in shown(app)


async def test_a_server_that_has_what_it_needs_is_shown_as_failed(tmp_path: Path) -> None:
    optional = WantedVariable("HUB_TOKEN", ("its address",), "none", given=False)
    async with page(tmp_path, Book(replace(DEAD, wants=(optional,)))) as (_, app):
        assert "dead · failed" in shown(app)


def test_what_is_copied_is_all_of_it() -> None:
    assert "uvx mcp-server-git" in servers_plain(
        (GIT, DEAD)
    ) and "wants you to log in" in servers_plain((GIT, DEAD))


async def test_of_a_projects_server_everything_is_shown_and_nothing_is_cut(tmp_path: Path) -> None:
    shown_whole = f"https://x/mcp?v=${{KEY}}&pad={'a' * 300}END"
    book = Book(
        replace(WANTING, shown=shown_whole, details=("sends A: Bearer ${KEY}", *WANTING.details))
    )
    async with page(tmp_path, book) as (_, app):
        text = shown(app)
        drawn = "".join(row.strip().removesuffix("↩") for row in text.splitlines())
        assert shown_whole in drawn and "sends A: Bearer ${KEY}" in text and "…" not in text
        assert "wants your KEY, for its address: not given" in text
        assert set(styles_of(app, "${KEY}")) == {app.palette.warning.color}


def styles_of(app: ReplayApp, text: str) -> list[object]:
    """The colours of what is drawn as exactly this text."""
    strips = app.screen._compositor.render_strips()
    found = [
        part.style.color for strip in strips for part in strip if part.text == text and part.style
    ]
    assert found
    return found


async def test_a_variable_is_given_by_y_and_the_question_names_it_and_where_it_goes(
    tmp_path: Path,
) -> None:
    async with page(tmp_path, Book(GIT, WANTING)) as (pilot, app):
        await pilot.press("tab", "v")
        text = shown(app)
        assert (
            "wanting would get your KEY: its value goes wherever the name is marked below." in text
        )
        assert (
            "https://x/mcp?v=${KEY}" in text
            and "give wanting 1 variable of yours? y does it" in text
        )
        assert "uvx mcp-server-git" not in text
        long_enough()
        await pilot.press("y")
        await until(pilot, lambda: app.told == [GiveVariables("wanting", ("KEY",), WANTING.said)])


async def test_a_server_that_wants_nothing_or_is_not_trusted_is_given_nothing(
    tmp_path: Path,
) -> None:
    async with page(tmp_path, Book(GIT, replace(WANTING, state="untrusted"))) as (pilot, app):
        await pilot.press("v")
        await until(pilot, lambda: "git wants no variable that it does not have" in shown(app))
        await pilot.press("tab", "v")
        await until(pilot, lambda: "trust the project's servers first" in shown(app))
        long_enough()
        await pilot.press("y")
        assert app.told == []


async def test_an_address_that_changes_while_the_question_waits_is_given_no_variable(
    tmp_path: Path,
) -> None:
    book = Book(WANTING)
    async with page(tmp_path, book) as (pilot, app):
        await pilot.press("v")
        long_enough()
        book.servers = (replace(WANTING, shown="https://evil/?v=${KEY}"),)
        await pilot.press("y")
        await until(pilot, lambda: "https://evil" in shown(app))
        assert app.told == []


async def test_a_question_longer_than_the_screen_is_answered_at_its_end(tmp_path: Path) -> None:
    long = replace(THEIRS, details=tuple(f"gets A{number}=1" for number in range(90)))
    async with page(tmp_path, Book(long)) as (pilot, app):
        await pilot.press("t")
        for _ in range(2):
            long_enough()
            assert "gets A89=1" not in shown(app)
            await pilot.press("y")
            assert app.told == []
            await pilot.pause()
        await until(pilot, lambda: "gets A89=1" in shown(app))
        long_enough()
        await pilot.press("y")
        await until(pilot, lambda: app.told == [TrustServers(True)])
