"""What is sent means what the user meant by it."""

import pytest

from codeagent.tui.parts.submission import (
    CommandRow,
    SaidPrompt,
    SaidShell,
    SaidSlash,
    SaidUnknown,
    StyledText,
    understand,
)

COMMANDS = (CommandRow("help", "keys"), CommandRow("new", "a new session", ("clear",)), CommandRow("exit", "leave"))


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("fix it", SaidPrompt("fix it")),
        ("\n  indented\nsecond  \n\n", SaidPrompt("  indented\nsecond")),
        ("!ls -l", SaidShell("ls -l", shared=True)),
        ("!! cat secrets", SaidShell("cat secrets", shared=False)),
        ("!!! x", SaidShell("! x", shared=False)),
        ("/help", SaidSlash("help", "")),
        ("/clear  all of\nit ", SaidSlash("new", "all of\nit")),
        ("/nothing here", SaidUnknown("/nothing here")),
        ("/", SaidUnknown("/")),
        ("/etc/hosts is broken", SaidPrompt("/etc/hosts is broken")),
        (" /help is what I typed", SaidPrompt(" /help is what I typed")),
        ("what does /help do", SaidPrompt("what does /help do")),
        ("exit", SaidSlash("exit", "")),
        (" quit ", SaidSlash("exit", "")),
        (":q", SaidSlash("exit", "")),
        ("exit the loop early", SaidPrompt("exit the loop early")),
    ],
)
def test_it_is_understood(typed: str, said: StyledText) -> None:
    assert understand(typed, COMMANDS) == said


@pytest.mark.parametrize("typed", ["", "  \n\t", "!", "!! ", "\n"])
def test_nothing_is_said(typed: str) -> None:
    assert understand(typed, COMMANDS) is None
