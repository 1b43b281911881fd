"""The `python` tool: runs a piece of Python in the sandbox."""

from typing import Annotated, Self

from codeagent.core.deferred import AfterValidator, Field, model_validator
from codeagent.core.display import TerminalBlock
from codeagent.core.memory import OutputStore
from codeagent.core.policy import ApprovalKey
from codeagent.core.sandbox import Command
from codeagent.core.tool import Preview, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.arguments import AS_SECONDS, written
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.shell.run import (
    DEFAULT_SECONDS,
    MOST_SECONDS,
    check_seconds,
    first_line,
    run_for_model,
)

_MISSING = "python3 is missing in the sandbox; use bash, or tell the user"
_END = "END_OF_CODE"


def _encodable(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            "code cannot hold half a surrogate pair; write \\u escapes in a string"
        ) from error
    return value


class PythonArgs(ToolArgs):
    code: Annotated[str, written("code", "write \\0 in a string"), AfterValidator(_encodable)]
    timeout: Annotated[float | None, Field(gt=0), AS_SECONDS] = None

    @model_validator(mode="after")
    def _timeout_is_in_seconds(self) -> Self:
        check_seconds(self.timeout)
        return self


class Python(Tool[PythonArgs]):
    """Runs alone, and never counts as read-only."""

    name = "python"
    label = "Python"
    description = "Run code with python3, as bash runs commands. Print what you want to see."
    Args = PythonArgs
    permission = "prompt"
    effect = "anything"
    sandboxed = True

    def __init__(
        self, outputs: OutputStore, reads: ReadTracker, always_ask: str | None = None
    ) -> None:
        """The arguments are as for Bash."""
        self._outputs = outputs
        self._reads = reads
        self._always_ask = always_ask

    def time_limit(self, args: PythonArgs) -> float | None:
        return min(args.timeout or DEFAULT_SECONDS, MOST_SECONDS)

    def approval_key(self, args: PythonArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.code,), sensitive=self._always_ask)

    def target(self, args: PythonArgs) -> str:
        return first_line(args.code)

    async def preview(self, args: PythonArgs, ctx: ToolContext) -> Preview:
        return Preview(self.target(args), (TerminalBlock(command=args.code),))

    async def run(self, args: PythonArgs, ctx: ToolContext) -> ToolResult:
        command = Command(command_for(args.code), ctx.call_id, ctx.read_only)
        return await run_for_model(command, ctx, self._outputs, self._reads, title=args.code)


def command_for(code: str) -> str:
    """Return a command line for bash that runs python3 with exactly `code`, whatever it is, and a
    final newline."""
    end = _END
    while end in code:
        end += "_"
    whole = code if code.endswith("\n") else f"{code}\n"
    found = f"type -P python3 > /dev/null || {{ echo '{_MISSING}' >&2; exit 127; }}"
    return f"{found}\nexec python3 -u - <<'{end}'\n{whole}{end}\n"
