"""From marked functions to tools, and everything that keeps one from being a tool."""

import inspect
import linecache
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from codeagent.core.ports import OutputStore
from codeagent.core.tool import Tool
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.decorator import Marked
from codeagent.tools.function_schema import FunctionSchema, NotATool, function_schema
from codeagent.tools.function_tool import FunctionTool, Place
from codeagent.tools.lint import lint
from codeagent.tools.sources.sandboxed_function import SandboxedFunction

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DEF = re.compile(r"\s*(?:async\s+)?def\b")


@dataclass(frozen=True)
class Session:
    """What the tools of one conversation share."""

    outputs: OutputStore


@dataclass(frozen=True)
class Found:
    """A marked function and where it stands."""

    function: Callable[..., Any]
    marked: Marked
    where: str
    """For problems."""
    place: Place
    content: bytes | None
    """Its whole file, for the sandbox; None where that cannot be had."""

    @property
    def name(self) -> str:
        return self.marked.name if self.marked.name is not None else self.function.__name__


def tools_of(found: list[Found], session: Session) -> tuple[list[Tool[Any]], list[ToolProblem]]:
    """In the order they stand there; a name that is there twice is an error at the second."""
    tools: list[Tool[Any]] = []
    problems: list[ToolProblem] = []
    places: dict[str, str] = {}
    for one in found:
        if one.name in places:
            problems.append(ToolProblem(one.where, f"there is another tool {one.name}, at {places[one.name]}"))
            continue
        places[one.name] = one.where
        try:
            tool, schema = _tool_of(one, session)
        except NotATool as error:
            problems += [ToolProblem(one.where, f"{one.name}: {reason}") for reason in error.reasons]
            continue
        tools.append(tool)
        problems += lint(tool, one.where)
        for name in schema.undocumented:
            text = f"the docstring of {one.name} describes {name!r}, which it does not take"
            problems.append(ToolProblem(one.where, text, "warning"))
    return tools, problems


def line_of(function: Callable[..., Any], file: str) -> int:
    """The line of its `def` in the file that code objects name so; 1 where it comes from elsewhere."""
    code = inspect.unwrap(function).__code__
    if code.co_filename != file:
        return 1
    lines = linecache.getlines(file)
    numbered = enumerate(lines[code.co_firstlineno - 1 :], code.co_firstlineno)
    return next((number for number, line in numbered if _DEF.match(line)), code.co_firstlineno)


def _tool_of(found: Found, session: Session) -> tuple[FunctionTool, FunctionSchema]:
    """Raises NotATool."""
    reasons = tuple(_objections(found))
    try:
        schema = function_schema(found.function, found.marked.description)
    except NotATool as error:
        raise NotATool((*reasons, *error.reasons)) from None
    if found.marked.sandbox and schema.context is not None:
        reasons = (*reasons, "sandbox=True runs it where there is no ToolContext; leave out one of the two")
    if reasons:
        raise NotATool(reasons)
    made = (found.function, found.name, found.marked, schema, found.place, session.outputs)
    if not found.marked.sandbox:
        return FunctionTool(*made), schema
    assert found.content is not None
    return SandboxedFunction(*made, found.content), schema


def _objections(found: Found) -> Iterator[str]:
    function, marked = found.function, found.marked
    if _NAME.fullmatch(found.name) is None:
        yield "its name is not 1 to 64 of A-Z, a-z, 0-9, _ and -; give one with register_tool(name=…)"
    if inspect.isgeneratorfunction(function):
        yield "it is a generator; make it `async def` for a stateful tool, or return a list"
    talks = inspect.isasyncgenfunction(function)
    if talks and marked.mode not in (None, "stateful"):
        yield f"it is an async generator, so its mode is stateful, not {marked.mode}"
    if marked.mode == "stateful" and not talks:
        yield "a stateful tool is an async generator: `async def` with `yield`"
    if marked.sandbox and talks:
        yield "sandbox=True runs functions, not async generators"
    if marked.sandbox and found.content is None:
        yield "sandbox=True needs the file it stands in, which cannot be read"
