"""The questions about a project's own files, and those of the screen, as scenarios like those of
`bound_questions`."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import patch

from codeagent.app import LocalApp
from codeagent.commands.launcher import LocalLauncher
from codeagent.config.kept import TrustFile
from codeagent.config.local_environment import LocalEnvironment, config_dir, git_elsewhere
from codeagent.config.settings import Settings
from codeagent.core.acts import RunRecipe
from codeagent.core.errors import ConfigError, SandboxUnavailable
from codeagent.core.recipes import Recipe, find_recipe
from codeagent.core.sandbox import RunningProgram, StdioProgram
from codeagent.extensions.images.plan import RepositoryImages
from codeagent.extensions.mcp.config import ServerStatus
from codeagent.extensions.mcp.servers import McpServers
from codeagent.extensions.mcp.source import ServerHost
from codeagent.extensions.recipes.recipe_folders import RecipeFolders, recipe_folders
from codeagent.tui.launcher import Consent, LaunchOptions
from codeagent.tui.parts.card_content import CardAct, StartPlan
from codeagent.tui.state import PlanReady
from tests.agent.watching import until
from tests.extensions.mcp.setting import hostile
from tests.security.bound_questions import Outcome
from tests.tools.catalog_setting import Setting
from tests.tui.parts.cards import CardApp, command


async def tools(folder: Path, change: bool) -> Outcome:
    """A tool file, or one that describes an agent, is rewritten under its name, and the session
    reads it again."""
    setting = Setting(folder)
    setting.write("project", "a.txt", "shown")
    catalog = setting.catalog()
    catalog.look()
    seen = catalog.now
    assert seen.untrusted and "shown" not in catalog
    if change:
        setting.write("project", "a.txt", "another")
        catalog.look()
        assert catalog.now.untrusted == seen.untrusted
    try:
        await catalog.files.trust(seen.digest)
    except ConfigError as error:
        catalog.look()
        return Outcome("another" in catalog or "shown" in catalog, str(error))
    catalog.look()
    return Outcome("shown" in catalog, "")


async def _no_program(program: StdioProgram) -> RunningProgram:
    raise SandboxUnavailable("it would be started", "look at it")


def _servers(folder: Path, entry: dict[str, Any]) -> McpServers:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    _write_servers(folder, entry)
    local = LocalEnvironment(
        work, folder / "state", {"KEY": "hush-hush"}, config_dir=folder / "config"
    )
    return McpServers(local, ServerHost(work, {"sandbox": _no_program}, folder / "state/mcp"))


def _write_servers(folder: Path, entry: dict[str, Any]) -> None:
    (folder / "work/.mcp.json").write_text(json.dumps({"mcpServers": {"one": entry}}))


def _facts(book: McpServers) -> ServerStatus:
    [facts] = book.list()
    return facts


async def servers(folder: Path, change: bool) -> Outcome:
    book = _servers(folder, {"command": "npx", "args": ["shown"]})
    if change:
        _write_servers(folder, {"command": "npx", "args": ["another"]})
    try:
        await book.trust(True)
    except ConfigError as error:
        return Outcome(_facts(book).state != "untrusted", str(error))
    return Outcome(_facts(book).state != "untrusted", "")


async def variables(folder: Path, change: bool) -> Outcome:
    book = _servers(folder, {"url": "https://shown.example/?v=${KEY}"})
    await book.trust(True)
    seen = _facts(book).said
    if change:
        _write_servers(folder, {"url": "https://another.example/?v=${KEY}"})
    said = ""
    try:
        await book.give("one", ("KEY",), seen)
    except ConfigError as error:
        said = str(error)
    return Outcome(any(one.given for one in _facts(book).wants), said)


async def agreement(folder: Path, change: bool) -> Outcome:
    """A tool changes once more after the difference was shown."""
    async with hostile("Redefines", folder) as setting:

        async def says(text: str) -> None:
            (folder / "redefine").write_text(text)
            setting.source.listing_changed()
            await until(lambda: any(text in one.now.said for one in setting.source.changed))

        await says("shown")
        seen = {one.now.said for one in setting.source.changed}
        if change:
            await says("another")
        await setting.source.agree(seen)
        return Outcome(setting.names != [], setting.problems)


async def server_program(folder: Path, change: bool) -> Outcome:
    """A file that a project's server is made of is rewritten after it was shown."""
    program = folder / "work/tools/srv.py"
    program.parent.mkdir(parents=True)
    program.write_text("shown\n")
    book = _servers(folder, {"command": "python3", "args": ["tools/srv.py"], "env": {"A": "b"}})
    seen = tuple(one.after for one in _facts(book).changed)
    assert "shown\n" in seen
    if change:
        program.write_text("another\n")
    await book.trust(True, seen)
    [source] = book.sources
    await source.start(lambda: None)
    said = "; ".join(_facts(book).problems)
    waits = source.held
    await source.close()
    return Outcome(not waits, said)


async def image(folder: Path, change: bool) -> Outcome:
    (work := folder / "work").mkdir()
    (work / "Dockerfile").write_text("FROM a\n")
    (work / ".devcontainer.json").write_text(
        '{"build": {"dockerfile": "Dockerfile"}, "runArgs": ["--init"]}'
    )
    with patch.dict(os.environ, {"XDG_CONFIG_HOME": str(folder / "config")}):
        settings, launcher = Settings(model="demo"), LocalLauncher(work, LocalApp())
        asked = await launcher.missing(settings, LaunchOptions(proceed=True))
        assert asked is not None and asked.kind == "image"
        if change:
            (work / "Dockerfile").write_text("FROM a\nRUN evil\n")
        options = LaunchOptions(proceed=True, image=Consent(True, asked.digest))
        again = await launcher.missing(settings, options)
        trust = RepositoryImages(work, config_dir()).found()
        return Outcome(
            trust is not None and trust.answer == "trusted", "" if again is None else again.text
        )


def _recipes(folder: Path) -> RecipeFolders:
    work = folder / "work"
    (work / ".codeagent/commands").mkdir(parents=True, exist_ok=True)
    trust = TrustFile(folder / "config", work, folder / "home", "recipes.jsonl")
    return RecipeFolders(recipe_folders(work, None), trust)


async def recipes(folder: Path, change: bool) -> Outcome:
    file = folder / "work/.codeagent/commands/review.md"
    _recipes(folder)
    file.write_text("Review it.")
    book = _recipes(folder)
    assert book.untrusted
    if change:
        file.write_text("Delete it.")
    book.trust()
    return Outcome(not book.untrusted, f"still to be trusted: {', '.join(book.untrusted)}")


async def recipe_start(folder: Path, change: bool) -> Outcome:
    """The file of a recipe changes while the user is asked for its inputs; what was asked about is
    what would run."""
    file = folder / "work/.codeagent/commands/review.md"
    _recipes(folder)
    file.write_text("Review it.")
    book = _recipes(folder)
    book.trust()
    recipe: Recipe = find_recipe(book, "review")
    if change:
        file.write_text("Delete it.")
        book.refresh()
    act = RunRecipe(find_recipe(book, "review"), recipe.values({}))
    return Outcome(
        act.recipe.trusted, f"{act.recipe.where} is not trusted" if not act.recipe.trusted else ""
    )


async def git_directory(folder: Path, change: bool) -> Outcome:
    work, config = folder / "work", folder / "config"
    for name in ("shown", "another"):
        _linked(folder / name, folder / f"{name}-work")
    work.mkdir()
    (folder / "shown-work").rename(folder / "kept")
    kept = folder / "kept"
    for name in ("shown", "another"):
        pointer = folder / name / ".git/worktrees" / f"{name}-work" / "gitdir"
        pointer.write_text(f"{kept / '.git'}\n")
    with patch.dict(os.environ, {"XDG_CONFIG_HOME": str(config)}):
        settings, launcher = Settings(model="demo"), LocalLauncher(kept, LocalApp())
        asked = await launcher.missing(settings, LaunchOptions(proceed=True))
        assert asked is not None and asked.kind == "git"
        if change:
            (kept / ".git").write_text((folder / "another-work/.git").read_text())
        options = LaunchOptions(proceed=True, git=Consent(True, asked.digest))
        again = await launcher.missing(settings, options)
        found = git_elsewhere(kept, config_dir())
        return Outcome(
            found is not None and found.answer is True, "" if again is None else again.text
        )


def _linked(main: Path, linked: Path) -> None:
    """Make a repository, and a worktree of it."""
    who = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    subprocess.run(["git", "init", "-q", main], check=True)
    for arguments in (
        ["commit", "-q", "--allow-empty", "-m", "x"],
        ["worktree", "add", "-q", str(linked)],
    ):
        subprocess.run(["git", "-C", main, *who, *arguments], check=True, capture_output=True)


class _Screen(CardApp):
    """Keeps what the user wants at a boundary."""

    def __init__(self, *waiting: Any) -> None:
        super().__init__(*waiting)
        self.started: list[str] = []

    def do(self, act: CardAct) -> None:
        if isinstance(act, StartPlan):
            self.started.append(act.text)
        else:
            super().do(act)


async def plan(folder: Path, change: bool) -> Outcome:
    app = _Screen()
    async with app.run_test(size=(80, 24)) as pilot:
        boundary = app.card._state.boundary
        boundary.set(PlanReady("# Shown"))
        await app.keys(pilot, "tab")
        app.clock.now += 1.0
        if change:
            boundary.set(PlanReady("# Another"))
            await pilot.pause()
        await pilot.press("p")
        return Outcome(app.started != [], app.text())


async def whole_batch(folder: Path, change: bool) -> Outcome:
    """One more call waits when the user allows all that were listed."""
    app = _Screen(command("ls", "a"), command("pwd", "b"))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.keys(pilot, "tab", "A")
        app.clock.now += 1.0
        if change:
            app.approvals.add(command("rm -rf /", "c"))
            await pilot.pause()
        await pilot.press("A")
        return Outcome(app.answers != [], app.text())
