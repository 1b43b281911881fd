"""What can be completed at the cursor, `/` commands and `@` files, and what is offered for it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from codeagent.tui.fuzzy import rank
from codeagent.tui.widgets.submission import CommandRow

_COMMAND = re.compile(r"/([^\s/]*)")
_FILE = re.compile(r"(?:^|(?<=[\s(\[{'\"]))@(?:\"([^\"]*)|([^\s\"]*))$")


@dataclass(frozen=True)
class Unfinished:
    """The word in front of the cursor that can be completed."""

    kind: Literal["command", "file"]
    start: int
    """Column of its slash or `@`."""
    query: str
    """What stands behind it."""


@dataclass(frozen=True)
class Choice:
    """One thing on offer."""

    label: str
    insert: str
    """What replaces the unfinished word."""
    about: str = ""


def unfinished_at(line: str, row: int, column: int) -> Unfinished | None:
    """The unfinished word that ends at the column; nothing inside a word that goes on behind the cursor."""
    if column < len(line) and not line[column].isspace():
        return None
    before = line[:column]
    if row == 0 and (command := _COMMAND.fullmatch(before)):
        return Unfinished("command", 0, command[1])
    if file := _FILE.search(before):
        return Unfinished("file", file.start(), file[1] if file[1] is not None else file[2])
    return None


def command_choices(query: str, commands: Sequence[CommandRow]) -> tuple[Choice, ...]:
    """The commands that match by name or alias: those that begin so first, otherwise in their order."""
    by_word = {word: row for row in commands for word in (row.name, *row.aliases)}
    begin = [word for word in by_word if word.startswith(query.lower())]
    begin.sort(key=lambda word: word != query.lower())
    words = dict.fromkeys(begin + (rank(query, by_word, len(by_word)) if query else []))
    rows = dict.fromkeys(by_word[word] for word in words)
    return tuple(Choice(f"/{row.name}", f"/{row.name} ", row.about) for row in rows)


def file_choices(paths: Sequence[str]) -> tuple[Choice, ...]:
    """A file closes with a space; a directory stays open, so that what is in it is offered next."""
    return tuple(Choice(path, _mention(path)) for path in paths)


def _mention(path: str) -> str:
    if re.search(r"[\s\"]", path):
        return f'@"{path}" '
    return f"@{path}" if path.endswith("/") else f"@{path} "
