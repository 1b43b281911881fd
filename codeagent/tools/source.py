"""Where tools come from: one small interface for files, packages, servers and documents."""

from collections.abc import Callable
from typing import Any, Literal, Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.tool import Tool
from codeagent.core.toolbox import ToolProblem

SourceState = Literal["starting", "ready", "failed"]


@dataclass(frozen=True)
class ListedTool:
    """A tool as a list shows it, before anything of it was made."""

    name: str
    summary: str
    """One line."""
    tags: tuple[str, ...] = ()
    path: str = ""
    """Of the operation it stands for, such as `/users/{id}`; empty if it has none."""


@dataclass(frozen=True)
class Listing:
    """What a source has now."""

    tools: tuple[ListedTool, ...] = ()
    problems: tuple[ToolProblem, ...] = ()
    state: SourceState = "ready"
    about: str = ""
    """One line for the model: what these tools are good for."""


class ToolSource(Protocol):
    """Tools of one origin. It never raises for what it cannot reach: that is a problem in its listing."""

    @property
    def name(self) -> str:
        """How the user and the model know it: `github`, `petstore`, `web`; unique in a conversation."""

    async def start(self, changed: Callable[[], None]) -> None:
        """Begin, and return when the first listing is there or has failed; runs beside the first frame.

        `changed` is called on the event loop whenever `list` would return something else than before.
        """

    def list(self) -> Listing:
        """What there is now; the same object as before if nothing changed. Does not block."""

    def get(self, name: str) -> Tool[Any]:
        """The tool of that name in the listing, the same object until it changes. Raises NotFound."""

    async def close(self) -> None:
        """End what was started; nothing of it is left running."""
