"""The workspace's own instructions for agents: AGENTS.md at its root."""

from codeagent.core.errors import WorkspaceError
from codeagent.core.ports import Workspace

NAME = "AGENTS.md"
_MAX_BYTES = 32_768


def read_instructions(workspace: Workspace) -> str:
    """The text of AGENTS.md, cut to 32 KiB; empty where there is none that may be read."""
    try:
        with workspace.open(NAME) as file:
            data = file.read(_MAX_BYTES + 1)
    except WorkspaceError:
        return ""
    text = data[:_MAX_BYTES].decode("utf-8", "replace")
    return text + "\n[AGENTS.md is longer; read it for the rest]" if len(data) > _MAX_BYTES else text
