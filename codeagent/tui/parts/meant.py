"""What the user means by what they typed: a prompt, a command of the shell, or one of ours."""

from collections.abc import Iterable

from codeagent.core.dataclass import dataclass
from codeagent.tui.actions import Action

_LEAVE = ("exit", "quit", ":q")


@dataclass(frozen=True)
class PromptInput:
    text: str
    later: bool = False
    """To be read when the agent is done."""


@dataclass(frozen=True)
class ShellInput:
    """`!command`, or `!!command` where the model is not to see it."""

    command: str
    shared: bool


@dataclass(frozen=True)
class CommandInput:
    row: Action
    arguments: str


@dataclass(frozen=True)
class UnknownInput:
    """A slash and a word that is not a command."""

    text: str


Meant = PromptInput | ShellInput | CommandInput | UnknownInput
"""What the user means by what they typed."""


def understand(typed: str, commands: Iterable[Action]) -> Meant | None:
    """None if nothing is said: blank text, or a shell command that is still empty.

    A first word with a second slash is a path, and a line with a space in front of its slash is a prompt. So is what
    asks for a prompt of an MCP server, `/server:prompt`.
    """
    text = typed.strip("\n").rstrip()
    if not text.strip():
        return None
    if text.strip() in _LEAVE and (leave := named("exit", commands)) is not None:
        return CommandInput(leave, "")
    if text.startswith("!"):
        shared = not text.startswith("!!")
        command = text.removeprefix("!" if shared else "!!").strip()
        return ShellInput(command, shared) if command else None
    word, *rest = text.split(maxsplit=1)
    if not text.startswith("/") or "/" in word[1:] or ":" in word:
        return PromptInput(text)
    row = named(word[1:], commands)
    return UnknownInput(text) if row is None else CommandInput(row, "".join(rest).strip())


def named(word: str, commands: Iterable[Action]) -> Action | None:
    """The command of that name or alias."""
    return next((row for row in commands if word == row.name or word in row.aliases), None)
