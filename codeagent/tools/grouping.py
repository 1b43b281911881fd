"""Groups of a source's tools, each a toolset of its own: by name, tag or path, or as a model divided them."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from codeagent.core.dataclass import dataclass
from codeagent.core.messages import UserMessage
from codeagent.core.model import ModelRequest
from codeagent.core.sanitize import one_line
from codeagent.tools.source import ListedTool

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_INSTRUCTIONS = (
    "You divide a long list of tools into sets, so that a coding agent can turn on only what a task needs. Tools that "
    "are used together belong together. Aim at 5 to 25 tools in a set. Every tool belongs to exactly one set. Answer "
    'with JSON only: {"sets": [{"name": "short-name", "about": "what it is good for, in one line", "tools": ["name"]}]}'
)


class NoPartition(Exception):
    """A split does not put each tool into exactly one set."""


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
    origin: str = ""
    """`file:line`; empty if no tool file defines it."""

    def selects(self, tool: ListedTool) -> bool:
        if self.digest:  # a split has names only; as patterns, those of a thousand tools would take a second
            return tool.name in self.tools
        return (
            any(fnmatchcase(tool.name, pattern) for pattern in self.tools)
            or any(tag in self.tags for tag in tool.tags)
            or (bool(tool.path) and any(fnmatchcase(tool.path, pattern) for pattern in self.paths))
        )


def digest_of(tools: Iterable[ListedTool]) -> str:
    """SHA-256 (hex) over all that a listing tells of its tools, in any order."""
    told = sorted([tool.name, tool.summary, list(tool.tags), tool.path] for tool in tools)
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def ask_for_split(source: str, tools: Iterable[ListedTool]) -> ModelRequest:
    """The request with which a model divides a source's tools into sets."""
    lines = [f"The tools of {source}:"]
    for tool in tools:
        about = " ".join(part for part in (tool.path, one_line(tool.summary, 120)) if part)
        lines.append(f"- {tool.name}: {about}")
    return ModelRequest(_INSTRUCTIONS, (UserMessage.from_text("\n".join(lines)),), ())


def read_split(answer: str, source: str, tools: Sequence[ListedTool]) -> tuple[ToolGroup, ...]:
    """Read the sets of a model's answer. Raises NoPartition unless each tool is in exactly one of them."""
    try:
        found = json.loads(answer[answer.index("{") : answer.rindex("}") + 1])
        sets = [(one["name"], one["about"], tuple(one["tools"])) for one in found["sets"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NoPartition("the answer is not the JSON that was asked for") from None
    named = [name for _, _, names in sets for name in names]
    known = {tool.name for tool in tools}
    for name in named:
        if not isinstance(name, str) or name not in known:
            raise NoPartition(f"it names {one_line(str(name), 100)!r}, which is not a tool of {source}")
    if doubled := [name for name, times in Counter(named).items() if times > 1]:
        raise NoPartition(f"it puts {doubled[0]} into more than one set")
    if missing := sorted(known - set(named)):
        raise NoPartition(f"it leaves out {missing[0]}, and {len(missing)} of {len(known)} tools in all")
    titles = [title for title, _, _ in sets]
    if not all(isinstance(one, str) and _NAME.fullmatch(one) for one in titles) or len(set(titles)) < len(titles):
        raise NoPartition("its sets do not have different names of letters, digits, . _ and -")
    digest = digest_of(tools)
    return tuple(
        ToolGroup(f"{source}-{title}", source, one_line(str(about), 200), names, digest=digest)
        for title, about, names in sets
        if names
    )
