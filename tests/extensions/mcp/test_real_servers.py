"""Servers that other people wrote: what codeagent was made for."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from codeagent.extensions.mcp.config import ServerConfig
from tests.extensions.mcp.real_servers import servers_or_skip
from tests.extensions.mcp.setting import Setting, answer_of, serving
from tests.sandboxes import make_repository

together = pytest.mark.asyncio(loop_scope="module")
NODE = str(Path(shutil.which("node") or "node").resolve())


@pytest.fixture
def servers() -> Path:
    return servers_or_skip()


def node(servers: Path, name: str, *args: str, **env: str) -> ServerConfig:
    script = (
        servers / "node_modules" / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
    )
    return ServerConfig(name, NODE, (str(script), *args), env, where="machine")


def python(servers: Path, name: str, *args: str) -> ServerConfig:
    return ServerConfig(
        name, str(servers / "python" / "bin" / f"mcp-server-{name}"), args, where="machine"
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def everything(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Setting]:
    async with serving(
        tmp_path_factory.mktemp("everything"), node(servers_or_skip(), "everything")
    ) as setting:
        await setting.start()
        assert (setting.source.list().state, setting.problems) == ("ready", "")
        assert "# Everything Server" in setting.source.instructions("main")
        yield setting


@together
async def test_everything_answers_with_texts_images_resources_and_structures(
    everything: Setting,
) -> None:
    assert await answer_of(everything, "echo", message="hi") == "Echo: hi"
    assert "is 3" in await answer_of(everything, "get-sum", a=1, b=2)
    assert "<image/png>" in await answer_of(everything, "get-tiny-image")
    assert "temperature" in await answer_of(
        everything, "get-structured-content", location="Chicago"
    )
    assert "[resource demo://resource/dynamic/text/1]" in await answer_of(
        everything, "get-resource-reference", resourceType="Text", resourceId=1
    )
    assert "[resource demo://" in await answer_of(everything, "get-resource-links", count=2)


@together
async def test_everything_tells_of_its_progress_and_is_told_to_stop(everything: Setting) -> None:
    call = asyncio.create_task(
        answer_of(everything, "trigger-long-running-operation", duration=600, steps=6000)
    )
    async with asyncio.timeout(60):
        while not everything.progress:
            await everything.heard()
    assert everything.progress[0].endswith("of 6000")
    call.cancel()
    assert "told to stop" in await call
    assert await answer_of(everything, "echo", message="still there") == "Echo: still there"


@together
async def test_everything_gets_the_workspace_as_its_root_and_no_environment(
    everything: Setting,
) -> None:
    roots = await answer_of(everything, "get-roots-list")
    assert str(everything.folder / "project") in roots
    environment = json.loads(await answer_of(everything, "get-env"))
    assert environment.keys() <= {
        "HOME",
        "PATH",
        "PWD",
        "SHLVL",
        "_",
        "CODEAGENT_CALL",
        "LANG",
        "PYTHONSAFEPATH",
    }


@together
async def test_everything_is_declined_if_nobody_can_answer_its_questions(
    everything: Setting,
) -> None:
    assert '"action": "decline"' in await answer_of(everything, "trigger-elicitation-request")


async def test_filesystem_works_below_its_folder_only(servers: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    async with serving(tmp_path, node(servers, "filesystem", str(root))) as setting:
        await setting.start()
        assert "Successfully wrote" in await answer_of(
            setting, "write_file", path=str(root / "a.txt"), content="hi"
        )
        assert await answer_of(setting, "read_text_file", path=str(root / "a.txt")) == "hi"
        assert "Access denied" in await answer_of(setting, "read_text_file", path="/etc/passwd")
        assert setting.tool("read_text_file").says_it_reads
        assert setting.tool("write_file").effect == "anything"


async def test_memory_keeps_its_graph_where_its_variable_says(
    servers: Path, tmp_path: Path
) -> None:
    config = node(servers, "memory", MEMORY_FILE_PATH=str(tmp_path / "graph.jsonl"))
    async with serving(tmp_path, config) as setting:
        await setting.start()
        entity = {"name": "codeagent", "entityType": "program", "observations": ["it asks"]}
        await answer_of(setting, "create_entities", entities=[entity])
        assert "it asks" in await answer_of(setting, "search_nodes", query="codeagent")
    assert "codeagent" in (tmp_path / "graph.jsonl").read_text()


async def test_git_tells_of_a_repository(servers: Path, tmp_path: Path) -> None:
    root = make_repository(tmp_path / "project")
    async with serving(tmp_path, python(servers, "git", "--repository", str(root))) as setting:
        await setting.start()
        assert "first" in await answer_of(setting, "git_log", repo_path=str(root))
        (root / "hello.py").write_text("changed\n")
        assert "+changed" in await answer_of(setting, "git_diff_unstaged", repo_path=str(root))


async def test_time_converts_and_says_which_zones_it_does_not_know(
    servers: Path, tmp_path: Path
) -> None:
    async with serving(tmp_path, python(servers, "time", "--local-timezone", "UTC")) as setting:
        await setting.start()
        given = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        assert "T21:00:00" in await answer_of(setting, "convert_time", **given)
        assert "Nowhere" in await answer_of(setting, "get_current_time", timezone="Nowhere")
