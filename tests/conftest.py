"""What tests share: the engine that docker tests need, and workspaces to run commands in."""

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from codeagent.core.errors import SandboxUnavailable
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.reach import engine_socket, probe_socket
from tests.sandboxes import make_repository, sandbox_spec

MakeSandbox = Callable[..., Awaitable[DockerSandbox]]

# Under nohup SIGHUP arrives ignored and would be handed on to every process the tests start.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def engine_problem() -> str | None:
    """Why no engine answers, asked of the engine itself; None where one does."""
    try:
        probe_socket(engine_socket(os.environ.get("DOCKER_HOST")))
    except SandboxUnavailable as problem:
        return f"{problem}; {problem.remedy}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A docker test is skipped only on a probed reason, and where CI is set not even then."""
    needing = [item for item in items if item.get_closest_marker("docker")]
    problem = engine_problem() if needing else None
    if problem is None:
        return
    if os.environ.get("CI"):
        pytest.exit(f"CI is set and {len(needing)} docker tests cannot run: {problem}", returncode=1)
    for item in needing:
        item.add_marker(pytest.mark.skip(reason=problem))


@pytest.fixture
def workspace_dir(tmp_path: Path) -> Path:
    """A small git repository with one commit, below a directory of its own."""
    return make_repository(tmp_path / "project")


@pytest_asyncio.fixture
async def make_sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MakeSandbox]:
    """`await make_sandbox(root, **fields of SandboxSpec)`: started, and closed after the test."""
    made: list[DockerSandbox] = []
    state_dir = tmp_path_factory.mktemp("state")

    async def make(root: Path, **fields: object) -> DockerSandbox:
        sandbox = DockerSandbox(sandbox_spec(root, state_dir, **fields))
        made.append(sandbox)
        await sandbox.start(lambda _: None)
        return sandbox

    yield make
    for sandbox in made:
        await sandbox.close()


@pytest_asyncio.fixture
async def sandbox(make_sandbox: MakeSandbox, workspace_dir: Path) -> DockerSandbox:
    """A started sandbox over `workspace_dir`."""
    return await make_sandbox(workspace_dir)
