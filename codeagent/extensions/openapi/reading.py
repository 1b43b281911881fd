"""Reads a document, JSON or YAML, into plain values of safe types, with limits checked before
anything is built."""

import json
import math
import re
from typing import Any

from codeagent.core.yaml_text import Unreadable, YamlLimits, nodes

LARGEST = 32 << 20
"""The largest document, in bytes."""
_LARGEST_YAML = 8 << 20
"""The largest YAML document, in bytes: reading YAML takes thirty times as long as JSON."""
_MOST_NODES = 2_000_000
"""The most values, with those of aliases and merges counted at each use."""
_DEEPEST = 100
_LIMITS = YamlLimits(_DEEPEST, _MOST_NODES, most_aliases=10_000, longest_scalar=_LARGEST_YAML)
_NOT_YAML = "it is not YAML: "
_MERGE = "tag:yaml.org,2002:merge"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null"))


class BadDocument(Exception):
    """A document, or a part of it, cannot be used; the message is a phrase that says why."""


def read_text(data: bytes) -> Any:
    """Return the value of a JSON or YAML text. Blocks. Raises BadDocument."""
    if len(data) > LARGEST:
        raise BadDocument(f"it is larger than {LARGEST >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadDocument("it is not UTF-8") from None
    value = _read_json(text) if text.lstrip()[:1] in ("{", "[") else _read_yaml(text)
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise BadDocument(
                "a text in it has half of a surrogate pair (\\ud800 to \\udfff)"
            ) from None
    return value


def _read_json(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise BadDocument(f"more than {_DEEPEST} levels deep") from None
    except ValueError as error:
        raise BadDocument(f"it is not JSON: {error}") from None
    _check_depth(value)
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number that JSON has")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise BadDocument(f"more than {_DEEPEST} levels deep")


def _read_yaml(text: str) -> Any:
    import yaml  # heavy, and most documents are kept as JSON

    if len(text) > _LARGEST_YAML:
        raise BadDocument(
            f"as YAML it is larger than {_LARGEST_YAML >> 20} MiB; convert it to JSON"
        )
    try:
        found = nodes(text, _LIMITS, fast=True)
    except Unreadable as error:
        where, said = f"line {error.line}: ", str(error)
        if said.startswith(_NOT_YAML):
            raise BadDocument(_NOT_YAML + where + said.removeprefix(_NOT_YAML)) from None
        raise BadDocument(where + said) from None
    if len(found) != 1:
        raise BadDocument("it is empty" if not found else "it contains more than one YAML document")
    return _Construction(yaml).value(found[0], 0)


class _Construction:
    """Builds plain values; keys and dates are text, as written."""

    def __init__(self, yaml: Any) -> None:
        self._yaml = yaml
        self._scalars = yaml.SafeLoader("")
        self._count = 0

    def value(self, node: Any, depth: int) -> Any:
        """Return the value of a node. Raises BadDocument."""
        self._count += 1
        if self._count > _MOST_NODES:
            raise BadDocument(
                f"it holds more than {_MOST_NODES:,} values, its aliases counted each time"
            )
        if depth > _DEEPEST:
            raise BadDocument(f"more than {_DEEPEST} levels deep, or an alias contains itself")
        if isinstance(node, self._yaml.ScalarNode):
            return self._scalar(node)
        if isinstance(node, self._yaml.SequenceNode):
            return [self.value(item, depth + 1) for item in node.value]
        out: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, item in node.value:
            if key.tag == _MERGE:
                merged = {**merged, **self._merged(item, depth)}
            elif isinstance(key, self._yaml.ScalarNode):
                out[key.value] = self.value(item, depth + 1)
            else:
                raise BadDocument(f"line {key.start_mark.line + 1}: a key is not text")
        return {**merged, **out}

    def _merged(self, node: Any, depth: int) -> dict[str, Any]:
        value = self.value(node, depth + 1)
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, dict) for part in parts):
            raise BadDocument(f"line {node.start_mark.line + 1}: << takes a mapping")
        return {key: one for part in reversed(parts) for key, one in part.items()}

    def _scalar(self, node: Any) -> Any:
        if node.tag not in _PLAIN_TAGS:
            return node.value
        try:
            value = self._scalars.construct_object(node)
        except (ValueError, KeyError, self._yaml.YAMLError):
            return node.value
        return node.value if isinstance(value, float) and not math.isfinite(value) else value
