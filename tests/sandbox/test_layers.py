"""Where views keep what commands change, and what killed sessions left of them."""

import asyncio
import errno
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.sandbox import Command
from codeagent.sandbox import launch
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import engine_socket
from codeagent.sandbox.layers import Layer, finish_landings, remove_layer, spent
from tests.layers import tree_of
from tests.sandboxes import Ran, opened, run

_SOMEBODY = 54321
"""The uid of a user whom this machine does not know."""
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


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("journal", "was kept, as its journal cannot be read"),
        ("listing", "could not be looked through"),
    ],
)
def test_what_cannot_be_finished_is_told_and_kept(tmp_path: Path, broken: str, said: str) -> None:
    (tmp_path / "root").mkdir()
    layers = tmp_path / "state" / "sandbox" / "layers"
    (layers / "one" / "upper").mkdir(parents=True)
    (layers / "one" / "landing.json").write_text("[]")
    if broken == "listing":
        layers.with_suffix(".lock").mkdir()
    [line] = finish_landings(tmp_path / "state", tmp_path / "root")
    assert said in line
    assert (layers / "one" / "landing.json").exists()


def made_by_the_engine(layer: Layer) -> None:
    """Leave what the kernel leaves of a view: a folder of root's that nobody else may enter."""
    kept = layer.folder / "work" / "work" / "incompat" / "volatile"
    kept.mkdir(parents=True)
    for folder in (layer.folder, layer.folder / "upper", layer.folder / "work"):
        folder.mkdir(exist_ok=True)
        os.chown(folder, _SOMEBODY, _SOMEBODY)
    kept.parents[1].chmod(0)


@contextmanager
def as_somebody() -> Iterator[None]:
    """Be an ordinary user for the block."""
    os.seteuid(_SOMEBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.docker
async def test_what_the_engine_leaves_of_a_view_is_removed_by_it_for_a_user_who_is_not_root(
    tmp_path: Path,
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make what belongs to another user")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:  # where everybody may enter
        state = Path(folder)
        layers = [Layer(state / "sandbox" / "layers" / f"{number:016x}") for number in range(3)]
        for layer in layers:
            made_by_the_engine(layer)
        for made in (state, state / "sandbox", state / "sandbox" / "layers"):
            os.chown(made, _SOMEBODY, _SOMEBODY)
        with as_somebody():
            for layer in layers:
                remove_layer(layer)
        left = spent(state)
        assert [path.name for path in left.glob("*/*")] == ["work"] * 3
        async with opened(tmp_path, state) as sandbox:
            await sandbox.prepare_trials()
            assert sandbox._trials is not None and sandbox._trials._cleaning is not None
            await sandbox._trials._cleaning
        assert [*left.iterdir()] == []


@pytest.mark.docker
async def test_with_a_container_per_command_a_view_has_the_layer_of_its_command(
    tmp_path: Path,
) -> None:
    (tmp_path / "project").mkdir()
    async with opened(tmp_path / "project", tmp_path / "state", per_command=True) as sandbox:
        for _ in range(2):
            trial = await sandbox.try_out(Command("echo 1 > made", "call"), Ran())
            assert [effect.path for effect in await trial.effects()] == ["made"]
            await trial.close()


@pytest.mark.docker
async def test_where_no_layer_can_be_mounted_the_workspace_is_read_only_for_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_PLAIN", re.compile("no path"))
    root = tmp_path / "project"
    root.mkdir()
    async with opened(root, tmp_path / "state") as sandbox:
        await sandbox.prepare_trials()
        assert sandbox.untried == "" and "cannot be shown as a view" in sandbox.tried_read_only
        ran, text = Ran(), "echo shared > /tmp/x; ls; echo 1 > made"
        trial = await sandbox.try_out(Command(text, "call"), ran)
        assert trial.result.exit_code == 1 and b"Read-only file system" in ran.stdout
        assert await trial.effects() == ()
        await trial.close()
        assert (await run(sandbox, "cat /tmp/x; echo 1 > made")).stdout == b"shared\n"
    assert [path.name for path in root.iterdir()] == ["made"]


@pytest.mark.docker
async def test_where_no_layer_can_be_kept_nothing_fails_but_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(layer: Layer) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Layer, "now", full)
    async with opened(tmp_path / "project", tmp_path / "state") as sandbox:
        (tmp_path / "project").mkdir()
        await sandbox.prepare_trials()
        assert "No space left" in sandbox.tried_read_only


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
