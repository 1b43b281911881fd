"""Reads a small YAML file into dotted keys and texts, with the line of each for error messages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import one_line

MAX_BYTES = 65_536

_LOST = lazy_regex(r"\s*#\s?[0-9a-fA-F]{3,6}\b")


class BadFile(Exception):
    """A file cannot be used; `line` counts from 1, None for the whole file; `key` may be empty."""

    def __init__(self, line: int | None, key: str, problem: str) -> None:
        super().__init__(problem)
        self.line = line
        self.key = key

    def said_of(self, path: Path, kept: str) -> str:
        """Return one line: `ink.yaml:12: palette.added: no such colour 'gren'; the theme was not
        changed`."""
        place = path.name if self.line is None else f"{path.name}:{self.line}"
        said = ": ".join(part for part in (place, self.key, str(self)) if part)
        return one_line(f"{said}; {kept}", 400)


@dataclass(frozen=True)
class Entry:
    key: str
    """Dotted: `palette.syntax.comment`."""
    values: tuple[str, ...]
    line: int
    """Counted from 1."""
    listed: bool = False
    """Whether the values were written as a list."""


def read_entries(path: Path) -> tuple[Entry, ...]:
    """Return every setting of the file, in its order. Raises BadFile."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode()
    except OSError as problem:
        raise BadFile(None, "", f"cannot be read ({problem.strerror})") from problem
    except UnicodeDecodeError as problem:
        raise BadFile(None, "", "is not UTF-8") from problem
    if len(raw) > MAX_BYTES:
        raise BadFile(None, "", f"is longer than {MAX_BYTES:,} bytes")
    seen: dict[str, Entry] = {}
    for entry in _entries(text):
        if entry.key in seen:
            raise BadFile(
                entry.line, entry.key, f"is set twice, first on line {seen[entry.key].line}"
            )
        seen[entry.key] = entry
    return tuple(seen.values())


def _entries(text: str) -> Iterator[Entry]:
    from codeagent.core.yaml_text import Unreadable, nodes  # the first frame needs no such file

    try:
        found = nodes(text)
    except Unreadable as problem:
        said = str(problem).removeprefix("it is not YAML: ")
        raise BadFile(problem.line, "", f"is not YAML: {said}") from problem
    if len(found) > 1:
        line = found[1].start_mark.line + 1
        raise BadFile(line, "", "is not YAML: expected a single document in the stream")
    for root in found:
        yield from _mapping(root, text.splitlines(), "", set())


def _mapping(node: Any, lines: list[str], prefix: str, seen: set[int]) -> Iterator[Entry]:
    """Yield the entries of a YAML node, whose classes are not imported here: its `id` says what it
    is.

    Aliases are refused: they may repeat a node endlessly, or a billion times.
    """
    if id(node) in seen:
        raise BadFile(node.start_mark.line + 1, prefix, "write it out: aliases are not read")
    seen.add(id(node))
    if node.id != "mapping":
        raise BadFile(node.start_mark.line + 1, prefix, "expected lines of the form 'key: value'")
    for name, value in node.value:
        line = name.start_mark.line + 1
        if name.id != "scalar":
            raise BadFile(line, prefix, "a key must be a word")
        key = f"{prefix}.{name.value}" if prefix else name.value
        if value.id == "mapping":
            yield from _mapping(value, lines, key, seen)
        elif value.id == "sequence":
            yield Entry(
                key, tuple(_text(item, lines, key) for item in value.value), line, listed=True
            )
        else:
            yield Entry(key, (_text(value, lines, key),), line)


def _text(node: Any, lines: list[str], key: str) -> str:
    line = node.end_mark.line
    if node.id != "scalar":
        raise BadFile(node.start_mark.line + 1, key, "expected text")
    behind = lines[line][node.end_mark.column :] if line < len(lines) else ""
    if node.style is None and _LOST.match(behind):
        raise BadFile(
            line + 1, key, "put quotes around the value: without them '#' begins a comment"
        )
    if not node.value.strip():
        raise BadFile(node.start_mark.line + 1, key, "has no value")
    return str(node.value)
