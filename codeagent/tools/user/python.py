"""Tools from Python functions marked with `@register_tool`: in files, and in installed packages."""

import inspect
import linecache
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from codeagent.core.ports import OutputStore
from codeagent.core.tool import Tool
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.registry import Loaded, ToolFile
from codeagent.tools.user.decorator import ToolMark, marked_as
from codeagent.tools.user.function_schema import FunctionSchema, NotATool, function_schema
from codeagent.tools.user.function_tool import FunctionPlace, FunctionTool
from codeagent.tools.user.lint import lint
from codeagent.tools.user.python_module import CannotLoad, Executed, executed, quietly
from codeagent.tools.user.sandboxed_function import SandboxedFunction

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DEF = re.compile(r"\s*(?:async\s+)?def\b")
IMPORT_SECONDS = 10.0
GROUP = "codeagent.tools"


@dataclass(frozen=True)
class MarkedFunction:
    """A marked function and where it was found."""

    function: Callable[..., Any]
    marked: ToolMark
    where: str
    """For problems."""
    place: FunctionPlace

    @property
    def name(self) -> str:
        return self.marked.name if self.marked.name is not None else self.function.__name__


def tools_of(found: list[MarkedFunction], outputs: OutputStore) -> tuple[list[Tool[Any]], list[ToolProblem]]:
    """The tools in the order of the file, and the problems; a repeated name is an error at the second place."""
    tools: list[Tool[Any]] = []
    problems: list[ToolProblem] = []
    places: dict[str, str] = {}
    for one in found:
        if one.name in places:
            problems.append(ToolProblem(one.where, f"there is another tool {one.name}, at {places[one.name]}"))
            continue
        places[one.name] = one.where
        try:
            tool, schema = _tool_of(one, outputs)
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
    """The line of its `def` in this file, as code objects name it; 1 if it comes from elsewhere."""
    code = inspect.unwrap(function).__code__
    if code.co_filename != file:
        return 1
    lines = linecache.getlines(file)
    numbered = enumerate(lines[code.co_firstlineno - 1 :], code.co_firstlineno)
    return next((number for number, line in numbered if _DEF.match(line)), code.co_firstlineno)


def _tool_of(found: MarkedFunction, outputs: OutputStore) -> tuple[FunctionTool, FunctionSchema]:
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
    made = (found.function, found.name, found.marked, schema, found.place, outputs)
    kind = SandboxedFunction if found.marked.sandbox else FunctionTool
    return kind(*made), schema


def _objections(found: MarkedFunction) -> Iterator[str]:
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
    if marked.sandbox and found.place.content is None:
        yield "sandbox=True needs the function's file, which cannot be read"


class PythonLoader:
    """Loads Python files. Their code runs in this process with all its rights: only for files that are trusted."""

    suffixes = (".py",)

    def __init__(self, outputs: OutputStore, import_seconds: float = IMPORT_SECONDS) -> None:
        self._outputs = outputs
        self._import_seconds = import_seconds

    def load(self, file: ToolFile) -> Loaded:
        try:
            done = quietly(self._import_seconds, lambda: self._load(file))
        except CannotLoad as error:
            return Loaded(problems=(error.problem,))
        except Exception as error:
            return Loaded(problems=(ToolProblem(f"{file.shown}:1", f"{type(error).__name__}: {error}"),))
        if done is None:
            text = (
                f"it takes longer than {self._import_seconds:g} s to import; that cannot be stopped and continues "
                "until it ends. Move the work into the function"
            )
            return Loaded(problems=(ToolProblem(f"{file.shown}:1", text),))
        loaded, printed = done
        if not printed:
            return loaded
        told = ToolProblem(f"{file.shown}:1", "it prints when it is imported; that is not shown", "warning")
        return Loaded(loaded.tools, (*loaded.problems, told))

    def _load(self, file: ToolFile) -> Loaded:
        with executed(file) as done:
            found = _found_in_file(file, done)
            tools, problems = tools_of(found, self._outputs)
        if not found:
            text = "no function is marked with @register_tool, so it adds no tool"
            problems.append(ToolProblem(f"{file.shown}:1", text, "warning"))
        if file.place == "project":
            problems += _tightened(tools)
        broken = any(problem.level == "error" for problem in problems)
        return Loaded(() if broken else tuple(tools), tuple(problems))


def _found_in_file(file: ToolFile, done: Executed) -> list[MarkedFunction]:
    out: list[MarkedFunction] = []
    for function in done.marked:
        where = f"{file.shown}:{line_of(function, file.shown)}"
        if (marked := marked_as(function)) is not None:
            out.append(
                MarkedFunction(function, marked, where, FunctionPlace(where, file.shown, file.shown, file.content))
            )
    return out


def _tightened(tools: Sequence[Tool[Any]]) -> list[ToolProblem]:
    """Make a project's tools ask, unless a rule of the user allows them (SECURITY.md T17), and say so."""
    problems: list[ToolProblem] = []
    for tool in tools:
        unconfined = tool.effect == "files" and not tool.sandboxed
        said = ['approval="auto"'] if tool.permission == "auto" else []
        said += ['effect="files" outside the sandbox'] if unconfined else []
        if said:
            text = f"{' and '.join(said)} holds only in your own folder; a rule of yours can allow its calls"
            problems.append(ToolProblem(tool.origin, text, "warning"))
        tool.permission = "prompt" if tool.permission == "auto" else tool.permission
        tool.effect = "anything" if unconfined else tool.effect
    return problems


def entry_point_tools(
    outputs: OutputStore, points: Iterable[EntryPoint] | None = None, import_seconds: float = IMPORT_SECONDS
) -> Loaded:
    """The tools of all packages, by package and name; what fails is a problem and does not stop the rest.

    An entry point is a marked function, a Tool class that is made without arguments, a Tool, or a module with marked
    functions. Blocks; runs in a thread. `points` None: those of the installed packages.
    """
    tools: list[Tool[Any]] = []
    problems: list[ToolProblem] = []
    every = entry_points(group=GROUP) if points is None else points
    for point in sorted(every, key=lambda point: (_package(point), point.name)):
        where = f"{_package(point)}: {point.name}"
        loaded = _loaded(point, where, outputs, import_seconds)
        problems += loaded.problems
        for tool in loaded.tools:
            twin = next((other for other in tools if other.name == tool.name and other.origin == tool.origin), None)
            if twin is None:
                tools.append(tool)
            else:
                problems.append(ToolProblem(where, f"there is another tool {tool.name} in this package"))
    return Loaded(tuple(tools), tuple(problems))


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


def _loaded(point: EntryPoint, where: str, outputs: OutputStore, import_seconds: float) -> Loaded:
    try:
        done = quietly(import_seconds, lambda: _made(point, where, outputs))
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        return Loaded(problems=(ToolProblem(where, f"{point.value} cannot be loaded: {said}"),))
    if done is None:
        text = f"{point.value} takes longer than {import_seconds:g} s to import; that cannot be stopped"
        return Loaded(problems=(ToolProblem(where, text),))
    return done[0]


def _made(point: EntryPoint, where: str, outputs: OutputStore) -> Loaded:
    target = point.load()
    if isinstance(target, type) and issubclass(target, Tool):
        target = target()
    if isinstance(target, Tool):
        target.source, target.origin = "python", _package(point)
        return Loaded((target,), lint(target, where))
    functions = list(vars(target).values()) if isinstance(target, ModuleType) else [target]
    found = [_found_in_package(function, point, where) for function in functions if marked_as(function) is not None]
    if not found:
        what = "holds no function that is" if isinstance(target, ModuleType) else "is neither a Tool nor a function"
        return Loaded(problems=(ToolProblem(where, f"{point.value} {what} marked with @register_tool"),))
    tools, problems = tools_of(found, outputs)
    broken = any(problem.level == "error" for problem in problems)
    return Loaded(() if broken else tuple(tools), tuple(problems))


def _found_in_package(function: Any, point: EntryPoint, where: str) -> MarkedFunction:
    marked = marked_as(function)
    assert marked is not None
    file = inspect.unwrap(function).__code__.co_filename
    content = _content(file) if marked.sandbox else None
    place = FunctionPlace(_package(point), f"{function.__module__.replace('.', '/')}.py", file, content)
    return MarkedFunction(function, marked, where, place)


def _content(file: str) -> bytes | None:
    try:
        return Path(file).read_bytes()
    except OSError:
        return None
