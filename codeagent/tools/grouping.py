"""Groups of a source's tools, each a toolset of its own: by name, by tag, or by the path of the operation."""

import hashlib
import json
from collections.abc import Iterable
from fnmatch import fnmatchcase

from codeagent.core.dataclass import dataclass
from codeagent.tools.source import ListedTool


@dataclass(frozen=True)
class ToolGroup:
    """The tools of one source that fit any of its names, tags and paths."""

    name: str
    """Of the toolset."""
    source: str
    about: str = ""
    """One line for the model."""
    tools: tuple[str, ...] = ()
    """Names, and patterns with `*` and `?`."""
    tags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Patterns over the paths of operations; `*` also stands for a slash."""
    digest: str = ""
    """It exists only while the source has exactly the tools with this digest; empty: always."""

    def selects(self, tool: ListedTool) -> bool:
        return (
            any(fnmatchcase(tool.name, pattern) for pattern in self.tools)
            or any(tag in self.tags for tag in tool.tags)
            or (bool(tool.path) and any(fnmatchcase(tool.path, pattern) for pattern in self.paths))
        )


def digest_of(tools: Iterable[ListedTool]) -> str:
    """SHA-256 (hex) over all that a listing tells of its tools, in any order."""
    told = sorted([tool.name, tool.summary, list(tool.tags), tool.path] for tool in tools)
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()
