"""What the user means by what they typed: a prompt, a shell command or a slash command."""

from collections.abc import Iterable
from dataclasses import dataclass

from codeagent.tui.actions import Action

_LEAVE = ("exit", "quit", ":q")


@dataclass(frozen=True)
class SaidPrompt:
    text: str


@dataclass(frozen=True)
class SaidShell:
    """`!command`, or `!!command` where the model is not to see it."""

    command: str
    shared: bool


@dataclass(frozen=True)
class SaidSlash:
    row: Action
    arguments: str


@dataclass(frozen=True)
class SaidUnknown:
    """A slash and a word that is not a command."""

    text: str


StyledText = SaidPrompt | SaidShell | SaidSlash | SaidUnknown


def understand(typed: str, commands: Iterable[Action]) -> StyledText | None:
    """None where nothing is said: blank text, or a shell command that is still empty.

    A first word with a second slash is a path, and a line with a space in front of its slash is a prompt.
    """
    text = typed.strip("\n").rstrip()
    if not text.strip():
        return None
    if text.strip() in _LEAVE and (leave := named("exit", commands)) is not None:
        return SaidSlash(leave, "")
    if text.startswith("!"):
        shared = not text.startswith("!!")
        command = text.removeprefix("!" if shared else "!!").strip()
        return SaidShell(command, shared) if command else None
    word, *rest = text.split(maxsplit=1)
    if not text.startswith("/") or "/" in word[1:]:
        return SaidPrompt(text)
    row = named(word[1:], commands)
    return SaidUnknown(text) if row is None else SaidSlash(row, "".join(rest).strip())


def named(word: str, commands: Iterable[Action]) -> Action | None:
    """The command of that name or alias."""
    return next((row for row in commands if word == row.name or word in row.aliases), None)
