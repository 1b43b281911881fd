"""`codeagent tools check FILE`: every error and warning of a tool file, with file, line and key."""

import sys
from pathlib import Path
from typing import Literal

from codeagent.bootstrap import Place, describe_tools
from codeagent.core.errors import ConfigError
from codeagent.core.redact import Redactor
from codeagent.session.outputs import FileOutputs
from codeagent.tools.seen import SeenFiles
from codeagent.tools.source import ToolFile, ToolLoader
from codeagent.tools.sources.python import PythonLoader
from codeagent.tools.sources.yaml_loader import YamlLoader
from codeagent.workspace.files import LocalWorkspace

_LARGEST = 1 << 20


def check_file(path: Path, place: Place) -> int:
    """0 where the tools would be used, 2 where they would not. Raises ConfigError where the file cannot be read.

    A Python file is imported for it, so what it does on import is done.
    """
    file = ToolFile(path.absolute(), str(path), _content(path), _kind(path, place))
    workspace = LocalWorkspace(place.workspace)
    try:
        loaded = _loader(path, place, workspace).load(file)
    finally:
        workspace.close()
    for problem in loaded.problems:
        print(f"{problem.level}: {problem}" if problem.level == "warning" else str(problem), file=sys.stderr)
    if any(problem.level == "error" for problem in loaded.problems):
        return 2
    print(f"{path}: {', '.join(tool.name for tool in loaded.tools) or 'no tool'}")
    return 0


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{path} cannot be read: {reason}") from None
    if len(content) > _LARGEST:
        raise ConfigError(f"{path} is larger than {_LARGEST >> 20} MiB; a tool file is not")
    return content


def _kind(path: Path, place: Place) -> Literal["project", "user"]:
    """What it would be used as: below the person's own folder it may say that it needs no question."""
    own = place.config_dir
    return "user" if own is not None and path.resolve().is_relative_to(own.resolve()) else "project"


def _loader(path: Path, place: Place, workspace: LocalWorkspace) -> ToolLoader:
    """Raises ConfigError for a file of another kind."""
    outputs, seen = FileOutputs(place.state_dir / "none", Redactor({})), SeenFiles(workspace)
    builtins = {tool.name: tool for tool in describe_tools(place) if tool.source == "builtin"}
    loaders: tuple[ToolLoader, ...] = (PythonLoader(outputs), YamlLoader(outputs, seen, builtins))
    for loader in loaders:
        if path.suffix in loader.suffixes:
            return loader
    known = ", ".join(suffix for loader in loaders for suffix in loader.suffixes)
    raise ConfigError(f"{path} is no tool file; they end in {known}")
