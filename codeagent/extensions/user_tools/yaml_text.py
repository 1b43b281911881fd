"""Reads untrusted YAML into plain values of safe types, within limits, and reports problems with
their lines."""

import math
import re
from collections.abc import Iterator
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.toolbox import ToolProblem
from codeagent.extensions.user_tools.templates import Flaw
from codeagent.tools.folders import ToolFile

LARGEST = 256 * 1024
_DEEPEST = 24
_MOST_NODES = 10_000
_MOST_ALIASES = 100
_LONGEST_SCALAR = 64 * 1024
_LONGEST_NUMBER = 100
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null")
)
_AS_TEXT = frozenset({"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"})
_OPENING = re.compile(r"---[ \t]*\r?\n")
_CLOSING = re.compile(r"^---[ \t]*$", re.MULTILINE)
_MERGE = "tag:yaml.org,2002:merge"

Path = tuple[str | int, ...]


class Unreadable(Exception):
    """The text is not YAML, or is not allowed; the message says why."""

    def __init__(self, line: int, why: str) -> None:
        """`line` counts from 1."""
        super().__init__(why)
        self.line = line


@dataclass(frozen=True)
class YamlDocument:
    """One document of a file."""

    value: Any
    """dict, list, str, int, float, bool or None; keys are strings."""
    lines: dict[Path, int]
    """The line, from 1, on which each value or its key begins."""

    def line(self, path: Path) -> int:
        """Return the line of the value at `path`, or of the nearest one around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def documents(data: bytes) -> tuple[YamlDocument, ...]:
    """Return every document that is not empty. Raises Unreadable at the first thing that is not
    allowed."""
    import yaml  # heavy, and only needed for YAML tools

    if len(data) > LARGEST:
        raise Unreadable(1, f"the file is larger than {LARGEST >> 10} KiB")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(data[: error.start].count(b"\n") + 1, "it is not UTF-8") from None
    try:
        _refuse_bombs(yaml.parse(text, Loader=yaml.SafeLoader))
        nodes = [
            node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if node is not None
        ]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(
            part for part in (error.problem, error.context and f"({error.context})") if part
        )
        raise Unreadable(mark.line + 1 if mark else 1, f"it is not YAML: {said}") from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise Unreadable(
            line, f"the character U+{error.character:04X} is not allowed in YAML"
        ) from None
    return tuple(_Construction().document(node) for node in nodes)


def front_matter(file: ToolFile) -> tuple[YamlDocument | None, str]:
    """Return the YAML between two lines of ---, and the text below; None if the file does not begin
    with ---.

    Raises Unreadable.
    """
    try:
        text = file.content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise Unreadable(file.content[: error.start].count(b"\n") + 1, "it is not UTF-8") from None
    opening = _OPENING.match(text)
    if opening is None:
        return None, text
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        raise Unreadable(1, "the front matter is not closed by a line of ---")
    found = documents(("\n" + text[opening.end() : closing.start()]).encode())
    return found[0] if found else YamlDocument({}, {}), text[closing.end() :].lstrip("\r\n")


def _refuse_bombs(events: Iterator[Any]) -> None:
    """Check depth, values and aliases before anything is built. Raises Unreadable."""
    import yaml

    depth = nodes = aliases = 0
    for event in events:
        line = event.start_mark.line + 1
        match event:
            case yaml.CollectionStartEvent():
                depth, nodes = depth + 1, nodes + 1
            case yaml.CollectionEndEvent():
                depth -= 1
            case yaml.AliasEvent():
                aliases += 1
            case yaml.ScalarEvent():
                nodes += 1
                if len(event.value) > _LONGEST_SCALAR:
                    raise Unreadable(line, f"a text is longer than {_LONGEST_SCALAR >> 10} KiB")
        if depth > _DEEPEST:
            raise Unreadable(line, f"more than {_DEEPEST} levels deep")
        if nodes > _MOST_NODES:
            raise Unreadable(line, f"more than {_MOST_NODES} values")
        if aliases > _MOST_ALIASES:
            raise Unreadable(line, f"more than {_MOST_ALIASES} aliases")


class _Construction:
    """Builds the values of one document; the value of an alias is counted at each use."""

    def __init__(self) -> None:
        import yaml

        self._yaml = yaml
        self._scalars = yaml.SafeLoader("")
        self._lines: dict[Path, int] = {}
        self._count = 0
        self._within: list[int] = []

    def document(self, node: Any) -> YamlDocument:
        value = self._value(node, (), node.start_mark.line + 1)
        return YamlDocument(value, self._lines)

    def _value(self, node: Any, path: Path, line: int) -> Any:
        self._count += 1
        own = node.start_mark.line + 1
        self._lines[path] = line
        if self._count > _MOST_NODES:
            raise Unreadable(own, f"its aliases stand for more than {_MOST_NODES} values")
        if id(node) in self._within:
            raise Unreadable(own, "an alias stands for something that holds itself")
        if len(path) > _DEEPEST:
            raise Unreadable(own, f"more than {_DEEPEST} levels deep")
        if isinstance(node, self._yaml.ScalarNode):
            return self._scalar(node, own)
        self._within.append(id(node))
        try:
            if isinstance(node, self._yaml.SequenceNode):
                self._expect(node, "seq", own)
                return [
                    self._value(item, (*path, at), item.start_mark.line + 1)
                    for at, item in enumerate(node.value)
                ]
            self._expect(node, "map", own)
            return self._mapping(node, path)
        finally:
            self._within.pop()

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, item in node.value:
            line = key.start_mark.line + 1
            if key.tag == _MERGE:
                raise Unreadable(line, "merge keys (<<) are not supported; write the keys out")
            name = self._scalar(key, line) if isinstance(key, self._yaml.ScalarNode) else None
            if not isinstance(name, str):
                shown = (
                    getattr(key, "value", "")
                    if isinstance(key, self._yaml.ScalarNode)
                    else "a collection"
                )
                raise Unreadable(line, f"the key {str(shown)[:40]!r} is not text; put it in quotes")
            if name in out:
                first = self._lines[(*path, name)]
                raise Unreadable(
                    line, f"the key {name[:60]!r} appears twice, first on line {first}"
                )
            out[name] = self._value(item, (*path, name), line)
        return out

    def _scalar(self, node: Any, line: int) -> Any:
        if node.tag in _AS_TEXT:
            return node.value
        if node.tag not in _PLAIN_TAGS:
            raise Unreadable(line, f"the tag {_short(node.tag)} is not allowed")
        if len(node.value) > _LONGEST_NUMBER and node.tag in (
            "tag:yaml.org,2002:int",
            "tag:yaml.org,2002:float",
        ):
            raise Unreadable(line, f"the number {node.value[:20]}… is too long")
        try:
            value = self._scalars.construct_object(node)
        except (ValueError, KeyError, self._yaml.YAMLError):
            raise Unreadable(
                line, f"{node.value[:40]!r} does not fit the tag {_short(node.tag)}"
            ) from None
        if isinstance(value, float) and not math.isfinite(value):
            raise Unreadable(line, f"{node.value} is not a number that can be used")
        return value

    def _expect(self, node: Any, kind: str, line: int) -> None:
        if node.tag != f"tag:yaml.org,2002:{kind}":
            raise Unreadable(line, f"the tag {_short(node.tag)} is not allowed")


def _short(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")[:60]


class YamlReport:
    """Collects the problems of one document, in the order of the lines."""

    def __init__(self, file: ToolFile, document: YamlDocument) -> None:
        self.shown = file.shown
        self._lines = file.content.decode("utf-8", "replace").split("\n")
        self._document = document
        self._found: dict[tuple[int, str, str], ToolProblem] = {}

    @property
    def problems(self) -> tuple[ToolProblem, ...]:
        return tuple(self._found[key] for key in sorted(self._found, key=lambda key: key[0]))

    @property
    def has_errors(self) -> bool:
        return any(problem.level == "error" for problem in self._found.values())

    def where(self, path: Path) -> str:
        return f"{self.shown}:{self._document.line(path)}"

    def error(self, path: Path, text: str, *, source: str = "") -> None:
        """`source` is text to look for in the lines below the key, to find the exact line."""
        self._add(path, text, source, warning=False)

    def warn(self, path: Path, text: str, *, source: str = "") -> None:
        self._add(path, text, source, warning=True)

    def flaw(self, path: Path, flaw: Flaw) -> None:
        self._add((*path, *flaw.at), flaw.text, flaw.source, warning=flaw.warning)

    def _add(self, path: Path, text: str, source: str, *, warning: bool) -> None:
        line = self._line(path, source)
        key = _written(path)
        where = f"{self.shown}:{line}: {key}" if key else f"{self.shown}:{line}"
        self._found.setdefault(
            (line, key, text), ToolProblem(where, text, "warning" if warning else "error")
        )

    def _line(self, path: Path, source: str) -> int:
        first = self._document.line(path)
        if not source:
            return first
        return next(
            (n for n in range(first, len(self._lines) + 1) if source in self._lines[n - 1]), first
        )


def _written(path: Path) -> str:
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in path
    ).removeprefix(".")
