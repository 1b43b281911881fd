"""A command of the agent's own: what it changes of files the model knows is not held against the model."""

import asyncio

from pydantic import JsonValue

from codeagent.core.ports import Command, OutputStore, Sandbox
from codeagent.core.tool import ToolContext
from codeagent.tools.command_run import CommandRun, run_command
from codeagent.tools.seen import SeenFiles


async def run_own(
    sandbox: Sandbox,
    command: Command,
    ctx: ToolContext,
    outputs: OutputStore,
    seen: SeenFiles,
    timeout: float | None = None,
) -> tuple[CommandRun, dict[str, JsonValue]]:
    """The ended command, and what it changed as `SeenFiles.restore` takes it.

    Of a job nothing is forgiven: while it ran, others changed files as well. Raises as `run_command`.
    """
    fresh = await asyncio.to_thread(seen.before_command)
    changed: dict[str, JsonValue] = {}
    try:
        run = await run_command(sandbox, command, outputs, ctx.on_update, timeout)
    finally:
        if not ctx.is_job():
            changed = await asyncio.to_thread(seen.after_command, fresh)
    return run, changed
