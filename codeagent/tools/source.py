"""Where tools come from besides the package: files that people write, each read once and loaded from what was read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from codeagent.core.tool import Tool
from codeagent.core.toolbox import ToolProblem


@dataclass(frozen=True)
class ToolFile:
    """One file of tools, as it was when it was read; what is loaded is what was read."""

    path: Path
    shown: str
    """Its path as people write it, for `file:line`."""
    content: bytes
    place: Literal["project", "user"]


@dataclass(frozen=True)
class Loaded:
    """What a file, or a package, gave."""

    tools: tuple[Tool[Any], ...] = ()
    """In the order they stand there; none where there is an error."""
    problems: tuple[ToolProblem, ...] = ()


class ToolLoader(Protocol):
    """Makes tools of one kind of file."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """`.py`, or `.yaml` and `.yml`."""

    def load(self, file: ToolFile) -> Loaded:
        """Blocks; runs in a thread. Never raises: a broken file is a problem and disables only itself."""
