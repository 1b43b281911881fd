"""Tools from installed packages: their entry points in the group `codeagent.tools`."""

import inspect
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from codeagent.core.ports import OutputStore
from codeagent.core.tool import Tool
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.decorator import marked_as
from codeagent.tools.function_tool import Place
from codeagent.tools.lint import lint
from codeagent.tools.source import Loaded
from codeagent.tools.sources.python import IMPORT_SECONDS
from codeagent.tools.sources.python_functions import Found, Session, tools_of
from codeagent.tools.sources.python_module import quietly

GROUP = "codeagent.tools"


def entry_point_tools(
    outputs: OutputStore, points: Iterable[EntryPoint] | None = None, import_seconds: float = IMPORT_SECONDS
) -> Loaded:
    """Of all packages, by package and name; what fails is a problem and keeps the rest of its package.

    An entry point is a marked function, a Tool class that is made without arguments, a Tool, or a module with marked
    functions. Blocks; runs in a thread. `points` None: those of the installed packages.
    """
    session = Session(outputs)
    tools: list[Tool[Any]] = []
    problems: list[ToolProblem] = []
    every = entry_points(group=GROUP) if points is None else points
    for point in sorted(every, key=lambda point: (_package(point), point.name)):
        where = f"{_package(point)}: {point.name}"
        loaded = _loaded(point, where, session, import_seconds)
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


def _loaded(point: EntryPoint, where: str, session: Session, import_seconds: float) -> Loaded:
    try:
        done = quietly(import_seconds, lambda: _made(point, where, session))
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        return Loaded(problems=(ToolProblem(where, f"{point.value} cannot be loaded: {said}"),))
    if done is None:
        text = f"{point.value} takes longer than {import_seconds:g} s to import; that cannot be stopped"
        return Loaded(problems=(ToolProblem(where, text),))
    return done[0]


def _made(point: EntryPoint, where: str, session: Session) -> Loaded:
    target = point.load()
    if isinstance(target, type) and issubclass(target, Tool):
        target = target()
    if isinstance(target, Tool):
        target.source, target.origin = "python", _package(point)
        return Loaded((target,), lint(target, where))
    functions = list(vars(target).values()) if isinstance(target, ModuleType) else [target]
    found = [_found(function, point, where) for function in functions if marked_as(function) is not None]
    if not found:
        what = "holds no function that is" if isinstance(target, ModuleType) else "is no Tool and no function"
        return Loaded(problems=(ToolProblem(where, f"{point.value} {what} marked with @register_tool"),))
    tools, problems = tools_of(found, session)
    broken = any(problem.level == "error" for problem in problems)
    return Loaded(() if broken else tuple(tools), tuple(problems))


def _found(function: Any, point: EntryPoint, where: str) -> Found:
    marked = marked_as(function)
    assert marked is not None
    file = inspect.unwrap(function).__code__.co_filename
    place = Place(_package(point), f"{function.__module__.replace('.', '/')}.py", file)
    return Found(function, marked, where, place, _content(file) if marked.sandbox else None)


def _content(file: str) -> bytes | None:
    try:
        return Path(file).read_bytes()
    except OSError:
        return None
