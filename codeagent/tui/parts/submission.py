"""What the user means by what they typed: a prompt, a shell command or a slash command."""

from collections.abc import Iterable
from dataclasses import dataclass

_LEAVE = ("exit", "quit", ":q")


@dataclass(frozen=True)
class CommandRow:
    """A slash command, without its slash."""

    name: str
    about: str
    """A few words, no full stop."""
    aliases: tuple[str, ...] = ()


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
    name: str
    """Of the command, also where an alias was typed."""
    arguments: str


@dataclass(frozen=True)
class SaidUnknown:
    """A slash and a word that is not a command."""

    text: str


StyledText = SaidPrompt | SaidShell | SaidSlash | SaidUnknown


def understand(typed: str, commands: Iterable[CommandRow]) -> StyledText | None:
    """None where nothing is said: blank text, or a shell command that is still empty.

    A first word with a second slash is a path, and a line with a space in front of its slash is a prompt.
    """
    text = typed.strip("\n").rstrip()
    if not text.strip():
        return None
    if text.strip() in _LEAVE:
        return SaidSlash("exit", "")
    if text.startswith("!"):
        shared = not text.startswith("!!")
        command = text.removeprefix("!" if shared else "!!").strip()
        return SaidShell(command, shared) if command else None
    word, *rest = text.split(maxsplit=1)
    if not text.startswith("/") or "/" in word[1:]:
        return SaidPrompt(text)
    row = named(word[1:], commands)
    return SaidUnknown(text) if row is None else SaidSlash(row.name, "".join(rest).strip())


def named(word: str, commands: Iterable[CommandRow]) -> CommandRow | None:
    """The command of that name or alias."""
    return next((row for row in commands if word == row.name or word in row.aliases), None)
