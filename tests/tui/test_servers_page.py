"""/mcp: what every server is and what is wrong; Enter opens it, or asks what is to be decided: trust,
changed tools and variables wait for a y."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from textual.pilot import Pilot

from codeagent.core.acts import AgreeToServer, GiveVariables, RestartServer, TrustServers
from codeagent.core.display import DiffBlock
from codeagent.extensions.mcp.config import WantedVariable
from codeagent.extensions.mcp.page import DISTRUSTED, ServerPage, ServersPage, servers_facts
from codeagent.tui.facts import Fact
from codeagent.tui.pages.info import OutputScreen
from codeagent.tui.parts.guard import TOO_SOON
from tests.table import for_each
from tests.tui.fake_servers import CHANGED, DEAD, GIT, THEIRS, WANTING, Book
from tests.tui.guards import long_enough
from tests.tui.replay import ReplayApp, enter, settled, until


@asynccontextmanager
async def page(
    folder: Path, book: Book | None, size: tuple[int, int] = (100, 40)
) -> AsyncIterator[tuple[Pilot[None], ReplayApp]]:
    """The page after `/mcp` was sent."""
    app = ReplayApp([], folder, now=0.0)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        app.clients[-1].agent.servers = book
        await enter(pilot, "/mcp")
        await until(pilot, lambda: isinstance(app.screen, ServersPage))
        await until(pilot, lambda: "Enter" in shown(app))
        yield pilot, app
    assert app.crash is None


@asynccontextmanager
async def question(
    folder: Path, book: Book, *keys: str
) -> AsyncIterator[tuple[Pilot[None], ReplayApp]]:
    """What Enter asks about the server that the keys mark."""
    async with page(folder, book) as (pilot, app):
        await pilot.press(*keys, "enter")
        await until(pilot, lambda: isinstance(app.screen, ServerPage))
        await until(pilot, lambda: book.servers[-1].shown[:20] in shown(app))
        yield pilot, app


def shown(app: ReplayApp) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def row(app: ReplayApp, name: str) -> str:
    """The row of a server, with one blank between its cells."""
    lines = (" ".join(line.split()) for line in shown(app).splitlines())
    return next(
        line.removeprefix("▸ ") for line in lines if line.removeprefix("▸ ").startswith(name)
    )


@for_each("size", [(60, 20), (80, 24), (120, 40), (200, 60)])
async def test_every_server_is_a_row_whose_columns_are_aligned_at_every_size(
    size: tuple[int, int], tmp_path: Path
) -> None:
    folder = tmp_path / str(size[0])
    folder.mkdir()
    async with page(folder, Book(GIT, DEAD, THEIRS), size) as (_, app):
        head, *rows = (line for line in shown(app).splitlines()[1:5])
        assert [head.split()[:4], *(line.split()[:3] for line in rows)] == [
            ["server", "state", "tools", "from"],
            ["▸", "git", "ready"],
            ["dead", "failed", "you"],
            ["theirs", "not", "trusted"],
        ]
        assert len({head.index("from"), *(line.index(" you") + 1 for line in rows[:2])}) == 1
        assert "1 of 3 ready · 1 not trusted" in shown(app) and "Enter opens it" in shown(app)


async def test_what_is_wrong_is_said_of_the_marked_server_and_enter_opens_all_of_it(
    tmp_path: Path,
) -> None:
    async with page(tmp_path, Book(GIT, DEAD)) as (pilot, app):
        await pilot.press("down")
        await until(pilot, lambda: "it wants you to log in · no key" in shown(app))
        assert "\x1b" not in shown(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, OutputScreen))
        await until(pilot, lambda: "the end of what it wrote" in shown(app))
        assert "https://x/mcp" in shown(app) and "\x1b" not in shown(app)
        await pilot.press("escape", "up", "enter")
        await until(pilot, lambda: "tools: status, log" in shown(app))
        assert "gets TOKEN" in shown(app)


async def test_the_filter_finds_a_server_by_what_it_runs(tmp_path: Path) -> None:
    async with page(tmp_path, Book(GIT, DEAD, THEIRS)) as (pilot, app):
        await pilot.press("slash", *"npx")
        await until(pilot, lambda: "1 of 3" in shown(app) and "git" not in shown(app))
        assert "Enter asks whether to trust it" in shown(app)


async def test_the_marked_server_is_restarted(tmp_path: Path) -> None:
    async with page(tmp_path, Book(GIT, DEAD)) as (pilot, app):
        await pilot.press("down", "r")
        await until(pilot, lambda: app.told == [RestartServer("dead")])
        await until(pilot, lambda: "dead is being restarted" in shown(app))


async def test_trust_is_given_by_y_once_the_question_could_be_read(tmp_path: Path) -> None:
    async with question(tmp_path, Book(THEIRS)) as (pilot, app):
        assert "may reach x.org" in shown(app) and "none of them was started" in shown(app)
        await pilot.press("y")
        assert app.told == [] and TOO_SOON in shown(app)
        long_enough()
        await pilot.press("y")
        await until(pilot, lambda: app.told == [TrustServers(True)])
        await until(pilot, lambda: isinstance(app.screen, ServersPage))


async def test_trust_shows_the_programs_of_the_project_and_is_given_to_them_as_they_were_seen(
    tmp_path: Path,
) -> None:
    program = DiffBlock(path="tools/srv.py", before="", after="import os\n")
    book = Book(replace(THEIRS, changed=(program,)))
    async with question(tmp_path, book) as (pilot, app):
        assert "its program in the workspace" in shown(app) and "+import os" in shown(app)
        assert "y trusts this project and starts 1 server" in shown(app)
        long_enough()
        await pilot.press("y")
        await until(pilot, lambda: app.told == [TrustServers(True, ("import os\n",))])


async def test_a_program_that_changes_after_the_question_is_not_what_a_y_starts(
    tmp_path: Path,
) -> None:
    book = Book(
        replace(THEIRS, changed=(DiffBlock(path="srv.py", before="", after="import os\n"),))
    )
    async with question(tmp_path, book) as (pilot, app):
        long_enough()
        book.servers = (
            replace(THEIRS, changed=(DiffBlock(path="srv.py", before="", after="evil\n"),)),
        )
        await pilot.press("y")
        await until(pilot, lambda: "+evil" in shown(app))
        assert app.told == []


async def test_another_key_than_y_starts_nothing(tmp_path: Path) -> None:
    async with question(tmp_path, Book(THEIRS)) as (pilot, app):
        for key in ("enter", "space", "down", "r", "d", "t", "a", "v", "escape"):
            long_enough()
            await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, ServersPage))
        assert app.told == []
        await pilot.press("d")
        await until(pilot, lambda: app.told == [TrustServers(False)])
        await until(pilot, lambda: DISTRUSTED in shown(app))


async def test_what_changes_after_the_question_is_not_what_a_y_starts(tmp_path: Path) -> None:
    book = Book(THEIRS)
    async with question(tmp_path, book) as (pilot, app):
        long_enough()
        book.servers = (replace(THEIRS, shown="rm -rf /"),)
        await pilot.press("y")
        await until(pilot, lambda: "rm -rf /" in shown(app))
        assert app.told == []


async def test_a_question_about_what_was_decided_elsewhere_goes_away(tmp_path: Path) -> None:
    book = Book(THEIRS)
    async with question(tmp_path, book) as (pilot, app):
        long_enough()
        book.servers = (replace(THEIRS, state="starting"),)
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, ServersPage))
        assert app.told == []


async def test_tools_that_changed_are_shown_as_a_difference_and_agreed_to_by_y(
    tmp_path: Path,
) -> None:
    async with question(tmp_path, Book(CHANGED)) as (pilot, app):
        assert "-Push." in shown(app) and "+Push and tell everybody." in shown(app)
        assert "y agrees to 1 change" in shown(app)
        long_enough()
        await pilot.press("y")
        await until(
            pilot, lambda: app.told == [AgreeToServer("git", ("Push and tell everybody.",))]
        )


async def test_a_server_that_changes_its_state_is_shown_as_it_is_now(tmp_path: Path) -> None:
    book = Book(replace(GIT, state="starting", tools=()))
    async with page(tmp_path, book) as (pilot, app):
        assert row(app, "git").startswith("git starting you")
        book.servers = (GIT,)
        await until(pilot, lambda: row(app, "git").startswith("git ready 2 you"))


@for_each("book", [None, Book()])
async def test_without_servers_enter_copies_the_command_that_adds_one(
    book: Book | None, tmp_path: Path
) -> None:
    folder = tmp_path / str(book is None)
    folder.mkdir()
    async with page(folder, book) as (pilot, app):
        assert "No servers yet" in shown(app) and "Enter copies the command" in shown(app)
        await pilot.press("down", "enter")
        await until(pilot, lambda: "copied" in shown(app))
        assert app.clipboard == "codeagent mcp add NAME -- COMMAND"


async def test_a_server_that_lacks_a_variable_is_shown_as_waiting_for_it(tmp_path: Path) -> None:
    lacks = WantedVariable("HUB_TOKEN", ("its address",), None, given=False)
    async with page(tmp_path, Book(replace(DEAD, wants=(lacks,)))) as (_, app):
        assert "waits for HUB_TOKEN" in row(app, "dead") and "failed" not in shown(app)
        assert "Enter asks whether to give it HUB_TOKEN" in shown(app)


def test_a_server_that_has_what_it_needs_is_shown_as_failed() -> None:
    optional = WantedVariable("HUB_TOKEN", ("its address",), "none", given=False)
    (fact,) = (
        each
        for each in servers_facts((replace(DEAD, wants=(optional,)),)).rows
        if isinstance(each, Fact)
    )
    assert fact.cells[:2] == ("dead", "failed")


async def test_all_of_a_server_that_asks_is_copied(tmp_path: Path) -> None:
    async with question(tmp_path, Book(CHANGED)) as (pilot, app):
        await pilot.press("c")
        await until(pilot, lambda: "uvx mcp-server-git" in app.clipboard)
        assert "+Push and tell everybody." in app.clipboard


async def test_of_a_projects_server_everything_is_shown_and_nothing_is_cut(tmp_path: Path) -> None:
    shown_whole = f"https://x/mcp?v=${{KEY}}&pad={'a' * 300}END"
    book = Book(
        replace(WANTING, shown=shown_whole, details=("sends A: Bearer ${KEY}", *WANTING.details))
    )
    async with question(tmp_path, book) as (_, app):
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
    async with question(tmp_path, Book(GIT, WANTING), "down") as (pilot, app):
        text = shown(app)
        assert (
            "wanting would get your KEY: its value goes wherever the name is marked below." in text
        )
        assert "https://x/mcp?v=${KEY}" in text and "y gives it 1 variable of yours" in text
        assert "uvx mcp-server-git" not in text
        long_enough()
        await pilot.press("y")
        await until(pilot, lambda: app.told == [GiveVariables("wanting", ("KEY",), WANTING.said)])


async def test_a_server_that_is_not_trusted_asks_for_trust_before_it_asks_for_variables(
    tmp_path: Path,
) -> None:
    async with question(tmp_path, Book(replace(WANTING, state="untrusted"))) as (pilot, app):
        assert "y trusts this project" in shown(app)
        long_enough()
        await pilot.press("y")
        await until(pilot, lambda: app.told == [TrustServers(True)])


async def test_an_address_that_changes_while_the_question_waits_is_given_no_variable(
    tmp_path: Path,
) -> None:
    book = Book(WANTING)
    async with question(tmp_path, book) as (pilot, app):
        long_enough()
        book.servers = (replace(WANTING, shown="https://evil/?v=${KEY}"),)
        await pilot.press("y")
        await until(pilot, lambda: "https://evil" in shown(app))
        assert app.told == []


async def test_a_question_longer_than_the_screen_is_answered_at_its_end(tmp_path: Path) -> None:
    long = replace(THEIRS, details=tuple(f"gets A{number}=1" for number in range(90)))
    async with question(tmp_path, Book(long)) as (pilot, app):
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
