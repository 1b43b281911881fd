"""`codeagent tools check FILE`: every error and warning of a tool file, with file, line and key."""

import sys
from pathlib import Path
from typing import Literal

from codeagent.bootstrap import Place, describe_tools
from codeagent.core.errors import ConfigError
from codeagent.core.redact import Redactor
from codeagent.disk.opens import read_regular
from codeagent.session.outputs import FileOutputs
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.registry import ToolFile, ToolLoader
from codeagent.tools.user.python import PythonLoader
from codeagent.tools.user.python_module import marked_in
from codeagent.tools.user.yaml_loader import YamlLoader
from codeagent.workspace.files import LocalWorkspace

_LARGEST = 1 << 20
_IMPORTED = "--trust-project imports it, which finds more"


def check_file(path: Path, shown: str, place: Place) -> int:
    """0 where the tools would be used, 2 where they would not. Raises ConfigError where the file cannot be read.

    `path` is absolute, `shown` is what messages name it. A Python file is imported only where somebody trusts it as it
    is: what it does on import is done then. Of another it is said what can be read from it.
    """
    file = ToolFile(path, shown, _content(path, shown), _kind(path, place))
    if path.suffix in PythonLoader.suffixes and not _is_trusted(file, place):
        return _read_only(file)
    workspace = LocalWorkspace(place.workspace)
    try:
        loaded = _loader(file, place, workspace).load(file)
    finally:
        workspace.close()
    for problem in loaded.problems:
        print(f"{problem.level}: {problem}" if problem.level == "warning" else str(problem), file=sys.stderr)
    if any(problem.level == "error" for problem in loaded.problems):
        return 2
    print(f"{shown}: {', '.join(tool.name for tool in loaded.tools) or 'no tool'}")
    return 0


def _is_trusted(file: ToolFile, place: Place) -> bool:
    return file.place == "user" or place.trust_project or describe_tools(place).has_loaded(file.content)


def _read_only(file: ToolFile) -> int:
    names, problems = marked_in(file)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 2
    print(f"{file.shown}: {', '.join(names) or 'no tool'}")
    print(f"{file.shown}: read and not imported, because nobody trusts it as it is; {_IMPORTED}", file=sys.stderr)
    return 0


def _content(path: Path, shown: str) -> bytes:
    try:
        content = read_regular(path, follow=True, most=_LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{shown} cannot be read: {reason}") from None
    if len(content) > _LARGEST:
        raise ConfigError(f"{shown} is larger than {_LARGEST >> 20} MiB; a tool file is not")
    return content


def _kind(path: Path, place: Place) -> Literal["project", "user"]:
    """What it would be used as: below the person's own folder it may say that it needs no question."""
    own = place.config_dir
    return "user" if own is not None and path.resolve().is_relative_to(own.resolve()) else "project"


def _loader(file: ToolFile, place: Place, workspace: LocalWorkspace) -> ToolLoader:
    """Raises ConfigError for a file of another kind."""
    outputs, reads = FileOutputs(place.state_dir / "none", Redactor({})), ReadTracker(workspace)
    builtins = {tool.name: tool for tool in describe_tools(place) if tool.source == "builtin"}
    loaders: tuple[ToolLoader, ...] = (PythonLoader(outputs), YamlLoader(outputs, reads, builtins))
    for loader in loaders:
        if file.path.suffix in loader.suffixes:
            return loader
    known = ", ".join(suffix for loader in loaders for suffix in loader.suffixes)
    raise ConfigError(f"{file.shown} is not a tool file; those end in {known}")
