"""Groups of a source's tools, each a toolset of its own: chosen by name, tag or path, or divided by
a model.

A model's division of a source is a split: it is stored, and valid as long as the source has the
same tools.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import one_line
from codeagent.disk.private import UnsafeFile, read_private, replace_private
from codeagent.tools.source import ListedTool

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")
SPLITTING = (
    "You divide a long list of tools into sets, so that a coding agent can turn on only what a task needs. Tools that "
    "are used together belong together. Aim at 5 to 25 tools in a set. Every tool belongs to exactly one set. Answer "
    'with JSON only: {"sets": [{"name": "short-name", "about": "what it is good for, in one line", "tools": ["name"]}]}'
)
"""The system prompt of the model that divides a source's tools."""


class NoPartition(Exception):
    """A model's answer does not put each tool into exactly one set."""


@dataclass(frozen=True)
class ToolGroup:
    """The tools of a source that match any of the names, tags and paths."""

    name: str
    """The name of the toolset."""
    source: str
    about: str = ""
    """One line for the model."""
    tools: tuple[str, ...] = ()
    """Names, and patterns with `*` and `?`."""
    tags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Patterns over the paths of operations; `*` also stands for a slash."""
    digest: str = ""
    """It exists only while the digest of the source's tools is this; empty means always."""
    origin: str = ""
    """`file:line`; empty if no tool file defines it."""

    def selects(self, tool: ListedTool) -> bool:
        if self.digest:  # a split has only names; to match those of a thousand tools as patterns would take a second
            return tool.name in self.tools
        return (
            any(fnmatchcase(tool.name, pattern) for pattern in self.tools)
            or any(tag in self.tags for tag in tool.tags)
            or (bool(tool.path) and any(fnmatchcase(tool.path, pattern) for pattern in self.paths))
        )


def digest_of(tools: Iterable[ListedTool]) -> str:
    """Return SHA-256 (hex) over everything a listing says about its tools, independent of their
    order."""
    told = sorted([tool.name, tool.summary, list(tool.tags), tool.path] for tool in tools)
    return sha256(json.dumps(told).encode()).hexdigest()


def split_prompt(source: str, tools: Iterable[ListedTool]) -> str:
    """Return the prompt that asks a model to divide a source's tools into sets."""
    lines = [f"Divide the tools of {source} into sets:"]
    for tool in tools:
        about = " ".join(
            part for part in (one_line(tool.path, 120), one_line(tool.summary, 120)) if part
        )
        lines.append(f"- {tool.name}: {about}")
    return "\n".join(lines)


def read_split(answer: str, source: str, tools: Sequence[ListedTool]) -> tuple[ToolGroup, ...]:
    """Read the sets of a model's answer. Raises NoPartition unless each tool is in exactly one of
    them."""
    try:
        found = json.loads(answer[answer.index("{") : answer.rindex("}") + 1])
        sets = [(one["name"], one["about"], tuple(one["tools"])) for one in found["sets"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NoPartition("the answer is not the JSON that was asked for") from None
    named = [name for _, _, names in sets for name in names]
    known = {tool.name for tool in tools}
    for name in named:
        if not isinstance(name, str) or name not in known:
            raise NoPartition(
                f"it names {one_line(str(name), 100)!r}, which is not a tool of {source}"
            )
    if doubled := [name for name, times in Counter(named).items() if times > 1]:
        raise NoPartition(f"it puts {doubled[0]} into more than one set")
    if missing := sorted(known - set(named)):
        raise NoPartition(
            f"it leaves out {missing[0]}, and {len(missing)} of {len(known)} tools in all"
        )
    titles = [title for title, _, _ in sets]
    if not all(isinstance(one, str) and _NAME.fullmatch(one) for one in titles) or len(
        set(titles)
    ) < len(titles):
        raise NoPartition("its sets do not have different names of letters, digits, . _ and -")
    digest = digest_of(tools)
    return tuple(
        ToolGroup(f"{source}-{title}", source, one_line(str(about), 200), names, digest=digest)
        for title, about, names in sets
        if names
    )


def keep_split(folder: Path, source: str, groups: Iterable[ToolGroup]) -> None:
    """Store the sets, replacing an earlier division of the source. Blocks; raises OSError."""
    file = folder / f"{sha256(source.encode()).hexdigest()[:16]}.json"
    replace_private(file, json.dumps([asdict(group) for group in groups], indent=1).encode())


def load_splits(folder: Path) -> tuple[ToolGroup, ...]:
    """Load the sets of all stored splits; unreadable ones are skipped. Blocks on small files."""
    groups: list[ToolGroup] = []
    for file in sorted(folder.glob("*.json")):
        try:
            kept = json.loads(read_private(file) or b"[]")
            groups += [ToolGroup(**{**one, **_tuples(one)}) for one in kept]
        except (UnsafeFile, ValueError, TypeError, KeyError):
            continue  # it can be made again, and nothing depends on it
    return tuple(groups)


def _tuples(kept: dict[str, object]) -> dict[str, tuple[str, ...]]:
    lists = {name: kept[name] for name in ("tools", "tags", "paths")}
    return {
        name: tuple(map(str, value)) for name, value in lists.items() if isinstance(value, list)
    }
