"""The tools in use as people see them: where each comes from, what is wrong with which file, what waits for trust."""

from collections.abc import Iterator
from dataclasses import field
from typing import Any, Literal, Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.policy import Permission
from codeagent.core.tool import Tool, ToolDefinition, ToolMode

SourceState = Literal["waiting", "starting", "ready", "failed"]
"""waiting: it starts on first use. failed: it is started again, at growing intervals."""


@dataclass(frozen=True)
class ToolFacts:
    """One tool in use."""

    name: str
    label: str
    source: str
    """`builtin`, `python`, `yaml`."""
    origin: str
    """`file:line` or a package; empty for what is built in."""
    description: str
    permission: Permission
    mode: ToolMode
    sandboxed: bool
    toolset: str = ""
    """The set it was turned on with; empty if it is always there."""


@dataclass(frozen=True)
class ToolsetFacts:
    """A set of tools that can be turned on."""

    name: str
    state: SourceState
    about: str
    """One line."""
    tools: int
    """How many it has, as far as is known."""
    in_use: int
    """How many of them are turned on."""
    reason: str = ""
    """Why it failed, in one line."""


@dataclass(frozen=True)
class ToolProblem:
    """What is wrong with a tool file or a source of tools. An error keeps its tools out of use; a warning does not."""

    where: str
    """`file:line`, `file:line: key`, or the name of a package or source."""
    text: str
    """One line: what is wrong and what would be right."""
    level: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


@dataclass(frozen=True)
class Toolbox:
    """The tools in use, in the order the model sees them."""

    tools: tuple[ToolFacts, ...] = ()
    problems: tuple[ToolProblem, ...] = ()
    untrusted: tuple[str, ...] = field(default=())
    """Files of the project that are not loaded because nobody trusts them as they are now."""
    toolsets: tuple[ToolsetFacts, ...] = field(default=())


class ToolsInUse(Protocol):
    """The tools in use, by name, in the order the model sees them."""

    def __iter__(self) -> Iterator[Tool[Any]]: ...

    def __contains__(self, name: object) -> bool: ...

    def get(self, name: str) -> Tool[Any]:
        """Raises NotFound, which names the closest tools."""

    def definitions(self) -> tuple[ToolDefinition, ...]: ...


class TrustBook(Protocol):
    """Which state of a workspace's own tool files the user has said yes to; methods may block on a small file."""

    def trusts(self, digest: str) -> bool:
        """This very state of the files, in this very folder. Raises ConfigError if what is kept is damaged."""

    def trust(self, digest: str) -> None:
        """From now on, in place of any state before. Raises ConfigError if it cannot be kept, or must not be."""

    def forget(self) -> None:
        """Trust no state. Raises ConfigError."""
