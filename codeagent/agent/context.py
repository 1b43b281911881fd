"""The system prompt: assembled once, in a fixed order, byte-identical from turn to turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from codeagent.core.tool import Tool

_NO_SANDBOX = "There is no sandbox, so you cannot run commands; say so when a command would be needed."
_COMMANDS = {
    "docker": (
        "bash runs in a container that sees only this workspace: no network, .git and .codeagent are read-only, "
        "nothing outside the workspace lasts."
    ),
    "host": "bash runs directly on the person's machine, without a sandbox: each command is asked for.",
}


@dataclass(frozen=True)
class Environment:
    """What the model is told about where it works."""

    workspace: str
    platform: str
    sandbox_kind: str | None
    """`docker`, `host`, or None where no command can run."""

    def describe(self) -> str:
        commands = _NO_SANDBOX if self.sandbox_kind is None else _COMMANDS[self.sandbox_kind]
        return f"Workspace: {self.workspace}\nPlatform: {self.platform}\n{commands}"


def system_prompt(tools: Sequence[Tool[Any]], instructions: str, environment: Environment) -> str:
    """Base, tool hints (once each), the workspace's own instructions, environment (FEATURES F27)."""
    base = files("codeagent.agent").joinpath("prompts/base.md").read_text("utf-8").strip()
    hints = list(dict.fromkeys(tool.hint for tool in tools if tool.hint))
    sections = [base]
    if hints:
        sections.append("# Tools\n" + "\n".join(f"- {hint}" for hint in hints))
    if instructions:
        sections.append(f"# Instructions of this workspace (AGENTS.md)\n{instructions.strip()}")
    sections.append(f"# Environment\n{environment.describe()}")
    return "\n\n".join(sections) + "\n"
