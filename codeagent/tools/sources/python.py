"""Tools from Python files: functions marked with `@register_tool`."""

from collections.abc import Sequence
from typing import Any

from codeagent.core.ports import OutputStore
from codeagent.core.tool import Tool
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.decorator import marked_as
from codeagent.tools.function_tool import Place
from codeagent.tools.source import Loaded, ToolFile
from codeagent.tools.sources.python_functions import Found, Session, line_of, tools_of
from codeagent.tools.sources.python_module import CannotLoad, Executed, executed, quietly

IMPORT_SECONDS = 10.0


class PythonLoader:
    """A `ToolLoader`. The file's code runs in this process with all it may do: only for files that are trusted."""

    suffixes = (".py",)

    def __init__(self, outputs: OutputStore, import_seconds: float = IMPORT_SECONDS) -> None:
        self._session = Session(outputs)
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
                f"it takes longer than {self._import_seconds:g} s to import; that cannot be stopped and goes on "
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
            found = _found(file, done)
            tools, problems = tools_of(found, self._session)
        if not found:
            text = "no function is marked with @register_tool, so it adds no tool"
            problems.append(ToolProblem(f"{file.shown}:1", text, "warning"))
        if file.place == "project":
            problems += _tightened(tools)
        broken = any(problem.level == "error" for problem in problems)
        return Loaded(() if broken else tuple(tools), tuple(problems))


def _found(file: ToolFile, done: Executed) -> list[Found]:
    out: list[Found] = []
    for function in done.marked:
        where = f"{file.shown}:{line_of(function, file.shown)}"
        if (marked := marked_as(function)) is not None:
            out.append(Found(function, marked, where, Place(where, file.shown, file.shown), file.content))
    return out


def _tightened(tools: Sequence[Tool[Any]]) -> list[ToolProblem]:
    """A project cannot allow itself anything (SECURITY.md T17): its tools ask, unless a rule of the person's allows."""
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
