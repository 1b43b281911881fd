"""`ToolContext.run` of one call: commands in the sandbox for a tool that people wrote."""

import shlex
from collections.abc import Sequence

from codeagent.core.messages import text_of
from codeagent.core.ports import Command, OutputStore
from codeagent.core.tool import Failed, InvalidArgs, ToolContext
from codeagent.tools.command_run import run_command


class ToolCommands:
    """A `RunCommand`."""

    def __init__(self, ctx: ToolContext, outputs: OutputStore) -> None:
        self._ctx = ctx
        self._outputs = outputs

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
        run = await run_command(ctx.sandbox, asked, self._outputs, ctx.on_update, timeout)
        return text_of(run.answer({}).content)
