"""What is sent means what the user meant by it."""

import pytest

from codeagent.tui.actions import Action
from codeagent.tui.parts.typed_input import (
    CommandInput,
    PromptInput,
    ShellInput,
    TypedInput,
    UnknownInput,
    parse_input,
)

HELP = Action("command.help", "keys")
NEW = Action("command.new", "a new session", aliases=("clear",))
EXIT = Action("command.exit", "leave")
COMMANDS = (HELP, NEW, EXIT)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("fix it", PromptInput("fix it")),
        ("\n  indented\nsecond  \n\n", PromptInput("  indented\nsecond")),
        ("!ls -l", ShellInput("ls -l", shared=True)),
        ("!! cat secrets", ShellInput("cat secrets", shared=False)),
        ("!!! x", ShellInput("! x", shared=False)),
        ("/help", CommandInput(HELP, "")),
        ("/clear  all of\nit ", CommandInput(NEW, "all of\nit")),
        ("/nothing here", UnknownInput("/nothing here")),
        ("/", UnknownInput("/")),
        ("/github:review pr=7", PromptInput("/github:review pr=7")),
        ("/etc/hosts is broken", PromptInput("/etc/hosts is broken")),
        (" /help is what I typed", PromptInput(" /help is what I typed")),
        ("what does /help do", PromptInput("what does /help do")),
        ("exit", CommandInput(EXIT, "")),
        (" quit ", CommandInput(EXIT, "")),
        (":q", CommandInput(EXIT, "")),
        ("exit the loop early", PromptInput("exit the loop early")),
    ],
)
def test_it_is_understood(typed: str, said: TypedInput) -> None:
    assert parse_input(typed, COMMANDS) == said


@pytest.mark.parametrize("typed", ["", "  \n\t", "!", "!! ", "\n"])
def test_nothing_is_said(typed: str) -> None:
    assert parse_input(typed, COMMANDS) is None
