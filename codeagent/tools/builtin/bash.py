"""The `bash` tool: one command line in the sandbox."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Self

from codeagent.core.deferred import Field, model_validator
from codeagent.core.display import TerminalBlock, TextBlock
from codeagent.core.memory import OutputStore
from codeagent.core.policy import NETWORK, ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sandbox import Command
from codeagent.core.tool import (
    EXCLUSIVE,
    SHARED,
    Access,
    Cancelled,
    Preview,
    Tool,
    ToolArgs,
    ToolContext,
    ToolResult,
)
from codeagent.tools.arguments import AS_SECONDS, written
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.shell.run import (
    DEFAULT_SECONDS,
    MOST_SECONDS,
    check_seconds,
    first_line,
    run_for_model,
)

UNASKED_SECONDS = 20.0
"""The time limit of a read-only command that runs without approval; a longer `timeout` needs
approval."""
_ANY_HOST = ("*",)
_UNASKED = (
    f"a command that only reads gets {UNASKED_SECONDS:g} s, because nobody is asked about it; narrow it, or give a "
    "longer timeout, which is asked about"
)
_NETWORKED = "network access: it could send what it reads to the hosts it may reach"


class BashArgs(ToolArgs):
    command: Annotated[str, written("command")]
    timeout: Annotated[float | None, Field(gt=0, description="Seconds"), AS_SECONDS] = None
    run_in_background: Annotated[bool, Field(description="Run as a job")] = False
    network: Annotated[bool, Field(description="Reach public hosts over HTTP(S); always asks")] = (
        False
    )

    @model_validator(mode="after")
    def _timeout_is_in_seconds(self) -> Self:
        check_seconds(self.timeout, background=self.run_in_background)
        return self


class Bash(Tool[BashArgs]):
    """Runs alone, unless the whole command is known to be read-only, as it is not known what others
    touch."""

    name = "bash"
    label = "Bash"
    description = (
        "Run a bash command in the workspace root. Only files last between calls; standard "
        "input is empty."
    )
    Args = BashArgs
    permission = "prompt"
    effect = "anything"
    sandboxed = True
    tries = True

    def __init__(
        self,
        outputs: OutputStore,
        reads: ReadTracker,
        always_ask: str | None = None,
        exposed: Callable[[], str] = str,
    ) -> None:
        """`always_ask` is why only a rule, and never a mode, may answer for the user. `exposed`:
        see Sandbox."""
        self._outputs = outputs
        self._reads = reads
        self._always_ask = always_ask
        self._exposed = exposed

    def access(self, args: BashArgs, workspace: Workspace) -> Access:
        return (
            SHARED
            if self.approval_key(args).reads == "freely" and not args.run_in_background
            else EXCLUSIVE
        )

    def time_limit(self, args: BashArgs) -> float | None:
        if args.run_in_background:
            return args.timeout
        if args.timeout is None and self.approval_key(args).reads == "freely":
            return UNASKED_SECONDS
        return min(args.timeout or DEFAULT_SECONDS, MOST_SECONDS)

    def in_background(self, args: BashArgs) -> bool:
        return args.run_in_background

    def approval_key(self, args: BashArgs) -> ApprovalKey:
        from codeagent.tools.shell.hosts import hosts_needed  # not before the first command
        from codeagent.tools.shell.read_only import sweeps
        from codeagent.tools.shell.syntax import command_key

        key = command_key(args.command)
        if args.network:
            reasons = (self._always_ask, _NETWORKED, key.sensitive)
            why = "; ".join(reason for reason in reasons if reason)
            offline = self.approval_key(args.model_copy(update={"network": False}))
            key = replace(key, sensitive=why, reads="no", reading=frozenset(), network=True)
            return replace(key, needs=hosts_needed(key.parts), offline=offline)
        if args.run_in_background or (args.timeout or 0) > UNASKED_SECONDS:
            key = replace(key, reads="no", reading=frozenset())
        unseen = self._exposed() if key.reads == "freely" and sweeps(args.command) else ""
        sensitive = self._always_ask or unseen
        if not sensitive:
            return key
        return replace(
            key,
            sensitive=sensitive,
            reads="if asked" if key.reads == "freely" else "no",
            reading=frozenset(),
        )

    def proposal(self, args: BashArgs) -> str:
        from codeagent.tools.shell.proposals import bash_proposal  # not before the first command

        return bash_proposal(args.command, self.approval_key(args))

    def target(self, args: BashArgs) -> str:
        return (NETWORK if args.network else "") + first_line(args.command)

    async def preview(self, args: BashArgs, ctx: ToolContext) -> Preview:
        job = (
            (TextBlock(text="It runs in the background, as a job."),)
            if args.run_in_background
            else ()
        )
        return Preview(self.target(args), (TerminalBlock(command=args.command), *job))

    async def run(self, args: BashArgs, ctx: ToolContext) -> ToolResult:
        command = Command(
            args.command, ctx.call_id, ctx.read_only, _ANY_HOST if args.network else ()
        )
        try:
            return await run_for_model(command, ctx, self._outputs, self._reads)
        except Cancelled as error:
            why = f"{error}; {_UNASKED}"
            if (
                not (ctx.cancel.reason or "").startswith("timeout")
                or self.time_limit(args) != UNASKED_SECONDS
            ):
                raise
            raise Cancelled(
                why, content=error.content, blocks=error.blocks, details=error.details
            ) from None
