"""A tool that is a function of a person's: called in this process, in a thread or awaited."""

import asyncio
import inspect
import traceback
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from codeagent.core.display import TextBlock
from codeagent.core.messages import TextPart
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import OutputStore, Workspace
from codeagent.core.tool import EXCLUSIVE, SHARED, Access, Cancelled, Failed, Preview, Tool, ToolContext, ToolError
from codeagent.core.tool import ToolResult as Result
from codeagent.tools.call_text import as_call, one_line
from codeagent.tools.decorator import Marked
from codeagent.tools.function_arguments import FunctionArgs
from codeagent.tools.function_schema import FunctionSchema
from codeagent.tools.printed import heard_by
from codeagent.tools.printed_output import PrintedOutput
from codeagent.tools.returned import as_result, as_text
from codeagent.tools.shell.run import CommandRunner
from codeagent.tools.threads import Ended, started

_SECONDS_TO_NOTICE = 2.0
"""What a function in a thread that sees `ToolContext.cancel` has to come to its end by itself."""


@dataclass(frozen=True)
class Place:
    """Where a function comes from."""

    origin: str
    """`file:line`, or the name and version of a package."""
    shown: str
    """The file as people write it; stands for `code_file` in what a failure says."""
    code_file: str
    """The file as its code objects name it."""


class FunctionTool(Tool[FunctionArgs]):
    """What the function prints is passed on as it comes, and stands before what it returned."""

    source = "python"

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        marked: Marked,
        schema: FunctionSchema,
        place: Place,
        outputs: OutputStore,
    ) -> None:
        self.name = name
        self.label = marked.label or name.replace("_", " ").replace("-", " ").strip().capitalize() or name
        self.description = schema.description
        self.Args = schema.model
        self.mode = marked.mode or ("stateful" if inspect.isasyncgenfunction(function) else "direct")
        self.permission = marked.approval
        self.effect = marked.effect
        self.timeout = marked.timeout
        self.max_calls = marked.max_calls
        self.output_limit = marked.output_limit
        self.concurrency = "shared" if marked.effect == "nothing" else "exclusive"
        self.origin = place.origin
        self.hint = marked.hint
        self.documentation = marked.documentation
        self._function = function
        self._schema = schema
        self._place = place
        self._outputs = outputs

    def access(self, args: FunctionArgs, workspace: Workspace) -> Access:
        return SHARED if self.effect == "nothing" else EXCLUSIVE

    def approval_key(self, args: FunctionArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.canonical,))

    def target(self, args: FunctionArgs) -> str:
        return one_line(args.given)

    async def preview(self, args: FunctionArgs, ctx: ToolContext) -> Preview:
        where = "in the sandbox" if self.sandboxed else "on this machine, outside the sandbox"
        text = f"{as_call(self.name, args.given)}\n\nRuns {where}. Source: {self._place.origin}"
        return Preview(self.target(args), (TextBlock(text=text),))

    async def run(self, args: FunctionArgs, ctx: ToolContext) -> Result:
        if inspect.isasyncgenfunction(self._function):
            return await self._run_to_the_end(args, ctx)
        printed = self._printed(ctx)
        commands = CommandRunner(ctx, self._outputs)
        async with printed.passed_on():
            try:
                return as_result(await self._value(args, replace(ctx, run=commands), printed), printed.text())
            except ToolError as error:
                _add_printed(error, printed.text())
                raise

    async def talk(self, args: FunctionArgs, ctx: ToolContext) -> AsyncGenerator[str, str | None]:
        printed = self._printed(ctx)
        positional, named = self._schema.call(args, replace(ctx, run=CommandRunner(ctx, self._outputs)))
        generator: AsyncGenerator[Any, str | None] = self._function(*positional, **named)
        sent: str | None = None
        async with printed.passed_on():
            try:
                while True:
                    try:
                        with heard_by(printed.take):
                            said = await generator.asend(sent)
                    except StopAsyncIteration:
                        return
                    except (Exception, SystemExit) as error:
                        self._fail(error)
                    sent = yield as_text(said)
            finally:
                with heard_by(printed.take):
                    await generator.aclose()

    async def _run_to_the_end(self, args: FunctionArgs, ctx: ToolContext) -> Result:
        """A stateful tool where nobody holds jobs: its updates are the result."""
        said: list[str] = []
        talk = self.talk(args, ctx)
        try:
            async for text in talk:
                said.append(text)
                await ctx.on_update(f"{text}\n")
        finally:
            await talk.aclose()
        return as_result("\n".join(said), "")

    def _printed(self, ctx: ToolContext) -> PrintedOutput:
        return PrintedOutput(lambda: self._outputs.create(ctx.call_id), ctx.on_update)

    async def _value(self, args: FunctionArgs, ctx: ToolContext, printed: PrintedOutput) -> Any:
        """What the function returned. Raises ToolError, and only that."""
        if inspect.iscoroutinefunction(self._function):
            positional, named = self._schema.call(args, ctx)
            return await self._awaited(self._function(*positional, **named), printed)
        positional, named = self._schema.call(args, _for_a_thread(ctx))

        def work() -> Any:
            with heard_by(printed.take):
                return self._function(*positional, **named)

        ended = await self._in_thread(work)
        if ended.raised is not None:
            self._fail(ended.raised)
        return await self._awaited(ended.value, printed) if inspect.isawaitable(ended.value) else ended.value

    async def _awaited(self, work: Any, printed: PrintedOutput) -> Any:
        try:
            with heard_by(printed.take):
                return await work
        except asyncio.CancelledError:
            raise Cancelled("the function was stopped") from None
        except (Exception, SystemExit) as error:
            self._fail(error)

    async def _in_thread(self, work: Callable[[], Any]) -> Ended[Any]:
        running = started(work)
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:
            if self._schema.context is not None:
                await asyncio.wait({running}, timeout=_SECONDS_TO_NOTICE)
            if not running.done():
                raise Cancelled(
                    "the function runs in a thread, which cannot be stopped: it may still be running"
                ) from None
        return running.result()

    def _fail(self, error: BaseException) -> NoReturn:
        """A ToolError as it is; of anything else what it says, and its line in the tool's own file."""
        if isinstance(error, ToolError):
            raise error
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        lines = [
            line
            for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename == self._place.code_file
        ]
        where = f" ({self._place.shown}:{lines[-1]})" if lines else ""
        raise Failed(said + where) from None


def _add_printed(error: ToolError, printed: str) -> None:
    """What was printed until then is part of the answer."""
    if not printed.strip() or error.content:
        return
    text = printed.rstrip()
    if error.kind not in ("cancelled", "timeout"):
        text = f"{text}\n{error}"
    error.content = (TextPart(text=text),)


def _for_a_thread(ctx: ToolContext) -> ToolContext:
    """Without what has to be awaited: there a call would do nothing and say nothing."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise Failed("a plain function cannot await this; make the tool `async def` (print() works everywhere)")

    return replace(ctx, run=refuse, receive=refuse, on_update=refuse, on_progress=refuse)
