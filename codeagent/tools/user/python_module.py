"""Executes one tool file, from the bytes that were read and under a name that nobody can guess."""

import ast
import importlib.util
import linecache
import secrets
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from codeagent.core.toolbox import ToolProblem
from codeagent.tools.registry import ToolFile
from codeagent.tools.user.decorator import marks_collected
from codeagent.tools.user.function_tool import within
from codeagent.tools.user.printed import PrintedStream, heard_by

T = TypeVar("T")


class CannotLoad(Exception):
    """Carries the problem."""

    def __init__(self, problem: ToolProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True)
class Executed:
    """The outcome of executing a file."""

    marked: tuple[Callable[..., Any], ...]
    """The functions it marked, in order, even if their name was reused since."""


def quietly(seconds: float, work: Callable[[], T]) -> tuple[T, bool] | None:
    """Run `work` in a thread; return its value and whether it printed, or None if it takes longer than `seconds`.

    What it prints is dropped. Raises what it raises. Work that takes too long continues: a thread cannot be stopped.
    """
    printed: list[str] = []

    def listen(stream: PrintedStream, text: str) -> None:
        if not printed:
            printed.append(text)

    def heard() -> T:
        with heard_by(listen):
            return work()

    ended = within(seconds, heard)
    return None if ended is None else (ended.result(), bool(printed))


@contextmanager
def executed(file: ToolFile) -> Iterator[Executed]:
    """Execute the file; its module is in `sys.modules` only meanwhile, where hints and dataclasses are looked up.

    Raises CannotLoad.
    """
    code = _compiled(file)
    module = types.ModuleType(f"codeagent_tool_{secrets.token_hex(16)}")
    module.__file__ = str(file.path)
    sys.modules[module.__name__] = module
    try:
        with marks_collected() as marked:
            _execute(code, module, file.shown)
        yield Executed(tuple(function for function in marked if _is_at_home(function, module)))
    finally:
        sys.modules.pop(module.__name__, None)


def marked_in(file: ToolFile) -> tuple[list[str], list[ToolProblem]]:
    """The names of the functions that a file marks, and what is wrong with them, without running anything."""
    try:
        tree = ast.parse(_source(file), file.shown)
    except CannotLoad as error:
        return [], [error.problem]
    except SyntaxError as error:
        return [], [ToolProblem(f"{file.shown}:{error.lineno or 1}", f"syntax error: {error.msg}")]
    except (ValueError, RecursionError, MemoryError) as error:
        return [], [ToolProblem(f"{file.shown}:1", f"this is not Python source: {error}")]
    names: list[str] = []
    problems: list[ToolProblem] = []
    for node in tree.body:
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
        problems += [
            ToolProblem(where, f"{name}: the parameter {one.arg!r} has no type")
            for one in given
            if one.annotation is None
        ]
    return names, problems


def _marks(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == "register_tool"


def _said_name(decorator: ast.expr) -> str | None:
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    found = next((one.value for one in keywords if one.arg == "name"), None)
    return found.value if isinstance(found, ast.Constant) and isinstance(found.value, str) else None


def _source(file: ToolFile) -> str:
    """Raises CannotLoad."""
    try:
        return importlib.util.decode_source(file.content)
    except (ValueError, SyntaxError) as error:
        raise CannotLoad(ToolProblem(f"{file.shown}:1", f"this is not Python source: {error}")) from None


def _compiled(file: ToolFile) -> types.CodeType:
    try:
        code = compile(file.content, file.shown, "exec", dont_inherit=True)
        text = importlib.util.decode_source(file.content)
    except SyntaxError as error:
        raise CannotLoad(ToolProblem(f"{file.shown}:{error.lineno or 1}", f"syntax error: {error.msg}")) from None
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise CannotLoad(ToolProblem(f"{file.shown}:1", f"this is not Python source: {error}")) from None
    linecache.cache[file.shown] = (len(text), None, text.splitlines(keepends=True), file.shown)
    return code


def _execute(code: types.CodeType, module: types.ModuleType, shown: str) -> None:
    try:
        exec(code, module.__dict__)
    except SystemExit as error:
        raise CannotLoad(
            ToolProblem(_where(error, shown), f"it ends the program when imported: {_said(error)}")
        ) from None
    except BaseException as error:
        more = ""
        if isinstance(error, ImportError):
            more = "; a tool can import what is installed with codeagent, but not another tool"
        raise CannotLoad(ToolProblem(_where(error, shown), f"{_said(error)}{more}")) from None


def _where(error: BaseException, shown: str) -> str:
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == shown]
    return f"{shown}:{lines[-1] if lines else 1}"


def _said(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_at_home(function: Callable[..., Any], module: types.ModuleType) -> bool:
    """Whether the file defines the function, and has not only imported a package's tool."""
    if function.__module__ == module.__name__:
        return True
    home = sys.modules.get(function.__module__)
    return getattr(home, function.__name__, None) is not function
