"""The YAML head of a `SKILL.md`: name and description, with the line of whatever is wrong."""

import re
from dataclasses import dataclass
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_LONGEST = 16 * 1024
"""Characters of a head."""
_MARK = re.compile(r"^---[ \t]*$", re.MULTILINE)


class BadHead(Exception):
    """The head says not what it must; `line` counts from 1 in the file."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


@dataclass(frozen=True)
class Head:
    name: str
    description: str
    name_line: int
    """Where the name stands, from 1 in the file."""


def split_head(text: str) -> tuple[str, str]:
    """The YAML between the two `---` lines, and the Markdown behind them. Raises BadHead."""
    opening = _MARK.match(text)
    if opening is None:
        raise BadHead(1, "it must begin with a line of ---, then name: and description:, then --- again")
    closing = _MARK.search(text, opening.end(), opening.end() + _LONGEST)
    if closing is None:
        raise BadHead(1, "the head is not closed by a line of ---")
    return text[opening.end() + 1 : closing.start()], text[closing.end() :].lstrip("\n")


def parse_head(head: str) -> Head:
    """Other keys than `name` and `description` are of other programs, and left alone. Raises BadHead."""
    import yaml  # heavy, and most workspaces have no skill

    try:
        root: Any = yaml.compose(head, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line if problem.problem_mark else 0
        raise BadHead(line + 2, f"the head is not YAML: {problem.problem}") from problem
    except (yaml.YAMLError, RecursionError) as problem:
        raise BadHead(2, "the head is not YAML: it holds a character or a depth that is not allowed") from problem
    if root is None or root.id != "mapping":
        raise BadHead(2, "the head must be lines of the form key: value")
    found: dict[str, tuple[str, int]] = {}
    for key, value in root.value:
        if key.id == "scalar" and key.value in ("name", "description"):
            found[key.value] = _text(key.value, value, known=key.value in found)
    for key in ("name", "description"):
        if key not in found:
            raise BadHead(2, f"the head has no {key}")
    name, line = found["name"]
    if _NAME.fullmatch(name) is None:
        raise BadHead(line, "name: use 1 to 64 letters, digits, _ or -, beginning with a letter or digit")
    return Head(name, found["description"][0], line)


def _text(key: str, value: Any, *, known: bool) -> tuple[str, int]:
    line = value.start_mark.line + 2
    if known:
        raise BadHead(line, f"{key} is there twice")
    if value.id != "scalar" or not value.value.strip():
        raise BadHead(line, f"{key} must be a text")
    return value.value.strip(), line
