"""Tools from Python functions marked with `@register_tool`: in files, and in installed packages."""

import ast
import importlib.util
import inspect
import linecache
import re
import secrets
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from codeagent.core.memory import OutputStore
from codeagent.core.tool import Tool
from codeagent.core.toolbox import ToolProblem
from codeagent.extensions.user_tools.decorator import ToolMark, marked_as, marks_collected
from codeagent.extensions.user_tools.function_schema import (
    FunctionSchema,
    NotATool,
    function_schema,
)
from codeagent.extensions.user_tools.function_tool import (
    FunctionTool,
    MarkedFunction,
    in_thread,
    last_line,
)
from codeagent.extensions.user_tools.printed import PrintedStream, heard_by
from codeagent.extensions.user_tools.sandboxed_function import SandboxedFunction
from codeagent.tools.catalog import TOOL_PACKAGES
from codeagent.tools.files.lint import lint
from codeagent.tools.folders import Loaded, LoaderNeeds, ToolFile

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DEF = re.compile(r"\s*(?:async\s+)?def\b")
IMPORT_SECONDS = 10.0


class CannotLoad(Exception):
    """A file cannot be loaded; `where` is `file:line`."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(why)
        self.problem = ToolProblem(where, why)


def python_loader(needs: LoaderNeeds) -> "PythonLoader":
    """Make the loader of a conversation."""
    return PythonLoader(needs.outputs)


class PythonLoader:
    """Loads Python files. Their code runs in this process with all its rights, so they must be
    trusted."""

    suffixes = (".py",)

    def __init__(self, outputs: OutputStore, import_seconds: float = IMPORT_SECONDS) -> None:
        self._outputs = outputs
        self._import_seconds = import_seconds

    def load(self, file: ToolFile) -> Loaded:
        where = f"{file.shown}:1"
        loaded, printed = _quietly(self._import_seconds, lambda: self._load(file), where, "it")
        if loaded is None:
            text = (
                f"it takes longer than {self._import_seconds:g} s to import; that cannot be stopped and continues "
                "until it ends. Move the work into the function"
            )
            return Loaded(problems=(ToolProblem(where, text),))
        if not printed:
            return loaded
        told = ToolProblem(where, "it prints when it is imported; that is not shown", "warning")
        return Loaded(loaded.tools, (*loaded.problems, told))

    def _load(self, file: ToolFile) -> Loaded:
        with _executed(file) as functions:
            found = [_found_in_file(function, file) for function in functions]
            loaded = _tools_of(found, self._outputs)
        problems = list(loaded.problems)
        if not found:
            text = "none of its functions is marked with @register_tool, so it adds none"
            problems.append(ToolProblem(f"{file.shown}:1", text, "warning"))
        if file.place == "project":
            problems += _tightened(loaded.tools)
        return Loaded(loaded.tools, tuple(problems))


def entry_point_tools(
    outputs: OutputStore,
    points: Iterable[EntryPoint] | None = None,
    import_seconds: float = IMPORT_SECONDS,
) -> Loaded:
    """Load the tools of all packages, by package and name; failures become problems and do not stop
    the rest.

    An entry point is a marked function, a Tool class without constructor arguments, a Tool, or a
    module with marked functions. Blocks, so call it in a thread. If `points` is None, those of the
    installed packages are used.
    """
    tools: list[Tool[Any]] = []
    problems: list[ToolProblem] = []
    every = entry_points(group=TOOL_PACKAGES) if points is None else points
    for point in sorted(every, key=lambda point: (_package(point), point.name)):
        where = f"{_package(point)}: {point.name}"
        loaded, _ = _quietly(
            import_seconds, partial(_made, point, where, outputs), where, point.value
        )
        if loaded is None:
            text = f"{point.value} takes longer than {import_seconds:g} s to import; that cannot be stopped"
            problems.append(ToolProblem(where, text))
            continue
        problems += loaded.problems
        for tool in loaded.tools:
            if any(other.name == tool.name and other.origin == tool.origin for other in tools):
                problems.append(
                    ToolProblem(where, f"there is another tool {tool.name} in this package")
                )
            else:
                tools.append(tool)
    return Loaded(tuple(tools), tuple(problems))


def marked_in(file: ToolFile) -> tuple[list[str], list[ToolProblem]]:
    """Return the names of the functions that a file marks, and their problems, without running
    anything."""
    try:
        code = _compiled(file, flags=ast.PyCF_ONLY_AST)
    except CannotLoad as error:
        return [], [error.problem]
    names: list[str] = []
    problems: list[ToolProblem] = []
    for node in code.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if (mark := next((one for one in node.decorator_list if _marks(one)), None)) is None:
            continue
        name = _said_name(mark) or node.name
        where = f"{file.shown}:{node.lineno}"
        if name in names:
            problems.append(ToolProblem(where, f"there is another tool {name}"))
        names.append(name)
        given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        untyped = [one.arg for one in given if one.annotation is None]
        problems += [
            ToolProblem(where, f"{name}: the parameter {arg!r} has no type") for arg in untyped
        ]
    return names, problems


def _marks(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (
        called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    ) == "register_tool"


def _said_name(decorator: ast.expr) -> str | None:
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    found = next((one.value for one in keywords if one.arg == "name"), None)
    return found.value if isinstance(found, ast.Constant) and isinstance(found.value, str) else None


def _quietly(
    seconds: float, work: Callable[[], Loaded], where: str, what: str
) -> tuple[Loaded | None, bool]:
    """Run `work` in a thread; return its result and whether it printed, or None if it takes longer
    than `seconds`.

    Printed text is dropped, and errors become problems about `what`. Work that takes too long
    continues, as a thread cannot be stopped.
    """
    printed: list[str] = []

    def listen(stream: PrintedStream, text: str) -> None:
        if not printed:
            printed.append(text)

    def heard() -> Loaded:
        with heard_by(listen):
            return work()

    running = in_thread(heard)
    if wait([running], seconds).not_done:
        return None, bool(printed)
    match running.exception():
        case None:
            return running.result(), bool(printed)
        case CannotLoad() as error:
            return Loaded(problems=(error.problem,)), False
        case error:
            return Loaded(
                problems=(ToolProblem(where, f"{what} cannot be loaded: {_said(error)}"),)
            ), False


@contextmanager
def _executed(file: ToolFile) -> Iterator[list[Callable[..., Any]]]:
    """Execute the file; yield the functions that it marks, in order, even if their names were
    reused.

    It is executed from the bytes that were read, under a name that cannot be guessed; until the
    block ends its module is in `sys.modules`, which hints and dataclasses need. Raises CannotLoad.
    """
    code = _compiled(file)
    text = importlib.util.decode_source(file.content)
    linecache.cache[file.shown] = (len(text), None, text.splitlines(keepends=True), file.shown)
    module = types.ModuleType(f"codeagent_tool_{secrets.token_hex(16)}")
    module.__file__ = str(file.path)
    sys.modules[module.__name__] = module
    try:
        with marks_collected() as marked:
            _execute(code, module, file.shown)
        yield [function for function in marked if _is_at_home(function, module)]
    finally:
        sys.modules.pop(module.__name__, None)


def _compiled(file: ToolFile, flags: int = 0) -> Any:
    """Compile the file to code or, with `ast.PyCF_ONLY_AST`, to a tree. Raises CannotLoad."""
    try:
        return compile(file.content, file.shown, "exec", flags=flags, dont_inherit=True)
    except SyntaxError as error:
        raise CannotLoad(
            f"{file.shown}:{error.lineno or 1}", f"syntax error: {error.msg}"
        ) from None
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise CannotLoad(f"{file.shown}:1", f"this is not Python source: {error}") from None


def _execute(code: types.CodeType, module: types.ModuleType, shown: str) -> None:
    try:
        exec(code, module.__dict__)
    except BaseException as error:
        said = _said(error)
        if isinstance(error, SystemExit):
            said = f"it ends the program when imported: {said}"
        if isinstance(error, ImportError):
            said += "; a tool can import what is installed with codeagent, but not another tool"
        raise CannotLoad(f"{shown}:{last_line(error, shown) or 1}", said) from None


def _said(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_at_home(function: Callable[..., Any], module: types.ModuleType) -> bool:
    """Whether the file defines the function itself instead of importing a package's tool."""
    home = sys.modules.get(function.__module__)
    return home is module or getattr(home, function.__name__, None) is not function


def _found_in_file(function: Callable[..., Any], file: ToolFile) -> MarkedFunction:
    where = f"{file.shown}:{_line_of(function, file.shown)}"
    marked = marked_as(function) or ToolMark()
    return MarkedFunction(
        function,
        marked,
        where,
        origin=where,
        shown=file.shown,
        code_file=file.shown,
        content=file.content,
    )


def _line_of(function: Callable[..., Any], file: str) -> int:
    """Return the line of its `def` in this file (named as in code objects); 1 if it comes from
    elsewhere."""
    code = inspect.unwrap(function).__code__
    if code.co_filename != file:
        return 1
    lines = linecache.getlines(file)
    numbered = enumerate(lines[code.co_firstlineno - 1 :], code.co_firstlineno)
    return next((number for number, line in numbered if _DEF.match(line)), code.co_firstlineno)


def _tools_of(found: Sequence[MarkedFunction], outputs: OutputStore) -> Loaded:
    """Return the tools in the order of the file, or none if there is an error, such as a repeated
    name."""
    tools: list[Tool[Any]] = []
    problems: list[ToolProblem] = []
    places: dict[str, str] = {}
    for one in found:
        if one.name in places:
            problems.append(
                ToolProblem(one.where, f"there is another tool {one.name}, at {places[one.name]}")
            )
            continue
        places[one.name] = one.where
        try:
            tool, schema = _tool_of(one, outputs)
        except NotATool as error:
            problems += [
                ToolProblem(one.where, f"{one.name}: {reason}") for reason in error.reasons
            ]
            continue
        tools.append(tool)
        problems += lint(tool, one.where)
        for name in schema.undocumented:
            text = f"the docstring of {one.name} describes {name!r}, which it does not take"
            problems.append(ToolProblem(one.where, text, "warning"))
    broken = any(problem.level == "error" for problem in problems)
    return Loaded(() if broken else tuple(tools), tuple(problems))


def _tool_of(found: MarkedFunction, outputs: OutputStore) -> tuple[FunctionTool, FunctionSchema]:
    """Make the tool of a marked function. Raises NotATool."""
    reasons = tuple(_objections(found))
    try:
        schema = function_schema(found.function, found.marked.description)
    except NotATool as error:
        raise NotATool((*reasons, *error.reasons)) from None
    if found.marked.sandbox and schema.context is not None:
        reasons = (
            *reasons,
            "sandbox=True cannot be combined with a ToolContext; leave out one of the two",
        )
    if reasons:
        raise NotATool(reasons)
    kind = SandboxedFunction if found.marked.sandbox else FunctionTool
    return kind(found, schema, outputs), schema


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
    if marked.approval == "effects" and not (marked.sandbox and marked.mode != "background"):
        yield 'approval="effects" needs sandbox=True, and not mode="background"'
    if marked.sandbox and talks:
        yield "sandbox=True runs functions, not async generators"
    if marked.sandbox and found.content is None:
        yield "sandbox=True needs the function's file, which cannot be read"


def _tightened(tools: Sequence[Tool[Any]]) -> Iterator[ToolProblem]:
    """Make a project's tools ask unless one of the user's rules allows them, and
    say so."""
    for tool in tools:
        unconfined = tool.effect == "files" and not tool.sandboxed
        said = ['approval="auto"'] if tool.permission == "auto" else []
        said += ['effect="files" outside the sandbox'] if unconfined else []
        if said:
            text = f"{' and '.join(said)} holds only in your own folder; a rule of yours can allow its calls"
            yield ToolProblem(tool.origin, text, "warning")
        tool.permission = "prompt" if tool.permission == "auto" else tool.permission
        tool.effect = "anything" if unconfined else tool.effect


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


def _made(point: EntryPoint, where: str, outputs: OutputStore) -> Loaded:
    target = point.load()
    if isinstance(target, type) and issubclass(target, Tool):
        target = target()
    if isinstance(target, Tool):
        target.source = "python"
        target.origin = _package(point)
        return Loaded((target,), lint(target, where))
    functions = list(vars(target).values()) if isinstance(target, types.ModuleType) else [target]
    marks = [
        (function, marked) for function in functions if (marked := marked_as(function)) is not None
    ]
    if not marks:
        is_module = isinstance(target, types.ModuleType)
        what = "holds no function that is" if is_module else "is neither a Tool nor a function"
        return Loaded(
            problems=(ToolProblem(where, f"{point.value} {what} marked with @register_tool"),)
        )
    return _tools_of([_found_in_package(*mark, point, where) for mark in marks], outputs)


def _found_in_package(
    function: Any, marked: ToolMark, point: EntryPoint, where: str
) -> MarkedFunction:
    file = inspect.unwrap(function).__code__.co_filename
    try:
        content = Path(file).read_bytes() if marked.sandbox else None
    except OSError:
        content = None
    shown = f"{function.__module__.replace('.', '/')}.py"
    return MarkedFunction(
        function,
        marked,
        where,
        origin=_package(point),
        shown=shown,
        code_file=file,
        content=content,
    )
