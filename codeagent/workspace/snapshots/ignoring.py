"""What a repository's ignore files leave out, for a walk that asks about every path.

The order is git's: `.gitignore` of the deepest folder first, then the repository's own `info/exclude`, then the
person's global file. Within a file the last line that matches decides.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from codeagent.core.wildmatch import IgnoreLine, ignore_line


class IgnoreFile:
    """One file's lines."""

    def __init__(self, text: str) -> None:
        lines = [line for raw in text.split("\n") if (line := ignore_line(raw)) is not None]
        self._lines = tuple(reversed(lines))
        self._names = _any_of(line for line in lines if not line.whole_path)
        self._paths = _any_of(line for line in lines if line.whole_path)

    def __bool__(self) -> bool:
        return bool(self._lines)

    def verdict(self, path: str, name: str, directory: bool) -> bool | None:
        """Ignored or not, None where no line matches; `path` is from the file's folder."""
        by_name = self._names is not None and self._names.fullmatch(name) is not None
        by_path = self._paths is not None and self._paths.fullmatch(path) is not None
        if not by_name and not by_path:
            return None
        for line in self._lines:
            if line.matches(path, directory):
                return not line.negated
        return None


@dataclass(frozen=True)
class Layer:
    """An ignore file and where it stands: in a folder of the workspace, or in one above it."""

    file: IgnoreFile
    below: int = 0
    """Characters of the folder's path within the workspace, the slash included."""
    above: str = ""
    """What leads from the folder down to the workspace, the slash included."""

    def verdict(self, path: str, name: str, directory: bool) -> bool | None:
        return self.file.verdict(self.above + path[self.below :], name, directory)


@dataclass(frozen=True)
class Scope:
    """Every ignore file that has a say in one folder, the strongest first."""

    layers: tuple[Layer, ...] = ()

    def ignored(self, path: str, name: str, directory: bool) -> bool:
        """Whether the path itself is; what is below an ignored folder is the walk's business."""
        for layer in self.layers:
            verdict = layer.verdict(path, name, directory)
            if verdict is not None:
                return verdict
        return False

    def inside(self, folder: str, text: str) -> "Scope":
        """The scope of a folder (empty, or with its slash) that has a `.gitignore` of this text."""
        file = IgnoreFile(text)
        return Scope((Layer(file, below=len(folder)), *self.layers)) if file else self


def _any_of(lines: Iterable[IgnoreLine]) -> re.Pattern[str] | None:
    """One expression for all of them: most paths match none, and this is asked for each."""
    parts = [f"(?:{line.expression.pattern})" for line in lines]
    return re.compile("|".join(parts), re.DOTALL) if parts else None
