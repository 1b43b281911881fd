"""A tool of an MCP server; it needs approval like any tool that may do anything, whatever its
server says."""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from codeagent.core.display import TextBlock
from codeagent.core.messages import TextPart
from codeagent.core.policy import ApprovalKey
from codeagent.core.sanitize import one_line
from codeagent.core.tool import (
    Cancelled,
    Failed,
    OpenArgs,
    Preview,
    TimedOut,
    Tool,
    ToolContext,
    ToolResult,
)
from codeagent.extensions.mcp.answer import result_of
from codeagent.extensions.mcp.described import DescribedServer
from codeagent.extensions.mcp.offer import OfferedTool

ANSWER_SECONDS = 600.0
"""Seconds that a call may take longer because the server asks the user something in the middle of
it."""
_PROGRESS_SECONDS = 0.1


class ServerProgress:
    """Passes on a server's progress: only the latest, and no more often than can be read."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._next = 0.0

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._next:
            return
        self._next = now + _PROGRESS_SECONDS
        share = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        await self._ctx.on_progress(one_line(f"{message} ({share})" if message else share, 200))


class CallsServer(DescribedServer, ABC):
    """What a tool needs from its server."""

    @abstractmethod
    def call(
        self, tool: str, arguments: Mapping[str, Any], ctx: ToolContext, progress: ServerProgress
    ) -> Awaitable[Mapping[str, Any]]:
        """Return the `CallToolResult` as a JSON object. Raises Failed, TimeoutError; being
        cancelled is passed on."""

    @abstractmethod
    def outdated(self, offered: OfferedTool, *, asked: bool) -> Coroutine[Any, Any, str]:
        """Find out why the server no longer offers this, or the user did not agree to it; see
        `core.tool.Tool`."""

    @abstractmethod
    def instructions(self, agent: str) -> str:
        """Return the server's instructions for its tools, once for each agent; empty otherwise."""


class ServerTool(Tool[OpenArgs]):
    """One tool; calls fail as `unavailable` while its server is not running."""

    source = "mcp"
    Args = OpenArgs
    has_defaults = True

    def __init__(self, offered: OfferedTool, server: CallsServer) -> None:
        self.name = offered.name
        self.label = offered.label
        self.description = offered.description
        self.documentation = offered.documentation
        self.schema = offered.schema
        self.effect = "anything"
        self.may_write = server.may_write
        self.says_it_reads = offered.read_only
        beside = offered.read_only and not (server.may_write and server.runs_here)
        self.concurrency = "shared" if beside else "exclusive"
        self.timeout = server.seconds + ANSWER_SECONDS
        self.origin = server.name
        self._offered = offered
        self._server = server

    @property
    def whose(self) -> str:
        return f"the MCP server {self._server.name}, {self._server.where}"

    def approval_key(self, args: OpenArgs) -> ApprovalKey:
        """Return the arguments as text, and the server's host for rules that deny or ask.

        Modes never answer for the user if the server is elsewhere, or holds or may reach something.
        """
        says = "its server says that it may destroy something" if self._offered.destructive else ""
        why = "; ".join(filter(None, (self._server.sensitive, says))) or None
        canonical = json.dumps(args.model_dump(), sort_keys=True, ensure_ascii=False)
        server = self._server
        return ApprovalKey(
            "text", (canonical,), sensitive=why, runs=server.hosts, server=server.name
        )

    def target(self, args: OpenArgs) -> str:
        return one_line(
            ", ".join(f"{key}={value!r}" for key, value in args.model_dump().items()), 500
        )

    async def preview(self, args: OpenArgs, ctx: ToolContext) -> Preview:
        given = json.dumps(args.model_dump(), indent=2, ensure_ascii=False)
        text = f"{self._offered.raw_name} {given}\n\nCalls the MCP server {self._server.name}, {self._server.where}."
        if self._server.runs_here and self._server.may_write:
            text += " It may write in the workspace."
        if self._offered.read_only:
            text += " It says that this changes nothing; nobody checks that."
        return Preview(self.target(args), (TextBlock(text=text),), base=self._offered.digest)

    def outdated(self, *, asked: bool) -> Coroutine[Any, Any, str]:
        return self._server.outdated(self._offered, asked=asked)

    async def run(self, args: OpenArgs, ctx: ToolContext) -> ToolResult:
        if why := await self._server.outdated(self._offered, asked=False):
            raise Failed(why)
        try:
            answer = await self._server.call(
                self._offered.raw_name, args.model_dump(), ctx, ServerProgress(ctx)
            )
        except asyncio.CancelledError:
            raise Cancelled(
                "the server was told to stop; whether the call took effect is unknown"
            ) from None
        except TimeoutError:
            seconds = f"{self._server.seconds:g} s"
            raise TimedOut(
                f"{self._server.name} did not answer within {seconds}; it was told to stop, and whether the call "
                "took effect is unknown"
            ) from None
        try:
            misfits = None if self._offered.output is None else self._offered.output.misfits
            result = await asyncio.to_thread(result_of, self._server.name, answer, misfits)
        except (RecursionError, ValueError) as error:
            raise Failed(
                f"{self._server.name} returned an answer that cannot be shown: it is nested too deeply"
            ) from error
        instructions = self._server.instructions(ctx.agent)
        said = (TextPart(text=instructions),) if instructions else ()
        return replace(result, content=(*result.content, *said))
