"""Reads untrusted YAML within limits, into nodes or into plain values of safe types with their
lines."""

import math
import re
from collections.abc import Iterator
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex

LARGEST = 256 * 1024
"""Bytes that `documents` reads."""
_LONGEST_NUMBER = 100
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null")
)
_AS_TEXT = frozenset({"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"})
_OPENING = lazy_regex(r"---[ \t]*\r?\n")
_CLOSING = lazy_regex(r"^---[ \t]*$", re.MULTILINE)
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


@dataclass(frozen=True)
class YamlLimits:
    """What a text may hold."""

    deepest: int = 24
    most_nodes: int = 10_000
    """Values, those of aliases counted at each use if they are built."""
    most_aliases: int = 100
    longest_scalar: int = 64 * 1024


USUAL = YamlLimits()
"""Those of a file that a user writes by hand."""


def nodes(text: str, limits: YamlLimits = USUAL, *, fast: bool = False) -> list[Any]:
    """Return PyYAML's node of every document that is not empty.

    `fast`: with the library in C, if it is there; its messages are shorter. Raises Unreadable at
    the first thing that is not allowed.
    """
    import yaml  # heavy, and few runs read any

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader) if fast else yaml.SafeLoader
    try:
        _refuse_bombs(yaml.parse(text, Loader=loader), limits)
        return [node for node in yaml.compose_all(text, Loader=loader) if node is not None]
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


def documents(data: bytes) -> tuple[YamlDocument, ...]:
    """Return every document that is not empty. Raises Unreadable at the first thing that is not
    allowed."""
    if len(data) > LARGEST:
        raise Unreadable(1, f"the file is larger than {LARGEST >> 10} KiB")
    return tuple(_Construction(USUAL).document(node) for node in nodes(_decoded(data)))


def front_matter(data: bytes) -> tuple[YamlDocument | None, str]:
    """Return the YAML between two lines of ---, and the text below; None if the file does not begin
    with ---.

    Raises Unreadable.
    """
    text = _decoded(data).removeprefix("\ufeff")
    opening = _OPENING.match(text)
    if opening is None:
        return None, text
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        raise Unreadable(1, "the front matter is not closed by a line of ---")
    found = documents(("\n" + text[opening.end() : closing.start()]).encode())
    return found[0] if found else YamlDocument({}, {}), text[closing.end() :].lstrip("\r\n")


def _decoded(data: bytes) -> str:
    """Raises Unreadable."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(data[: error.start].count(b"\n") + 1, "it is not UTF-8") from None


def _refuse_bombs(events: Iterator[Any], limits: YamlLimits) -> None:
    """Check depth, values and aliases before anything is built. Raises Unreadable."""
    import yaml

    depth = values = aliases = 0
    for event in events:
        line = event.start_mark.line + 1
        match event:
            case yaml.CollectionStartEvent():
                depth, values = depth + 1, values + 1
            case yaml.CollectionEndEvent():
                depth -= 1
            case yaml.AliasEvent():
                aliases += 1
            case yaml.ScalarEvent():
                values += 1
                if len(event.value) > limits.longest_scalar:
                    longest = limits.longest_scalar >> 10
                    raise Unreadable(line, f"a text is longer than {longest} KiB")
        if depth > limits.deepest:
            raise Unreadable(line, f"more than {limits.deepest} levels deep")
        if values > limits.most_nodes:
            raise Unreadable(line, f"more than {limits.most_nodes} values")
        if aliases > limits.most_aliases:
            raise Unreadable(line, f"more than {limits.most_aliases} aliases")


class _Construction:
    """Builds the values of one document; the value of an alias is counted at each use."""

    def __init__(self, limits: YamlLimits) -> None:
        import yaml

        self._limits = limits
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
        if self._count > self._limits.most_nodes:
            most = self._limits.most_nodes
            raise Unreadable(own, f"its aliases stand for more than {most} values")
        if id(node) in self._within:
            raise Unreadable(own, "an alias stands for something that holds itself")
        if len(path) > self._limits.deepest:
            raise Unreadable(own, f"more than {self._limits.deepest} levels deep")
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
