"""The slash commands, and how what a person typed becomes one of them; an unknown one is reported, never guessed."""

import difflib
from dataclasses import dataclass
from typing import Literal

from codeagent.core.sanitize import one_line

Group = Literal["conversation", "model and money", "screen", "about"]


@dataclass(frozen=True, slots=True)
class CommandRow:
    """One command as it is offered."""

    name: str
    """Without the slash."""
    about: str
    aliases: tuple[str, ...] = ()
    arguments: str = ""
    """What may follow: `[text]`."""
    while_running: bool = True
    """It works while the agent does."""
    group: Group = "conversation"


@dataclass(frozen=True, slots=True)
class Parsed:
    """A command that exists."""

    row: CommandRow
    argument: str = ""
    """The rest of what was typed, without blanks around it."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """No such command, or one that takes no such argument."""

    typed: str
    """Made safe, one line."""
    nearest: tuple[str, ...] = ()
    """Names that are like it, the best first."""
    problem: str = ""
    """Where the command exists, what is wrong with how it was called."""

    def __str__(self) -> str:
        if self.problem:
            return f"/{self.typed}: {self.problem}"
        meant = " or ".join(f"/{name}" for name in self.nearest)
        return f"there is no /{self.typed}" + (f"; did you mean {meant}?" if meant else "; /help lists the commands")


COMMANDS = (
    CommandRow("new", "begin a new conversation", ("clear",), while_running=False),
    CommandRow("resume", "continue an earlier conversation", ("sessions",), "[session]", while_running=False),
    CommandRow("copy", "copy the last answer", (), "[all]"),
    CommandRow("print", "leave the conversation in the terminal's own scrollback"),
    CommandRow("find", "find in the conversation", (), "[text]"),
    CommandRow("mode", "what runs without asking", (), "[ask|accept-edits|plan|auto]"),
    CommandRow("model", "choose the model", (), "[name]", while_running=False, group="model and money"),
    CommandRow("cost", "tokens and money of this conversation", ("usage",), group="model and money"),
    CommandRow("context", "what fills the model's context", group="model and money"),
    CommandRow("theme", "choose the colours", (), "[name]", group="screen"),
    CommandRow("keys", "what every key does", ("keymap",), group="screen"),
    CommandRow("help", "commands and keys", group="about"),
    CommandRow("status", "folder, model, mode, sandbox", group="about"),
    CommandRow("tools", "what the agent can do", group="about"),
    CommandRow("config", "the settings in force", group="about"),
    CommandRow("exit", "quit", ("quit", "q"), group="about"),
)
"""Every command, in the order of /help."""

_BY_NAME = {name: row for row in COMMANDS for name in (row.name, *row.aliases)}
_BARE = {"exit": "exit", "quit": "exit", ":q": "exit"}
"""Lines that are commands without a slash."""


def parse(text: str) -> Parsed | Unknown | None:
    """What the person typed, as a command; None where it is none.

    A line that begins with a path, `/etc/hosts is…`, is none either: commands hold no second slash.
    """
    stripped = text.strip()
    if stripped in _BARE:
        return Parsed(_BY_NAME[_BARE[stripped]])
    if not stripped.startswith("/"):
        return None
    if stripped[1:2].isspace():
        return None
    name, *rest = stripped[1:].split(maxsplit=1) or [""]
    if "/" in name:
        return None
    row = _BY_NAME.get(name.lower())
    if row is None:
        return Unknown(one_line(name, 40), tuple(difflib.get_close_matches(name.lower(), _BY_NAME, n=3)))
    argument = rest[0] if rest else ""
    if argument and not row.arguments:
        return Unknown(one_line(name, 40), problem=f"takes nothing behind it, but got '{one_line(argument, 40)}'")
    return Parsed(row, argument)


def help_markdown() -> str:
    """The page of /help."""
    parts = ["# Commands"]
    for group in dict.fromkeys(row.group for row in COMMANDS):
        lines = [f"| `{_called(row)}` | {_about(row)} |" for row in COMMANDS if row.group == group]
        parts.append("\n".join([f"## {group.capitalize()}", "", "| command | does |", "| --- | --- |", *lines]))
    return "\n\n".join(parts)


def _called(row: CommandRow) -> str:
    return f"/{row.name} {row.arguments}".strip().replace("|", "\\|")


def _about(row: CommandRow) -> str:
    also = f" (also {', '.join(f'`/{alias}`' for alias in row.aliases)})" if row.aliases else ""
    return row.about + also + ("" if row.while_running else "; waits until the agent is done")
