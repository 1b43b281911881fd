"""Reads the tasks of a batch from JSON lines, YAML or a folder of such files; the key of a task
contains a digest of its content."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from codeagent.config.checking import WrongValue, above, checked, filled
from codeagent.config.layers import load_settings
from codeagent.config.local_environment import state_dir, user_config_file
from codeagent.config.settings import Section
from codeagent.core.dataclass import record
from codeagent.core.errors import ConfigError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.policy import Mode
from codeagent.core.sanitize import one_line
from codeagent.core.yaml_text import Unreadable, documents
from codeagent.disk.opens import read_regular
from codeagent.tools.faults import nearest_or_all
from codeagent.tools.shell.rules import decides

_SUFFIXES = (".jsonl", ".yaml", ".yml")
_LARGEST = 256 << 20
"""Bytes of a task file."""
_LONG_YAML = 64 << 10
"""If an unreadable YAML file has more bytes than this, it may be too long rather than wrong."""
_ADDRESS = lazy_regex(r"[a-z][a-z0-9+]*://|[^/\s]+@[^/\s]+:")
"""How the address of a repository on another machine begins."""
LOGIN = lazy_regex(r"(?<=://)([^/?#\s:@]*):([^/?#\s]*)@")
"""The user name and the password in an address."""
_SERVER = lazy_regex(r"://(\[[^]]*]|[^/?#:]*)(:\d*)?([/?#]|$)")
_UNSAFE = lazy_regex(r"[^A-Za-z0-9._]+")


@record
class BatchTask(Section):
    """A task: its repository, what to do there, its limits, and how the result is judged."""

    repository: Annotated[str, filled("repository")]
    """A folder, a bundle, or the address of a repository; a path is relative to the file."""
    commit: str = "HEAD"
    """The commit, branch or tag to start from."""
    prompt: str = ""
    recipe: str = ""
    """The name of a recipe to run in place of a prompt."""
    inputs: dict[str, str] = field(default_factory=dict)
    """The inputs of the recipe."""
    check: str = ""
    """A command that judges the result: it runs in the same sandbox, and exit code 0 means passed."""
    check_seconds: Annotated[float, above(0)] = 600.0
    """The time limit of the check, in seconds."""
    keep: tuple[str, ...] = ()
    """Patterns of files to keep beside the patch, including ignored ones."""
    name: str = ""
    """Its name in tables and on the page."""
    model: str | None = None
    mode: Mode | None = None
    rules: dict[str, Any] = field(default_factory=dict)
    """`allow`, `ask` and `deny`, each a list."""
    limits: dict[str, Any] = field(default_factory=dict)
    """The table `limits` of `config.toml`."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Further settings, as in `config.toml`."""
    trust_project: bool = False
    """Use the tools, recipes and image that the repository describes."""

    def __post_init__(self) -> None:
        if bool(self.prompt.strip()) == bool(self.recipe):
            raise ValueError("give a prompt or a recipe")
        if "://" in self.address and not _SERVER.search(self.address):
            raise ValueError("repository: write / ? # and @ in a password as %2F %3F %23 and %40")
        for pattern in map(Path, self.keep):
            if not pattern.parts or pattern.is_absolute() or ".." in pattern.parts:
                raise ValueError(f"keep: {pattern} does not lead into the repository")
            if any("**" in part and part != "**" for part in pattern.parts):
                raise ValueError(f"keep: {pattern}: ** stands for whole folders, as in **/*.log")

    @cached_property
    def key(self) -> str:
        """The name of the task's folder: the task's name, as far as a folder name allows, and a digest
        of its content."""
        name = _UNSAFE.sub("-", self.name).strip("-.")[:40]
        return f"{name}-{digest(self.described())}".lstrip("-")

    @property
    def subject(self) -> str:
        """A digest of what to do and how it is judged; the same for every model and all settings."""
        said = (self.address, self.commit, self.prompt, self.recipe, self.inputs, self.check)
        return digest(said)

    @property
    def address(self) -> str:
        """The repository, without its password."""
        return LOGIN.sub("", self.repository)

    def described(self) -> dict[str, Any]:
        """Return its content as JSON values, without the password."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**said, "repository": self.address}

    @property
    def title(self) -> str:
        """Its name, or else the beginning of its prompt, in at most 60 characters."""
        return one_line(self.name or self.prompt or self.recipe, 60)

    def settings_over(self, common: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of its session; the task's own win over `common`, those for all tasks."""
        own = {"model": self.model, "mode": self.mode, "rules": self.rules, "limits": self.limits}
        given = {name: value for name, value in own.items() if value}
        return merged(merged(common, self.settings), given)

    def budget(self, common: Mapping[str, Any]) -> float:
        """Return the US dollars that its session may cost; 0 if nothing limits that."""
        return float(self.settings_over(common).get("limits", {}).get("budget") or 0)


def digest(said: Any) -> str:
    """Return 16 hex digits of the SHA-256 of a value, written as JSON."""
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


def merged(below: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return one table of both: tables inside are merged, lists are joined, and other values of `over`
    win."""
    out = dict(below)
    for name, value in over.items():
        before = out.get(name)
        if isinstance(before, dict) and isinstance(value, Mapping):
            out[name] = merged(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            out[name] = [*before, *value]
        else:
            out[name] = value
    return out


def read_tasks(path: Path) -> list[BatchTask]:
    """Read the tasks of a file, or of every task file in a folder; tasks with the same content are
    one task.

    Raises ConfigError with the file and the line.
    """
    files = [path]
    if path.is_dir():
        files = sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES)
    elif path.suffix not in _SUFFIXES:
        raise ConfigError(f"{path}: tasks are in files that end with {', '.join(_SUFFIXES)}")
    tasks = {task.key: task for file in files for task in _of_file(file)}
    if not tasks:
        raise ConfigError(f"{path}: it has no tasks; nothing was run")
    return list(tasks.values())


def _of_file(path: Path) -> Iterator[BatchTask]:
    try:
        data = read_regular(path, follow=True, largest=_LARGEST)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); nothing was run") from error
    for line, value in _lines(data) if path.suffix == ".jsonl" else _yaml(path, data):
        try:
            given = json.loads(value) if isinstance(value, bytes) else value
            task = checked(BatchTask, _placed(given, path.parent))
            check_settings(json.dumps(task.settings_over({})))
            yield task
        except (ValueError, ConfigError) as error:
            raise ConfigError(f"{path}:{line}: {_fault(error)}; nothing was run") from None


@cache
def check_settings(given: str) -> None:
    """Raise ConfigError if these settings, as JSON, are not valid in a session of the user."""
    load_settings(
        json.loads(given),
        environment=os.environ,
        user_file=user_config_file(),
        workspace=state_dir(),  # it is not a project
        decides=decides,
    )


def _lines(data: bytes) -> Iterator[tuple[int, Any]]:
    return ((at, line) for at, line in enumerate(data.split(b"\n"), 1) if line.strip())


def _yaml(path: Path, data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the tasks of a list, or of `tasks:` with `defaults:` merged into each, with their lines.
    Raises ConfigError."""
    try:
        found = documents(data)
    except Unreadable as error:
        many = len(data) > _LONG_YAML
        hint = "; one JSON object per line, in a .jsonl file, has no such limit" if many else ""
        raise ConfigError(f"{path}:{error.line}: {error}{hint}; nothing was run") from None
    for document in found:
        whole = document.value
        at: tuple[str, ...] = ()
        defaults: Any = {}
        if isinstance(whole, dict) and "tasks" in whole:
            whole, defaults, at = whole["tasks"], whole.get("defaults") or {}, ("tasks",)
        if not isinstance(whole, list) or not isinstance(defaults, dict):
            raise ConfigError(f"{path}:1: write a list of tasks, or tasks: and defaults:")
        for number, value in enumerate(whole):
            line = document.line((*at, number))
            yield line, merged(defaults, value) if isinstance(value, dict) else value


def _placed(value: Any, folder: Path) -> Any:
    """Return the task with an absolute path, if its repository is on this machine."""
    where = value.get("repository") if isinstance(value, dict) else None
    if not isinstance(where, str) or not where or _ADDRESS.match(where):
        return value
    return value | {"repository": _whole(folder, where)}


@cache
def _whole(folder: Path, where: str) -> str:
    """Return an absolute path; cached, as many tasks name the same repository."""
    return str(Path(folder, Path(where).expanduser()).resolve())


def _fault(error: ValueError | ConfigError) -> str:
    """Say what is wrong with a task."""
    if isinstance(error, ConfigError):
        return str(error).removeprefix("the command line: ")
    if not isinstance(error, WrongValue):
        return f"it is not JSON ({error})"
    where = ".".join(map(str, error.path))
    if not error.unknown:
        return f"{where}: {error}" if where else str(error)
    known = [each.name for each in fields(BatchTask)]
    return f"{where}: no such key{nearest_or_all(str(error.path[-1]), known)}"
