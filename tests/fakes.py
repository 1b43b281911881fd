"""Stand-ins for the ports that tools use: a sandbox that runs a script, and a store of outputs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from codeagent.config.settings import Settings
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import ConfigError, SandboxUnavailable
from codeagent.core.memory import OutputPage, Skill, SkillText
from codeagent.core.ports import Workspace
from codeagent.core.recipes import Recipe
from codeagent.core.redact import Redactor
from codeagent.core.sandbox import (
    Command,
    CommandResult,
    OnOutput,
    RunningProgram,
    Sandbox,
    SandboxInfo,
    SandboxSweep,
    StdioProgram,
    Trial,
)
from codeagent.core.tool import ToolContext
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.extension import ExtensionContext
from codeagent.workspace.files import LocalWorkspace

Step = tuple[str, bytes] | float | Callable[[], Awaitable[None]]


class FakeSandbox:
    """Prints the given pieces; a number sleeps that long; a function is awaited. Obeys the port's
    word on cancel."""

    def __init__(
        self, steps: Sequence[Step] = (), result: CommandResult | Exception | None = None
    ) -> None:
        self.steps = steps
        self.result = result if result is not None else CommandResult(exit_code=0)
        self.commands: list[Command] = []
        self.freezes = 0
        self.ports: frozenset[int] = frozenset()
        self.swept = SandboxSweep()
        self.untried = "a double has no views"
        self.tried_read_only = ""
        self.aside: list[str] = []
        self.exposed = ""

    async def start(self, on_progress: Callable[[str], None]) -> SandboxInfo:
        return SandboxInfo("docker", "fake", "fake", "nobody", "none")

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        self.commands.append(command)
        try:
            for step in self.steps:
                await self._take(step, on_output)
        except asyncio.CancelledError:
            return CommandResult(exit_code=None, stopped=True, killed=2)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    async def _take(self, step: Step, on_output: OnOutput) -> None:
        match step:
            case ("stdout", data):
                await on_output("stdout", data)
            case ("stderr", data):
                await on_output("stderr", data)
            case float(seconds):
                await asyncio.sleep(seconds)
            case action if callable(action):
                await action()
            case other:
                raise AssertionError(f"not a step: {other}")

    is_ready = False

    async def ready(self) -> None: ...

    async def prepare_trials(self) -> None: ...

    async def finish_landings(self) -> tuple[str, ...]:
        return ()

    async def try_out(self, command: Command, on_output: OnOutput) -> Trial:
        raise SandboxUnavailable(self.untried, "run it without trying it out")

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        self.freezes += 1
        yield

    async def listening(self) -> frozenset[int]:
        return self.ports

    async def sweep(self) -> SandboxSweep:
        swept, self.swept = self.swept, SandboxSweep(alive=self.swept.alive)
        return swept

    async def start_program(self, program: StdioProgram) -> RunningProgram:
        raise SandboxUnavailable("nothing is started here", "a real sandbox")

    async def set_aside(self, path: str) -> str:
        self.aside.append(path)
        return f"/quarantine/{path}"

    async def close(self) -> None: ...


class FakeRecipes:
    """A `core.recipes.Recipes` of the recipes it is given."""

    def __init__(self, *listed: Recipe) -> None:
        self.listed = listed
        self.problems: tuple[ToolProblem, ...] = ()
        self.untrusted = tuple(recipe.where for recipe in listed if not recipe.trusted)

    def trust(self) -> None:
        self.listed, self.untrusted = (
            tuple(replace(recipe, trusted=True) for recipe in self.listed),
            (),
        )

    def distrust(self) -> None:
        raise ConfigError("nobody asks for that")


class FakeSkills:
    """The Skills of a workspace and a user without any."""

    listed: tuple[Skill, ...] = ()

    def read(self, name: str, file: str | None = None) -> SkillText:
        raise KeyError(name)


class FakeOutputs:
    """An OutputStore in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.closed: set[str] = set()

    def create(self, call_id: str) -> "FakeSink":
        return FakeSink(self, f"out-{call_id}-{len(self.texts) + 1}")

    def read(self, handle: str, offset: int, lines: int) -> OutputPage:
        every = self.texts[handle].split("\n")
        return OutputPage(tuple(every[offset - 1 : offset - 1 + lines]), offset, len(every), 0)

    def handles(self) -> tuple[str, ...]:
        return tuple(self.texts)

    def keep_image(self, suffix: str, data: bytes) -> str:
        raise OSError("nothing but text is kept here")


class FakeSink:
    def __init__(self, store: FakeOutputs, handle: str) -> None:
        self._store = store
        self._handle = handle

    @property
    def handle(self) -> str:
        return self._handle

    def write(self, text: str) -> None:
        self._store.texts[self._handle] = self._store.texts.get(self._handle, "") + text

    def flush(self) -> None:
        return None

    def close(self) -> None:
        self._store.closed.add(self._handle)


def tool_context(
    workspace: Workspace,
    sandbox: Sandbox | None = None,
    *,
    base: str | None = None,
    updates: list[tuple[str, str]] | None = None,
) -> ToolContext:
    """A call's surroundings; what it streams is added to `updates` as (stream, text)."""

    async def on_update(text: str, stream: str = "output") -> None:
        if updates is not None:
            updates.append((stream, text))

    async def on_progress(text: str) -> None:
        await on_update(text, "progress")

    context = ToolContext(
        "call-1", "tool", workspace, sandbox, CancelToken(), on_update=on_update, base=base
    )
    return replace(context, on_progress=on_progress)


def put(root: Path, path: str, data: bytes | str) -> Path:
    """A file with its parents."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data if isinstance(data, bytes) else data.encode())
    return target


def extension_context(root: Path, *, sections: Mapping[str, Any] | None = None) -> ExtensionContext:
    """What a conversation in `root` lends to an extension; `sections` are those of the settings."""
    workspace = LocalWorkspace(root)
    settings = Settings(sections=dict(sections or {}))
    return ExtensionContext(
        settings, workspace, ReadTracker(workspace), {}, lambda name: None, Redactor({})
    )
