"""Watches files: finds which of those that match a pattern have changed since the last look."""

import hashlib
from collections import OrderedDict

from codeagent.core.cancel import CancelToken
from codeagent.core.errors import WorkspaceError
from codeagent.core.patterns import ignore_line
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import one_line, unspelled
from codeagent.core.tool import Failed
from codeagent.tools.arguments import DEEPEST
from codeagent.tools.walk import TreeWalk

_MOST_FILES = 1000
_MOST_NAMED = 5
_LONGEST_NAME = 200
_MOST_LOOKS = 60

Seen = dict[str, tuple[int, int]]
"""Size and time of the last change (nanoseconds), by path."""


class FileWatch:
    """Looks at files of the workspace except ignored ones; every method blocks, and may run in a
    thread."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._seen: OrderedDict[tuple[str, str], Seen] = OrderedDict()
        """Files by pattern and mark, the latest last."""

    def begin(self, pattern: str) -> str:
        """Return the mark of the files as they are now. Raises Failed if there are too many,
        WorkspaceError."""
        found = self._look(pattern)
        if len(found) >= _MOST_FILES:
            raise Failed(f"{pattern} matches {_MOST_FILES} files or more; watch fewer")
        return self._kept(pattern, found)

    def changed(self, pattern: str, mark: str) -> tuple[str, str] | None:
        """Return what changed since the mark, as a phrase, and the new mark; None if nothing did or
        can be read."""
        try:
            found = self._look(pattern)
        except WorkspaceError:
            return None
        new = self._kept(pattern, found)
        if new == mark:
            return None
        before = self._seen.get((pattern, mark))
        return "changed while the session was closed" if before is None else _said(
            before, found
        ), new

    def _kept(self, pattern: str, found: Seen) -> str:
        """Keep what was found for later looks, and return its mark."""
        mark = hashlib.sha256(
            repr(sorted(found.items())).encode("utf-8", "surrogateescape")
        ).hexdigest()[:16]
        self._seen[pattern, mark] = found
        if len(self._seen) > _MOST_LOOKS:
            self._seen.popitem(last=False)
        return mark

    def _look(self, pattern: str) -> Seen:
        glob = ignore_line(pattern)
        if glob is None:
            raise Failed(f"{pattern!r} is not a pattern; write one such as *.py or src/**")
        walk = TreeWalk(self._workspace, CancelToken(), DEEPEST, (glob,), most_lines=_MOST_FILES)
        walk.list(".")
        found: Seen = {}
        for path in walk.files:
            try:
                status = self._workspace.stat(unspelled(path))
            except WorkspaceError:
                continue
            found[path] = (status.size, status.modified_ns)
        return found


def _said(before: Seen, after: Seen) -> str:
    """Say which files are new, changed or gone; the first few by name."""
    said = []
    groups = {
        "new": [path for path in after if path not in before],
        "changed": [path for path in after if path in before and before[path] != after[path]],
        "gone": [path for path in before if path not in after],
    }
    for what, paths in groups.items():
        more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
        names = ", ".join(one_line(path, _LONGEST_NAME) for path in sorted(paths)[:_MOST_NAMED])
        said += [f"{what}: {names}{more}"] if paths else []
    return "; ".join(said)
