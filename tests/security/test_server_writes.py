"""What an MCP server writes on its own, at any moment and in any mode, whatever it says
about itself."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from codeagent.app.runtime import open_session
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import SandboxSettings, Settings, ToolsetSettings
from codeagent.core.acts import Answer, RestartServer, Restore, RunRecipe, SetMode
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.events import CheckpointCreated, KnownEvent, Notice, ToolResultAdded
from codeagent.core.messages import text_of
from codeagent.core.model import ModelInUse
from codeagent.core.notices import ModeChanged
from codeagent.core.policy import Answer as Word
from codeagent.core.policy import Decision, Mode
from codeagent.core.recipes import Recipe, RecipeStep
from codeagent.core.runtime import AgentHandle, Session
from codeagent.core.sandbox import CHECK
from codeagent.extensions.mcp.config import ServerConfig, ServerStatus
from codeagent.extensions.mcp.program import AgreedProgram
from codeagent.extensions.mcp.servers import McpServers
from tests.agent.doubles import Turn, TurnsModel
from tests.effort import times
from tests.extensions.mcp.setting import HOSTILE
from tests.sandboxes import make_repository

pytestmark = pytest.mark.docker

TOOL = "mcp__it__echo"
HOST_FILES = ".envrc .vscode/tasks.json Makefile"
"""What a program of the user's would run."""


@dataclass
class Talk:
    """A conversation with one server of hostile.py, which is turned on, and what it asked and
    told."""

    root: Path
    answer: Word | None = "deny"
    """To every question; None leaves them open."""
    allows_calls: bool = False
    """Questions about a call of the server are answered with yes, whatever `answer` is."""
    model: TurnsModel = field(default_factory=TurnsModel)
    events: list[KnownEvent] = field(default_factory=list)
    runtime: Session | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def agent(self) -> AgentHandle:
        assert self.runtime is not None
        return self.runtime.agent

    @property
    def server(self) -> ServerStatus:
        servers = self.agent.part(McpServers)
        assert servers is not None
        [server] = servers.list()
        return server

    def hear(self, event: KnownEvent) -> None:
        self.events.append(event)
        self._news.set()

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def asked(self) -> list[str]:
        return [event.target for event in self.of(ApprovalRequested)]

    @property
    def warned(self) -> str:
        return "\n".join(event.text for event in self.of(Notice) if event.code == "workspace.left")

    async def until(self, what: Callable[[], object]) -> None:
        """Return once it is true, which is looked at again and again."""
        async with asyncio.timeout(90):
            while not what():  # noqa: ASYNC110  # files that a server writes are no events
                await asyncio.sleep(0.02)

    async def ready(self) -> None:
        await self.until(lambda: self.server.state == "ready")

    async def call(self, text: str) -> str:
        """What the model reads of one call of the server."""
        return await self.run(TOOL, text=text)

    async def run(self, tool: str, **arguments: Any) -> str:
        self.model.turns += [Turn("", ((tool, json.dumps(arguments)),)), Turn("done")]
        async for _ in self.agent.run("go"):
            pass
        return text_of(self.of(ToolResultAdded)[-1].content)

    async def respond(self) -> None:
        answered = 0
        while True:
            for event in self.of(ApprovalRequested)[answered:] if self.answer else ():
                allowed = self.allows_calls and event.name == TOOL
                self.agent.do(
                    Answer(event.approval_id, Decision("once" if allowed else self.answer))
                )
                answered += 1
            self._news.clear()
            await self._news.wait()

    def files(self) -> set[str]:
        """What is there besides what the test and the sandbox's self-test put there."""
        found = {
            str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()
        }
        ours = {"hello.py", "test_hello.py", "server.py"}
        return {path for path in found if not path.startswith((".git/", "pid-", CHECK))} - ours


@asynccontextmanager
async def talking(
    folder: Path,
    behaviour: str = "Writes",
    *,
    mode: Mode = "auto",
    attended: bool = True,
    **entry: Any,
) -> AsyncIterator[Talk]:
    """`entry` is part of the server's entry in the user's own mcp.json; the folder may hold a
    workspace already."""
    root = workspace(folder)
    server = {
        "command": "python3",
        "args": [str(root / "server.py"), behaviour, str(root)],
        **entry,
    }
    program = ServerConfig(
        "it", server["command"], tuple(server["args"]), where=server.get("where", "sandbox")
    )
    AgreedProgram(program, root, folder / "state/mcp").accept()
    (folder / "own").mkdir(exist_ok=True)
    (folder / "own/mcp.json").write_text(json.dumps({"mcpServers": {"it": server}}))
    talk = Talk(root)

    async def open_model(
        name: str, api_base: str | None, effort: object
    ) -> tuple[TurnsModel, ModelInUse]:
        return talk.model, ModelInUse(name)

    settings = Settings(
        model="turns",
        mode=mode,
        sandbox=SandboxSettings(),
        toolsets=ToolsetSettings(use=("it", "agents"), offer=("agents",)),
    )
    local = LocalEnvironment(root, folder / "state", dict(os.environ), config_dir=folder / "own")
    talk.runtime = await open_session(
        settings,
        local,
        resume=None,
        tell=print,
        observer=talk.hear,
        attended=attended,
        open_model=open_model,
    )
    responding = asyncio.create_task(talk.respond())
    try:
        yield talk
    finally:
        async with asyncio.timeout(60):
            await talk.runtime.close()
        responding.cancel()


def workspace(folder: Path) -> Path:
    root = folder / "work"
    if not root.exists():
        make_repository(root)
        (root / "server.py").write_text(HOSTILE.read_text())
    return root


def on_machine(folder: Path) -> dict[str, Any]:
    """The entry of such a server, whose program is not in the workspace."""
    return {
        "command": sys.executable,
        "args": [str(HOSTILE), "Writes", str(folder / "work")],
        "where": "machine",
    }


async def still(path: Path) -> None:
    """Look at a file for as long as a program that writes it all the time would write it many
    times."""

    def changes() -> int:
        seen = set()
        for _ in range(50):
            seen |= {path.stat().st_mtime_ns for _ in range(100)}
            time.sleep(0.005)
        return len(seen)

    assert await asyncio.to_thread(changes) == 1


async def test_a_server_that_was_not_let_writes_nothing_at_any_moment(tmp_path: Path) -> None:
    for names in ("starts", "lists"):
        (workspace(tmp_path) / names).write_text(HOST_FILES)
    async with talking(tmp_path) as talk:
        await talk.ready()
        assert "Read-only file system" in await talk.call(f"{HOST_FILES} src/a.txt")
        assert talk.files() == {"starts", "lists"}
        assert talk.asked == [] and talk.warned == ""
        assert [one for one in talk.of(CheckpointCreated) if one.cause == "batch"] == []
        assert "\n".join(talk.server.wrote).count("Read-only file system") >= 6, "it tried"


async def test_what_a_writing_server_plants_as_it_starts_is_asked_about_before_its_tools_are_used(
    tmp_path: Path,
) -> None:
    (workspace(tmp_path) / "starts").write_text(".envrc src/a.txt")
    (workspace(tmp_path) / "lists").write_text("Makefile")
    async with talking(tmp_path, write=True) as talk:
        states: list[str] = []
        await talk.until(lambda: states.append(talk.server.state) or talk.asked)
        assert "ready" not in states
        await talk.ready()
        assert talk.asked == [".envrc, Makefile"]
        assert "left by the MCP server it" in talk.of(ApprovalRequested)[0].reason
        assert talk.files() == {"starts", "lists", "src/a.txt"}
        assert "wrote b.txt" in await talk.call("b.txt")
    assert talk.files() == {"starts", "lists", "src/a.txt", "b.txt"}


async def test_what_the_user_lets_it_plant_stays(tmp_path: Path) -> None:
    (workspace(tmp_path) / "starts").write_text(".envrc")
    async with talking(tmp_path, write=True) as talk:
        talk.answer = "once"
        await talk.ready()
        assert talk.asked == [".envrc"]
    assert talk.files() == {"starts", ".envrc"}


async def test_without_a_user_what_it_plants_as_it_starts_is_undone(tmp_path: Path) -> None:
    (workspace(tmp_path) / "starts").write_text(f"{HOST_FILES} src/a.txt")
    async with talking(tmp_path, attended=False, write=True) as talk:
        await talk.ready()
        assert talk.files() == {"starts", "src/a.txt"}
        assert talk.asked == [] and "nobody was there to ask" in talk.warned


async def test_a_question_that_is_open_when_the_conversation_ends_takes_it_back(
    tmp_path: Path,
) -> None:
    (workspace(tmp_path) / "starts").write_text(".envrc")
    async with talking(tmp_path, write=True) as talk:
        talk.answer = None
        await talk.until(lambda: talk.asked)
    assert talk.files() == {"starts"}


async def test_what_it_plants_as_it_fails_to_start_is_found_too(tmp_path: Path) -> None:
    (workspace(tmp_path) / "starts").write_text(".envrc")
    async with talking(tmp_path, "WritesAndDies", attended=False, write=True) as talk:
        await talk.until(lambda: talk.server.state == "failed")
        await talk.until(lambda: "nobody was there to ask" in talk.warned)
        assert talk.files() == {"starts"}


async def test_what_a_call_plants_is_asked_about_and_the_rest_is_kept_and_can_be_undone(
    tmp_path: Path,
) -> None:
    async with talking(tmp_path, write=True) as talk:
        await talk.ready()
        told = await talk.call("src/a.txt Makefile")
        assert talk.asked == ["Makefile"] and talk.files() == {"src/a.txt"}
        assert "taken back, as it may run outside the sandbox: Makefile: the user said no" in told
        rewind = talk.agent.rewind
        assert rewind is not None
        assert [
            (file.path, file.change)
            for file in (await rewind.changes((await rewind.undo_target()).id)).files
        ] == [("src/a.txt", "added")]
        assert await talk.agent.finish(Restore((await rewind.undo_target()).id, "undo")) is None
        assert talk.files() == set()


@pytest.mark.parametrize("attended", [True, False])
async def test_what_it_plants_between_calls_is_reported_to_a_user_and_undone_without_one(
    attended: bool, tmp_path: Path
) -> None:
    async with talking(tmp_path, attended=attended, write=True) as talk:
        await talk.ready()
        await talk.call("@.envrc")
        (talk.root / "gate").touch()
        await talk.until(lambda: (talk.root / "done").exists())
        await talk.until(lambda: ".envrc" in talk.warned)
    assert (".envrc" in talk.files()) is attended
    said = (
        "changed while processes of the agent were running"
        if attended
        else "nobody was there to ask"
    )
    assert said in talk.warned


async def test_while_a_writing_server_lives_commands_are_inspected_as_ever(tmp_path: Path) -> None:
    async with talking(tmp_path, write=True) as talk:
        await talk.ready()
        told = await talk.run("bash", command="echo P > .envrc; echo x > a.txt")
        assert talk.asked == [".envrc"] and talk.files() == {"a.txt"}
        assert "taken back" in told


async def test_in_plan_mode_no_server_writes_whatever_its_file_and_its_hints_say(
    tmp_path: Path,
) -> None:
    (workspace(tmp_path) / "starts").write_text(HOST_FILES)
    async with talking(tmp_path, mode="plan", write=True) as talk:
        await talk.ready()
        talk.answer = "once"
        assert "Read-only file system" in await talk.call(f"{HOST_FILES} src/a.txt")
        assert len(talk.asked) == 1, "its hint is not believed: the call was asked about"
    assert talk.files() == {"starts"}


async def test_an_agent_in_plan_mode_does_not_call_a_server_that_may_write_for_others(
    tmp_path: Path,
) -> None:
    workspace(tmp_path)
    (tmp_path / "own/agents").mkdir(parents=True)
    (tmp_path / "own/agents/planner.md").write_text(
        f"---\nname: planner\ndescription: plans\nmode: plan\ntools: [{TOOL}]\n---\nPlan.\n"
    )
    async with talking(tmp_path, "NeverStopsWriting", write=True) as talk:
        talk.answer = "once"
        await talk.call("a.txt")
        call = Turn("", ((TOOL, json.dumps({"text": "b.txt"})),))
        agent = Turn("", (("agent", json.dumps({"name": "planner", "task": "plan"})),))
        talk.model.turns += [agent, call, Turn("planned"), Turn("done")]
        async for _ in talk.agent.run("go"):
            pass
        [denied] = [one for one in talk.of(ToolResultAdded) if one.is_error]
        assert "plan mode changes nothing, and it may write in the workspace" in text_of(
            denied.content
        )
        assert "a.txt" in talk.files() and "b.txt" not in talk.files()


async def test_a_step_of_a_recipe_in_plan_mode_ends_what_could_write_before_it_begins(
    tmp_path: Path,
) -> None:
    steps = (RecipeStep("look", "look", mode="plan"), RecipeStep("act", "act"))
    recipe = Recipe("r", "", steps, "r.yaml", "user", trusted=True)
    async with talking(tmp_path, "NeverStopsWriting", write=True) as talk:
        talk.answer = "once"
        await talk.call("a.txt")
        call = Turn("", ((TOOL, json.dumps({"text": "b.txt"})),))
        talk.model.turns += [call, Turn("looked"), call, Turn("acted")]
        async for _ in talk.agent.run(RunRecipe(recipe, {})):
            pass
        _, looked, acted = (text_of(one.content) for one in talk.of(ToolResultAdded))
        assert "Read-only file system" in looked and "wrote b.txt" in acted


async def test_a_repository_that_a_server_plants_at_the_root_is_moved_away(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/server.py").write_text(HOSTILE.read_text())
    async with talking(tmp_path, write=True) as talk:
        await talk.ready()
        await talk.call(".git/config .git/HEAD")
        # The call's result says it too, unless a look during the call has already found it.
        assert "a command created .git" in talk.warned
        assert not (talk.root / ".git").exists()


async def test_in_plan_mode_the_hint_of_a_server_on_the_machine_runs_nothing_unasked(
    tmp_path: Path,
) -> None:
    async with talking(tmp_path, mode="plan", **on_machine(tmp_path)) as talk:
        await talk.ready()
        assert "the user said no" in await talk.call("src/a.txt")
        assert len(talk.asked) == 1
        assert not any(path.startswith("src") for path in talk.files())


async def test_a_call_of_a_server_on_the_machine_is_inspected_whatever_its_hint_says(
    tmp_path: Path,
) -> None:
    async with talking(tmp_path, **on_machine(tmp_path)) as talk:
        await talk.ready()
        talk.allows_calls = True
        await talk.call("Makefile src/a.txt")
        assert talk.asked == ["text='Makefile src/a.txt'", "Makefile"]
        assert talk.files() == {"src/a.txt"}
        assert [one.cause for one in talk.of(CheckpointCreated)].count("batch") == 1


async def test_from_the_change_to_plan_mode_on_a_writing_server_writes_nothing_and_afterwards_again(
    tmp_path: Path,
) -> None:
    async with talking(tmp_path, "NeverStopsWriting", write=True) as talk:
        await talk.ready()
        beat = talk.root / "beat"
        assert "wrote a.txt" in await talk.call("a.txt")
        assert await talk.agent.finish(SetMode("plan")) is None
        assert [event.mode for event in talk.of(ModeChanged)] == ["plan"]
        await still(beat)
        talk.answer = "once"
        assert "Read-only file system" in await talk.call("src/a.txt")
        await still(beat)
        assert talk.agent.do(SetMode("auto")) is None
        await still(beat)
        assert "wrote src/a.txt" in await talk.call("src/a.txt")
        before = beat.stat().st_mtime_ns
        await talk.until(lambda: beat.stat().st_mtime_ns != before)
        assert talk.server.state == "ready"


@pytest.mark.soak(tried=times(1))
async def test_however_often_the_mode_changes_the_server_is_not_given_up(tmp_path: Path) -> None:
    async with talking(tmp_path, "NeverStopsWriting", write=True) as talk:
        await talk.ready()
        talk.answer = "once"
        for _ in range(times(1)):
            assert "wrote a.txt" in await talk.call("a.txt")
            assert await talk.agent.finish(SetMode("plan")) is None
            await still(talk.root / "beat")
            assert talk.agent.do(SetMode("auto")) is None
        assert "wrote a.txt" in await talk.call("a.txt")


async def test_a_call_during_which_the_mode_becomes_plan_is_ended(tmp_path: Path) -> None:
    async with talking(tmp_path, "NeverStopsWriting", write=True) as talk:
        await talk.ready()
        calling = asyncio.create_task(talk.call("forever"))
        await talk.until((talk.root / "called").exists)
        assert await talk.agent.finish(SetMode("plan")) is None
        await still(talk.root / "beat")
        told = await calling
        assert (
            "it was stopped, because it could write in the workspace, and the mode is plan now"
            in told
        )
        await still(talk.root / "beat")


@pytest.mark.soak(tried=times(1))
async def test_a_server_that_starts_while_the_mode_becomes_plan_starts_without_the_right_to_write(
    tmp_path: Path,
) -> None:
    async with talking(tmp_path, "NeverStopsWriting", write=True) as talk:
        for _ in range(times(1)):
            await talk.until(
                lambda: talk.server.state == "starting" or talk.agent.do(RestartServer("it"))
            )
            assert await talk.agent.finish(SetMode("plan")) is None
            await talk.ready()
            if (talk.root / "beat").exists():
                await still(talk.root / "beat")
            talk.answer = "once"
            assert "Read-only file system" in await talk.call("src/a.txt")
            assert talk.agent.do(SetMode("auto")) is None
            assert await talk.agent.finish(RestartServer("it")) is None


async def test_a_server_that_ends_because_it_cannot_write_says_what_would_let_it(
    tmp_path: Path,
) -> None:
    async with talking(tmp_path, "CannotStartWithoutWriting") as talk:
        await talk.until(lambda: talk.server.state == "failed")
        assert '"write": true in your own mcp.json lets it write' in talk.server.problems[0]
    async with talking(tmp_path, "CannotStartWithoutWriting", write=True) as talk:
        await talk.ready()
        (talk.root / "cache").rmdir()
    async with talking(tmp_path, "CannotStartWithoutWriting", mode="plan", write=True) as talk:
        await talk.until(lambda: talk.server.state == "failed")
        assert "for now it may only read the workspace, as in plan mode" in talk.server.problems[0]
