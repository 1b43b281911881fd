"""A server whose sandbox no longer keeps from it what it must: it is started again before it is
called."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

from codeagent.core.sandbox import RunningProgram, StdioProgram
from codeagent.extensions.mcp.config import ServerConfig
from codeagent.extensions.mcp.host import ServerHost
from codeagent.extensions.mcp.source import McpSource
from codeagent.sandbox.programs import MachinePrograms
from tests.extensions.mcp.setting import HOSTILE, Setting, answer_of

CHANGED = ".git changed outside the sandbox"


class Programs:
    """Starts programs on this machine; the first is outdated once that is said."""

    def __init__(self, root: Path) -> None:
        self._start = MachinePrograms(
            root, {"PATH": "/usr/bin:/bin"}, root.with_name(f"{root.name}-own")
        ).start
        self.started: list[Program] = []

    async def start(self, program: StdioProgram) -> "Program":
        self.started.append(Program(await self._start(program)))
        return self.started[-1]


class Program(RunningProgram):
    def __init__(self, inner: RunningProgram) -> None:
        self._inner = inner
        self.why = ""

    async def send(self, data: bytes) -> None:
        await self._inner.send(data)

    def output(self) -> AsyncIterator[tuple[Literal["stdout", "stderr"], bytes]]:
        return self._inner.output()

    async def outdated(self) -> str:
        return self.why

    async def close(self) -> int | None:
        return await self._inner.close()


async def test_an_outdated_server_is_not_called_and_started_again_however_often_that_happens(
    tmp_path: Path,
) -> None:
    programs = Programs(tmp_path)
    config = ServerConfig("hostile", sys.executable, (str(HOSTILE), "Server", str(tmp_path)))
    source = McpSource(config, ServerHost(tmp_path, {"sandbox": programs.start}, tmp_path / "pins"))
    setting = Setting(source, tmp_path)
    try:
        await setting.start()
        for times in range(1, 4):
            assert await answer_of(setting, text="hi") == "hi"
            programs.started[-1].why = CHANGED
            assert f"was not called: {CHANGED}" in await answer_of(setting, text="hi")
            await setting.until(lambda: source.list().state == "ready")
            assert len(programs.started) == times + 1
    finally:
        await source.close()
