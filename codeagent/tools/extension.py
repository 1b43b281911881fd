"""What a conversation lends to the extensions that make its tools."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from codeagent.core.dataclass import dataclass
from codeagent.core.extension import Sections
from codeagent.core.ports import Workspace
from codeagent.core.redact import Redactor
from codeagent.core.tool import Tool
from codeagent.tools.edit.reads import ReadTracker

PartT = TypeVar("PartT")


@dataclass(frozen=True)
class ExtensionContext:
    """What the tools of an extension are made from."""

    settings: Sections
    workspace: Workspace
    reads: ReadTracker
    """What the agent has read."""
    environment: Mapping[str, str]
    secret: Callable[[str], str | None]
    """Returns the value of a variable, or the key kept for it; may block. Raises ConfigError."""
    redactor: Redactor
    own_folder: Path | None = None
    """The user's folder of tools, documents and so on; None if the agent could write to it."""
    trust_project: bool = False
    """The project's files are used as they are now, without a question."""
    parts: Iterable[object] = ()
    """What extensions add to the conversation: `agent.parts.ConversationPart`s."""
    built_in: Callable[[], Iterable[Tool[Any]]] = tuple
    """Makes the built-in tools."""

    def part(self, kind: type[PartT]) -> PartT | None:
        """Return the extension's own part of the conversation; None if it has none of that kind."""
        return next((part for part in self.parts if isinstance(part, kind)), None)
