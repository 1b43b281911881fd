"""A run without a user does not wait for its container: the first request leaves while it
starts."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from codeagent.app.runtime import open_session
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.core.errors import SandboxUnavailable
from codeagent.core.events import KnownEvent, Notice, RunFinished, ToolResultAdded
from codeagent.core.runtime import Session
from codeagent.core.sandbox import SandboxInfo
from codeagent.sandbox.docker_sandbox import DockerSandbox

INFO = SandboxInfo(
    "docker", "image", "configured", "1000:1000", "none", told=("git history cannot be read",)
)


class Start:
    """The container's start, which ends when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_end = asyncio.Event()
        self.error: SandboxUnavailable | None = None
        self.running = 0
        monkeypatch.setattr(DockerSandbox, "start", lambda sandbox, tell: self.start())
        monkeypatch.setattr(DockerSandbox, "check", lambda sandbox: asyncio.sleep(0))

    async def start(self) -> SandboxInfo:
        self.running += 1
        try:
            await self.may_end.wait()
        finally:
            self.running -= 1
        if self.error is not None:
            raise self.error
        return INFO


async def opened(
    tmp_path: Path, turns: object, seen: list[KnownEvent], *, needs_sandbox: bool = False
) -> Session:
    for name in ("work", "state"):
        (tmp_path / name).mkdir()
    (tmp_path / "script.json").write_text(json.dumps(turns))
    return await open_session(
        Settings(model=f"script:{tmp_path / 'script.json'}", mode="auto"),
        LocalEnvironment(tmp_path / "work", tmp_path / "state", dict(os.environ)),
        resume=None,
        tell=lambda text: None,
        observer=seen.append,
        attended=False,
        needs_sandbox=needs_sandbox,
    )


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # it stands for any condition
            await asyncio.sleep(0.01)


def notices(seen: list[KnownEvent]) -> list[tuple[str, str]]:
    return [(event.code, event.text) for event in seen if isinstance(event, Notice)]


async def test_a_run_ends_before_the_container_it_never_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Start(monkeypatch)
    runtime = await opened(tmp_path, [{"text": "done"}], seen := [])
    assert "bash" in {tool.name for tool in runtime.next_request().tools}
    *_, last = [event async for event in runtime.agent.run("go")]
    assert isinstance(last, RunFinished) and last.reason == "done"
    await runtime.close()
    assert notices(seen) == []


async def test_what_there_is_to_tell_of_the_sandbox_is_told_once_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Start(monkeypatch)
    runtime = await opened(tmp_path, [{"text": "done"}], seen := [])
    start.may_end.set()
    await until(lambda: notices(seen))
    assert notices(seen) == [("sandbox.narrowed", "git history cannot be read")]
    await runtime.close()


async def test_a_container_that_cannot_be_had_is_told_and_a_command_fails_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Start(monkeypatch)
    start.error = SandboxUnavailable("it failed its self-test", "run doctor")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    runtime = await opened(
        tmp_path, [{"calls": [["bash", {"command": "touch x"}]]}, {"text": "done"}], seen := []
    )
    start.may_end.set()
    await until(lambda: notices(seen))
    events = [event async for event in runtime.agent.run("go")]
    await runtime.close()
    assert notices(seen) == [
        (
            "sandbox.unavailable",
            "no sandbox, so every command fails: it failed its self-test; run doctor",
        )
    ]
    [result] = [event for event in events if isinstance(event, ToolResultAdded)]
    assert result.is_error and not (tmp_path / "work" / "x").exists()


async def test_whoever_needs_the_sandbox_waits_for_it_and_learns_that_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Start(monkeypatch)
    start.error = SandboxUnavailable("no image", "build one")
    opening = asyncio.create_task(opened(tmp_path, [{"text": "done"}], [], needs_sandbox=True))
    start.may_end.set()
    runtime = await opening
    assert runtime.sandbox is None and "bash" not in {
        tool.name for tool in runtime.next_request().tools
    }
    await runtime.close()


async def test_nothing_is_started_any_further_once_the_engine_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Start(monkeypatch)

    async def check(sandbox: DockerSandbox) -> None:
        await until(lambda: start.running)
        raise SandboxUnavailable("no engine answers", "start it")

    monkeypatch.setattr(DockerSandbox, "check", check)
    runtime = await opened(tmp_path, [{"text": "done"}], seen := [])
    await until(lambda: not start.running)
    assert notices(seen) == [
        ("sandbox.unavailable", "no sandbox, so bash is disabled: no engine answers; start it")
    ]
    assert "bash" not in {tool.name for tool in runtime.next_request().tools}
    await runtime.close()
