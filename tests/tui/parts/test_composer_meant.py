"""What is sent means what the user meant by it."""

import pytest

from codeagent.tui.actions import Action
from codeagent.tui.parts.composer import Meant, SaidPrompt, SaidShell, SaidSlash, SaidUnknown, understand

HELP = Action("command.help", "keys")
NEW = Action("command.new", "a new session", aliases=("clear",))
EXIT = Action("command.exit", "leave")
COMMANDS = (HELP, NEW, EXIT)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("fix it", SaidPrompt("fix it")),
        ("\n  indented\nsecond  \n\n", SaidPrompt("  indented\nsecond")),
        ("!ls -l", SaidShell("ls -l", shared=True)),
        ("!! cat secrets", SaidShell("cat secrets", shared=False)),
        ("!!! x", SaidShell("! x", shared=False)),
        ("/help", SaidSlash(HELP, "")),
        ("/clear  all of\nit ", SaidSlash(NEW, "all of\nit")),
        ("/nothing here", SaidUnknown("/nothing here")),
        ("/", SaidUnknown("/")),
        ("/etc/hosts is broken", SaidPrompt("/etc/hosts is broken")),
        (" /help is what I typed", SaidPrompt(" /help is what I typed")),
        ("what does /help do", SaidPrompt("what does /help do")),
        ("exit", SaidSlash(EXIT, "")),
        (" quit ", SaidSlash(EXIT, "")),
        (":q", SaidSlash(EXIT, "")),
        ("exit the loop early", SaidPrompt("exit the loop early")),
    ],
)
def test_it_is_understood(typed: str, said: Meant) -> None:
    assert understand(typed, COMMANDS) == said


@pytest.mark.parametrize("typed", ["", "  \n\t", "!", "!! ", "\n"])
def test_nothing_is_said(typed: str) -> None:
    assert understand(typed, COMMANDS) is None
