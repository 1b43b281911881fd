"""`ToolContext.run` of one call: commands in the sandbox for a tool that people wrote."""

import shlex
from collections.abc import Sequence

from pydantic import JsonValue

from codeagent.core.messages import text_of
from codeagent.core.ports import Command, OutputStore
from codeagent.core.tool import Failed, InvalidArgs, ToolContext
from codeagent.tools.own_command import run_own
from codeagent.tools.seen import SeenFiles


class ToolCommands:
    """A `RunCommand`. What the commands changed of files the model knows is in `details` afterwards."""

    def __init__(self, ctx: ToolContext, outputs: OutputStore, seen: SeenFiles) -> None:
        self._ctx = ctx
        self._outputs = outputs
        self._seen = seen
        self._fresh: frozenset[str] = frozenset()
        self._rehashed: dict[str, JsonValue] = {}

    @property
    def details(self) -> dict[str, JsonValue]:
        """As `SeenFiles.restore` takes them; empty where nothing changed."""
        return {"rehashed": dict(self._rehashed)} if self._rehashed else {}

    async def __call__(
        self, command: str | Sequence[str], *, timeout: float | None = None, hosts: tuple[str, ...] = ()
    ) -> str:
        ctx = self._ctx
        if ctx.sandbox is None:
            raise Failed("there is no sandbox, so this tool cannot run commands; nothing was run")
        text = command if isinstance(command, str) else shlex.join(command)
        if not text.strip() or "\0" in text:
            raise InvalidArgs("the command is empty" if not text.strip() else "a command cannot hold a NUL character")
        asked = Command(text, ctx.call_id, ctx.read_only, tuple(hosts))
        run, changed = await run_own(ctx.sandbox, asked, ctx, self._outputs, self._seen, timeout)
        self._take(changed)
        return text_of(run.answer({}).content)

    def _take(self, details: dict[str, JsonValue]) -> None:
        if isinstance(changed := details.get("rehashed"), dict):
            self._rehashed |= changed
