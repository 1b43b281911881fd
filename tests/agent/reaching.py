"""Commands that make requests through a real proxy, for an agent of fixed turns."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

from codeagent.core.display import TerminalBlock
from codeagent.core.hosts import HostRule
from codeagent.core.policy import ApprovalKey
from codeagent.core.sandbox import Command, CommandResult, OnOutput
from codeagent.core.tool import Preview, Tool, ToolContext, ToolResult
from codeagent.sandbox.egress.grant import Grant
from tests.agent.doubles import Do
from tests.fakes import FakeSandbox
from tests.sandbox.egress.proxying import Ground, Origin, get, listening, proxying
from tests.sandbox.egress.test_egress_proxy import ToOrigin

REASON = "network access: it could send what it reads"
"""Why a command with network access asks, whatever the mode."""


class Fetch(Tool[Do]):
    """Asks for the hosts in `what` side by side, one batch after another where `;` stands
    between."""

    name: ClassVar[str] = "fetch"
    label: ClassVar[str] = "Fetch"
    description: ClassVar[str] = "Fetches."
    permission: ClassVar[Literal["auto", "prompt", "deny"]] = "auto"
    sandboxed = True
    Args = Do

    def __init__(self, *hosts: str) -> None:
        self._hosts = hosts or ("*",)

    def approval_key(self, args: Do) -> ApprovalKey:
        return ApprovalKey("text", (args.what,), network=True)

    async def run(self, args: Do, ctx: ToolContext) -> ToolResult:
        assert ctx.sandbox is not None

        async def nothing(stream: str, data: bytes) -> None: ...

        result = await ctx.sandbox.run(Command(args.what, ctx.call_id, hosts=self._hosts), nothing)
        return ToolResult.from_text("\n".join(result.notices))


class Network(Fetch):
    """As bash with network access: it asks because of that, or as the mode says; it is known to
    need the hosts in `key`."""

    permission: ClassVar[Literal["auto", "prompt", "deny"]] = "prompt"

    def approval_key(self, args: Do) -> ApprovalKey:
        offline = ApprovalKey("text", (args.what,))
        return replace(
            offline, sensitive=REASON, network=True, needs=tuple(args.key.split()), offline=offline
        )

    async def preview(self, args: Do, ctx: ToolContext) -> Preview:
        return Preview(args.what, (TerminalBlock(command=args.what),))


class ProxiedSandbox(FakeSandbox):
    """A command is the hosts it asks for."""

    def __init__(self, ground: Ground, origin: Origin) -> None:
        super().__init__()
        self._ground = ground
        self.origin = origin
        self.answers: list[bytes] = []
        self.ran: list[Command] = []

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        self.ran.append(command)
        grant = self._ground.proxy.grant(tuple(map(HostRule.parse, command.hosts)), command.reach)
        try:
            for batch in command.text.split(";"):
                self.answers += await asyncio.gather(
                    *(self._fetch(grant, host) for host in batch.split())
                )
        finally:
            self._ground.proxy.end(grant)
        return CommandResult(exit_code=0, notices=(grant.notice(),))

    async def _fetch(self, grant: Grant, host: str) -> bytes:
        reader, writer = await self._ground.connect()
        answer = b""
        with suppress(OSError, EOFError):
            writer.write(get(grant, f"http://{host}/"))
            answer = await reader.readuntil(b"\r\n\r\n")
            answer += await reader.readexactly(int(answer.split(b"Content-Length: ")[1].split()[0]))
        writer.close()
        return answer


@asynccontextmanager
async def reaching_sandbox(folder: Path) -> AsyncIterator[ProxiedSandbox]:
    async with proxying(folder) as ground, listening(Origin()) as origin:
        ground.proxy._internet = ToOrigin(origin)
        yield ProxiedSandbox(ground, origin)
