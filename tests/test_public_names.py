"""The public face: these names and no others, and none of them costs anything before it is used."""

import subprocess
import sys

import pytest

import codeagent
from tests.table import for_each

PUBLIC = [
    "AddContext",
    "Allow",
    "Answer",
    "ChatScreen",
    "CodeagentError",
    "Decision",
    "Denied",
    "Deny",
    "Event",
    "Extension",
    "ExtensionContext",
    "Failed",
    "FollowUp",
    "Interrupt",
    "InvalidArgs",
    "LateSource",
    "Modify",
    "NotFound",
    "OfferedSet",
    "OnScreen",
    "Outcome",
    "Section",
    "Session",
    "SessionStore",
    "SlashCommand",
    "Steer",
    "Stop",
    "Subcommand",
    "Task",
    "TextScreen",
    "Tool",
    "ToolArgs",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "hook",
    "open_session",
    "register_tool",
    "work",
    "__version__",
]


def test_the_public_names_are_pinned() -> None:
    assert codeagent.__all__ == PUBLIC


@for_each("name", PUBLIC)
def test_every_public_name_can_be_used(name: str) -> None:
    assert getattr(codeagent, name) is not None


def test_any_other_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Unheard'"):
        codeagent.Unheard  # noqa: B018  # the access is what is tested


def test_importing_the_package_imports_nothing_else_of_it() -> None:
    code = "import sys, codeagent; print([name for name in sys.modules if name.startswith('codeagent.')])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        == "[]"
    )
