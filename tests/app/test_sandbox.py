"""How the sandbox of a session is started, and what is prepared in it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from codeagent.app import runtime
from codeagent.app.runtime import open_session
from codeagent.app.sandbox import StartedSandbox
from codeagent.core.errors import SandboxUnavailable
from codeagent.core.sandbox import SandboxInfo
from tests.fakes import FakeSandbox
from tests.table import for_each


class Starting(FakeSandbox):
    """A sandbox that is ready once `starts` is set, or does not start."""

    def __init__(self) -> None:
        super().__init__()
        self.starts = asyncio.Event()
        self.trouble: SandboxUnavailable | None = None
        self.prepared = asyncio.Event()

    async def start(self, on_progress: object) -> SandboxInfo:
        await self.starts.wait()
        if self.trouble is not None:
            raise self.trouble
        self.is_ready = True
        return SandboxInfo("docker", "fake", "fake", "nobody", "none")

    async def prepare_trials(self) -> None:
        assert self.is_ready
        self.prepared.set()


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    for kind in ("config", "state", "data", "cache"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
    (tmp_path / "work").mkdir()
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"text": "Hi."}]))
    return {"model": f"script:{script}"}


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Starting:
    made = Starting()

    async def started(*given: object, **options: object) -> StartedSandbox:
        starting = asyncio.create_task(made.start(print))
        return StartedSandbox(made, "docker", starting=starting)

    monkeypatch.setattr(runtime, "start_sandbox", started)
    return made


async def test_with_a_user_trials_are_prepared_once_the_sandbox_is_ready(
    tmp_path: Path, settings: dict[str, Any], sandbox: Starting
) -> None:
    session = await open_session(settings, tmp_path / "work", attended=True)
    assert not sandbox.prepared.is_set()
    sandbox.starts.set()
    await sandbox.prepared.wait()
    await session.close()


@for_each(
    ("attended", "more", "starts"),
    [
        (False, {}, True),
        (True, {"mode": "auto"}, True),
        (True, {"sandbox": {"approval": "text"}}, True),
        (True, {}, False),
    ],
)
async def test_trials_are_not_prepared_where_none_is_expected(
    tmp_path: Path,
    settings: dict[str, Any],
    sandbox: Starting,
    *,
    attended: bool,
    more: dict[str, Any],
    starts: bool,
) -> None:
    sandbox.is_ready = False
    sandbox.trouble = None if starts else SandboxUnavailable("no engine", "start it")
    before = asyncio.all_tasks()
    session = await open_session(settings | more, tmp_path / "work", attended=attended)
    sandbox.starts.set()
    await asyncio.wait({session.sandbox_starting})  # type: ignore[type-var]  # it is starting
    async for _ in session.run("Greet."):
        pass
    assert not sandbox.prepared.is_set()
    await session.close()
    assert asyncio.all_tasks() == before
