"""The workspace's own instructions for agents: AGENTS.md at its root."""

from dataclasses import dataclass

from codeagent.core.errors import WorkspaceError
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import visible
from codeagent.core.toolbox import ToolProblem
from codeagent.workspace.hidden import HIDDEN, first_hidden

NAME = "AGENTS.md"
_MAX_BYTES = 32_768


@dataclass(frozen=True)
class Instructions:
    text: str = ""
    """At most 32 KiB of AGENTS.md, hidden characters as escapes; empty where there is none that may be read."""
    problems: tuple[ToolProblem, ...] = ()
    """A warning where characters act or do not show: the person is told."""


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
