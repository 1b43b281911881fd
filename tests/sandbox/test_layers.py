"""Where views keep what commands change, and what killed sessions left of them."""

import asyncio
import json
import signal
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.sandbox import Command
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import engine_socket
from tests.layers import tree_of
from tests.sandboxes import Ran, opened

_KILLED = """
import asyncio, sys
from pathlib import Path
from codeagent.core.sandbox import Command
from codeagent.sandbox.docker_sandbox import DockerSandbox
from tests.sandboxes import sandbox_spec

async def main():
    root, state, session = sys.argv[1:]
    sandbox = DockerSandbox(sandbox_spec(Path(root), Path(state), session=session))
    await sandbox.prepare_trials()
    async def tell(stream, data):
        print("runs", flush=True)
    await sandbox.try_out(Command("echo x > made; echo; sleep 600", "call"), tell)

asyncio.run(main())
"""


async def killed(root: Path, state: Path, session: str) -> None:
    """A session that is killed while a command is tried out."""
    agent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _KILLED, str(root), str(state), session),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert agent.stdout is not None
    assert await agent.stdout.readline() == b"runs\n"
    agent.send_signal(signal.SIGKILL)
    await agent.wait()


def left(session: str) -> list[Any]:
    """The containers and volumes of a session."""
    label = f"codeagent.session={session}"
    wanted = {"filters": json.dumps({"label": [label]})}
    with closing(Engine(engine_socket(None))) as engine:
        return [*engine.containers(label), *engine.call("GET", "/volumes", wanted)["Volumes"]]


@pytest.mark.docker
async def test_containers_volumes_and_layers_of_a_killed_session_are_removed_at_the_next_start(
    tmp_path: Path,
) -> None:
    root, state, session = tmp_path / "project", tmp_path / "state", f"killed-{tmp_path.name}"
    root.mkdir()
    await killed(root, state, session)
    layers = state / "sandbox" / "layers"
    assert [*layers.iterdir()]
    async with opened(root, state) as sandbox:
        while left(session):  # the engine may be removing some of it, and refuses to meanwhile
            await sandbox.start(lambda _: None)
            await sandbox._default.drop("")
        assert await sandbox.finish_landings() == ()
    assert [*layers.iterdir()] == [*root.iterdir()] == []


@pytest.mark.docker
async def test_changes_land_from_a_state_folder_on_another_file_system(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("1")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as state:
        async with opened(tmp_path, Path(state)) as sandbox:
            await sandbox.prepare_trials()
            assert sandbox.untried == ""
            text = "rm old; mkdir -p a/b; echo 2 > a/b/c; ln -s b a/d"
            trial = await sandbox.try_out(Command(text, "call"), Ran())
            await trial.land(await trial.effects())
            await trial.close()
    assert tree_of(tmp_path) == {"a/b/c": "2\n", "a/d": "-> b"}
