"""Reads the workspace's instructions for agents, AGENTS.md at its root, and finds hidden characters in such text."""

from dataclasses import dataclass

from codeagent.core.errors import WorkspaceError
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import visible
from codeagent.core.toolbox import ToolProblem

HIDDEN = "invisible characters; the model gets them as escapes"
NAME = "AGENTS.md"
_MAX_BYTES = 32_768


def first_hidden(text: str) -> int | None:
    """Return the first line (from 1) with a control or invisible character; None if there is none."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    return next((number for number, line in enumerate(lines, start=1) if visible(line) != line), None)


@dataclass(frozen=True)
class Instructions:
    text: str = ""
    """At most 32 KiB of AGENTS.md, hidden characters as escapes; empty if there is none that may be read."""
    problems: tuple[ToolProblem, ...] = ()
    """A warning for the user about hidden characters."""


def load_instructions(workspace: Workspace) -> Instructions:
    try:
        with workspace.open(NAME) as file:
            data = file.read(_MAX_BYTES + 1)
    except WorkspaceError:
        return Instructions()
    raw = data[:_MAX_BYTES].decode("utf-8", "replace").removeprefix("\ufeff")
    more = f"\n[{NAME} is longer; read it for the rest]" if len(data) > _MAX_BYTES else ""
    hidden = first_hidden(raw)
    problems = () if hidden is None else (ToolProblem(f"{NAME}:{hidden}", HIDDEN, "warning"),)
    return Instructions(visible(raw) + more, problems)
