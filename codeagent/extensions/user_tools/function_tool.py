"""A tool made of a user's function, which is called in this process, in a thread or awaited."""

import asyncio
import inspect
import json
import threading
import traceback
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, TypeVar

from pydantic_core import PydanticSerializationError, to_jsonable_python

from codeagent.core.dataclass import dataclass
from codeagent.core.display import TextBlock
from codeagent.core.memory import OutputStore
from codeagent.core.messages import TextPart
from codeagent.core.policy import ApprovalKey
from codeagent.core.tool import Cancelled, Failed, Preview, Tool, ToolContext, ToolError, ToolResult
from codeagent.extensions.user_tools.decorator import ToolMark
from codeagent.extensions.user_tools.function_schema import FunctionArgs, FunctionSchema
from codeagent.extensions.user_tools.printed import PrintedOutput, heard_by
from codeagent.tools.shell.run import run_for_tool

_LONGEST_LINE = 100
NOTHING = "(no output)"
_MAY_BE = (
    "a tool may return text, None, anything that can be written as JSON (numbers, lists, dicts, dataclasses, pydantic "
    "models), or a codeagent.ToolResult"
)
T = TypeVar("T")
THREAD_NAME = "tool function"
_SECONDS_TO_NOTICE = 2.0
"""Seconds for a function in a thread to end by itself once `ToolContext.cancel` is set."""


@dataclass(frozen=True)
class MarkedFunction:
    """A marked function, and where it comes from."""

    function: Callable[..., Any]
    marked: ToolMark
    where: str
    """Its location in messages: `file:line`, or the name of an entry point."""
    origin: str
    """Its origin for the user: `file:line`, or the name and version of a package."""
    shown: str
    """The file as users write it; failures show it instead of `code_file`."""
    code_file: str
    """The file according to its code objects."""
    content: bytes | None = None
    """The text of the whole file, for the sandbox; None if it is not needed or cannot be read."""

    @property
    def name(self) -> str:
        return self.marked.name if self.marked.name is not None else self.function.__name__


TIMEOUT = 120.0
"""Seconds that a call may take unless the function says otherwise, as with a tool in YAML; a job
has no such limit."""


class FunctionTool(Tool[FunctionArgs]):
    """Runs a function; what it prints is passed on at once, and put before what it returns."""

    source = "python"

    def __init__(self, found: MarkedFunction, schema: FunctionSchema, outputs: OutputStore) -> None:
        marked = found.marked
        self.name = found.name
        self.label = (
            marked.label
            or self.name.replace("_", " ").replace("-", " ").strip().capitalize()
            or self.name
        )
        self.description = schema.description
        self.Args = schema.model
        self.mode = marked.mode or (
            "stateful" if inspect.isasyncgenfunction(found.function) else "direct"
        )
        self.tries = marked.approval == "effects"
        self.permission = "prompt" if marked.approval == "effects" else marked.approval
        self.effect = marked.effect
        limited = marked.timeout is None and self.mode == "direct"
        self.timeout = TIMEOUT if limited else marked.timeout
        self.max_calls = marked.max_calls
        self.output_limit = marked.output_limit
        self.concurrency = "shared" if marked.effect == "nothing" else "exclusive"
        self.origin = found.origin
        self.hint = marked.hint
        self.documentation = marked.documentation
        self.require_info = marked.require_info
        self._function = found.function
        self._schema = schema
        self._found = found
        self._outputs = outputs

    def approval_key(self, args: FunctionArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.canonical,))

    def target(self, args: FunctionArgs) -> str:
        return one_line(args.given)

    async def preview(self, args: FunctionArgs, ctx: ToolContext) -> Preview:
        where = "in the sandbox" if self.sandboxed else "on this machine, outside the sandbox"
        text = f"{as_call(self.name, args.given)}\n\nRuns {where}. Source: {self.origin}"
        return Preview(self.target(args), (TextBlock(text=text),))

    async def run(self, args: FunctionArgs, ctx: ToolContext) -> ToolResult:
        if inspect.isasyncgenfunction(self._function):
            return await self._run_to_the_end(args, ctx)
        printed = self._printed(ctx)
        async with printed.passed_on():
            try:
                return as_result(
                    await self._value(args, self._given(ctx, printed), printed), printed.text()
                )
            except ToolError as error:
                _add_printed(error, printed.text())
                raise

    async def talk(self, args: FunctionArgs, ctx: ToolContext) -> AsyncGenerator[str, str | None]:
        printed = self._printed(ctx)
        positional, named = self._schema.call(args, self._given(ctx, printed))
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

    async def _run_to_the_end(self, args: FunctionArgs, ctx: ToolContext) -> ToolResult:
        """Run a stateful tool without a job: its updates are the result."""
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
        return PrintedOutput(lambda: self._outputs.create(ctx.call_id), ctx)

    def _given(self, ctx: ToolContext, printed: PrintedOutput) -> ToolContext:
        """Return the context that the function gets."""
        commands = partial(run_for_tool, ctx, self._outputs)
        return replace(ctx, run=commands, on_update=printed.show, on_progress=printed.progress)

    async def _value(self, args: FunctionArgs, ctx: ToolContext, printed: PrintedOutput) -> Any:
        """Call the function and return its value. Raises only ToolError."""
        if inspect.iscoroutinefunction(self._function):
            positional, named = self._schema.call(args, ctx)
            return await self._awaited(self._function(*positional, **named), printed)
        positional, named = self._schema.call(args, _for_a_thread(ctx))

        def work() -> Any:
            with heard_by(printed.take):
                return self._function(*positional, **named)

        value = await self._in_thread(work)
        return await self._awaited(value, printed) if inspect.isawaitable(value) else value

    async def _awaited(self, work: Any, printed: PrintedOutput) -> Any:
        try:
            with heard_by(printed.take):
                return await work
        except asyncio.CancelledError:
            raise Cancelled("the function was stopped") from None
        except (Exception, SystemExit) as error:
            self._fail(error)

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        """Call the function in a thread and return its value. Raises ToolError."""
        running = in_thread(work)
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def tell(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed, so nobody waits for it
                loop.call_soon_threadsafe(ended.set)

        running.add_done_callback(tell)
        try:
            await ended.wait()
        except asyncio.CancelledError:
            if self._schema.context is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), _SECONDS_TO_NOTICE)
            if not running.done():
                raise Cancelled(
                    "the function runs in a thread, which cannot be stopped: it may still be running"
                ) from None
        if (error := running.exception()) is not None:
            self._fail(error)
        return running.result()

    def _fail(self, error: BaseException) -> NoReturn:
        """Raise a ToolError unchanged, any other error as Failed with its message and its line in
        the tool's file."""
        if isinstance(error, ToolError):
            raise error
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        line = last_line(error, self._found.code_file)
        where = f" ({self._found.shown}:{line})" if line else ""
        raise Failed(said + where) from None


def _add_printed(error: ToolError, printed: str) -> None:
    """Add what was printed so far to the error's content."""
    if not printed.strip() or error.content:
        return
    text = printed.rstrip()
    if error.kind not in ("cancelled", "timeout"):
        text = f"{text}\n{error}"
    error.content = (TextPart(text=text),)


def _for_a_thread(ctx: ToolContext) -> ToolContext:
    """Return a context that refuses what has to be awaited, which in a thread would silently do
    nothing."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise Failed(
            "a plain function cannot await this; make the tool `async def` (print() works everywhere)"
        )

    return replace(ctx, run=refuse, receive=refuse)


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Run `work` in a thread of its own, in this context; the future is never cancelled.

    It is a daemon thread outside any pool, so work that never ends blocks neither other work nor
    the exit.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            value = work()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(value)

    threading.Thread(target=copy_context().run, args=(run,), name=THREAD_NAME, daemon=True).start()
    return future


def last_line(error: BaseException, file: str) -> int | None:
    """Return the last line of the file (named as in its code objects) in the error's traceback."""
    frames = traceback.walk_tb(error.__traceback__)
    return next(
        reversed([line for frame, line in frames if frame.f_code.co_filename == file]), None
    )


def one_line(arguments: dict[str, Any]) -> str:
    """Return the arguments as in `path='a.txt', limit=5`, never shortened."""
    return ", ".join(f"{key}={value!r}" for key, value in arguments.items())


def as_call(name: str, arguments: dict[str, Any]) -> str:
    """Return the call as Python, never shortened; long calls, and multi-line values, are spread
    over lines."""
    short = f"{name}({one_line(arguments)})"
    if len(short) <= _LONGEST_LINE and not any(_has_lines(value) for value in arguments.values()):
        return short
    lines = [f"    {key}={_spread(value)}," for key, value in arguments.items()]
    return "\n".join([f"{name}(", *lines, ")"])


def _has_lines(value: object) -> bool:
    return isinstance(value, str) and "\n" in value.rstrip("\n")


def _spread(value: object) -> str:
    if not (isinstance(value, str) and _has_lines(value)):
        return repr(value)
    pieces = "".join(f"\n        {line!r}" for line in value.splitlines(keepends=True))
    return f"({pieces}\n    )"


def as_result(value: Any, printed: str) -> ToolResult:
    """Return the value as a result, text after `printed`; a ToolResult is unchanged. Raises Failed
    if it cannot be."""
    if isinstance(value, ToolResult):
        return value
    text = as_text(value)
    if printed.strip():
        text = f"{printed.rstrip()}\n{text}" if text != NOTHING else printed.rstrip()
    return ToolResult.from_text(text)


def as_text(value: Any) -> str:
    """Return text unchanged, other values as JSON. Raises Failed."""
    match value:
        case None | "":
            return NOTHING
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case bytes() | bytearray() | memoryview():
            return f"({len(value)} bytes, which a model cannot read; return text)"
    try:
        plain = to_jsonable_python(value, by_alias=True)
        text = json.dumps(plain, ensure_ascii=False, indent=2)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise Failed(
            f"it returned {type(value).__name__}, which cannot be shown ({reason}): {_MAY_BE}"
        ) from None
    return text.encode("utf-8", "backslashreplace").decode()
