"""Interprets typed text: a prompt, a shell command, or a slash command."""

from collections.abc import Iterable

from codeagent.core.dataclass import dataclass
from codeagent.tui.actions import Action

_LEAVE = ("exit", "quit", ":q")


@dataclass(frozen=True)
class PromptInput:
    text: str
    later: bool = False
    """Deliver it when the agent is done."""


@dataclass(frozen=True)
class ShellInput:
    """`!command`, or `!!command`, which the model does not see."""

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


TypedInput = PromptInput | ShellInput | CommandInput | UnknownInput
"""What typed text may be."""


def parse_input(typed: str, commands: Iterable[Action]) -> TypedInput | None:
    """Return the meaning of typed text; None for blank text or an empty shell command.

    If the first word has a second slash it is a path, so the text is a prompt. Text with a space
    before its slash is a prompt too, and so is `/server:prompt`, which asks for a prompt of an MCP
    server.
    """
    text = typed.strip("\n").rstrip()
    if not text.strip():
        return None
    if text.strip() in _LEAVE and (leave := find_command("exit", commands)) is not None:
        return CommandInput(leave, "")
    if text.startswith("!"):
        shared = not text.startswith("!!")
        command = text.removeprefix("!" if shared else "!!").strip()
        return ShellInput(command, shared) if command else None
    word, *rest = text.split(maxsplit=1)
    if not text.startswith("/") or "/" in word[1:] or ":" in word:
        return PromptInput(text)
    row = find_command(word[1:], commands)
    return UnknownInput(text) if row is None else CommandInput(row, "".join(rest).strip())


def find_command(word: str, commands: Iterable[Action]) -> Action | None:
    """Return the command of that name or alias."""
    return next((row for row in commands if word == row.name or word in row.aliases), None)
