"""The tools in use as the user sees them: where each comes from, which files have problems, what
waits for trust."""

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.policy import Permission
from codeagent.core.tool import Tool, ToolDefinition, ToolMode

SourceState = Literal["waiting", "starting", "ready", "failed"]
"""waiting: it starts on first use. failed: it is retried at growing intervals."""


@dataclass(frozen=True)
class ToolSummary:
    """A tool in use."""

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
    """The toolset it was turned on with; empty if it is always there."""

    @classmethod
    def of(cls, tool: Tool[Any], toolset: str = "") -> "ToolSummary":
        return cls(
            name=tool.name,
            label=tool.label,
            source=tool.source,
            origin=tool.origin,
            description=tool.description,
            permission=tool.permission,
            mode=tool.mode,
            sandboxed=tool.sandboxed,
            toolset=toolset,
        )


@dataclass(frozen=True)
class ToolsetSummary:
    """A set of tools that can be turned on."""

    name: str
    state: SourceState
    about: str
    """One line."""
    tools: int
    """How many tools it has, as far as is known."""
    in_use: int
    """How many of them are turned on."""
    reason: str = ""
    """Why it failed, in one line."""


@dataclass(frozen=True)
class ToolProblem:
    """What is wrong with a tool file or a source of tools. An error keeps its tools out of use; a
    warning does not."""

    where: str
    """`file:line`, `file:line: key`, or the name of a package or source."""
    text: str
    """What is wrong and how to mend it, in one line."""
    level: Literal["error", "warning"] = "error"
    partial: bool = False
    """Whether the text names what is not in use because of an error, and the rest of the file or
    source is in use."""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


@dataclass(frozen=True)
class Toolbox:
    """The tools in use, in the order the model sees them."""

    tools: tuple[ToolSummary, ...] = ()
    problems: tuple[ToolProblem, ...] = ()
    untrusted: tuple[str, ...] = field(default=())
    """Files of the project that are not loaded because the user has not trusted them as they are
    now."""
    toolsets: tuple[ToolsetSummary, ...] = field(default=())
    digest: str = ""
    """Stands for the content of the project's files as they were last read; empty if there are
    none."""


class ToolsInUse(Protocol):
    """The tools in use, by name, in the order the model sees them."""

    def __iter__(self) -> Iterator[Tool[Any]]: ...

    def __contains__(self, name: object) -> bool: ...

    def get(self, name: str) -> Tool[Any]:
        """Raises NotFound, which names the closest tools."""

    def definitions(self) -> tuple[ToolDefinition, ...]: ...

    async def check_names(self, listed: Sequence[str], *, of_project: bool = False) -> None:
        """Check a list of names and patterns of tools; waits for sources that may still bring one
        of them.

        An empty list is fine. A tool of a server may be missing, but not everything that is listed.
        `of_project`: a file of the project has the list, which so holds only together with the
        project's tool files. Raises ConfigError if a name is unknown, if nothing would be left, or
        if those files are not trusted.
        """


class TrustRecord(Protocol):
    """Keeps which state of a workspace's tool files the user trusts; methods may block on a small
    file."""

    def trusts(self, digest: str) -> bool:
        """Whether the user trusts exactly this state in this folder. Raises ConfigError if the
        record is damaged."""

    def trust(self, digest: str) -> None:
        """Trust this state in place of any earlier one. Raises ConfigError if that cannot, or must
        not, be saved."""

    def forget(self) -> None:
        """Stop trusting any state. Raises ConfigError."""
