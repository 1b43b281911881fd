"""The system prompt: assembled in a fixed order, byte-identical as long as what it is made of is the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from codeagent.core.sanitize import one_line
from codeagent.core.skills import Skill
from codeagent.core.tool import Tool

_NO_SANDBOX = "There is no sandbox, so you cannot run commands; say so when a command would be needed."
_COMMANDS = {
    "docker": (
        "bash runs in a container that sees only this workspace: no network unless a call asks for it; .git and "
        ".codeagent are read-only, nothing outside the workspace lasts."
    ),
    "host": "bash runs directly on the person's machine, without a sandbox: each command is asked for.",
}
_TOOL_WIDTH = 100
_SKILL_WIDTH = 240
_SKILLS_WIDTH = 4000
"""Characters of all skills that are described; of the others, the names."""
_NAMES_WIDTH = 1000


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


def system_prompt(
    tools: Sequence[Tool[Any]], instructions: str, environment: Environment, skills: Sequence[Skill] = ()
) -> str:
    """Base, tools, their hints, skills, the workspace's own instructions, environment (FEATURES F27).

    A pure function: a further tool, or skill, changes nothing in front of its place.
    """
    base = files("codeagent.agent").joinpath("prompts/base.md").read_text("utf-8").strip()
    sections = [base, _tools(tools), _hints(tools), _skills(skills), _instructions(instructions)]
    sections.append(f"# Environment\n{environment.describe()}")
    return "\n\n".join(section for section in sections if section) + "\n"


def _tools(tools: Sequence[Tool[Any]]) -> str:
    """Those that people added: what a built-in tool does is all in its definition."""
    added = [tool for tool in tools if tool.source != "builtin"]
    if not added:
        return ""
    lines = (f"- {tool.name}: {_first(tool.description)}{_more(tool)}" for tool in added)
    return "\n".join(["# Tools of this project and person ([info]: info tells more)", *lines])


def _first(description: str) -> str:
    """The first line of a description."""
    return one_line(description.strip().partition("\n")[0], _TOOL_WIDTH)


def _more(tool: Tool[Any]) -> str:
    return " [info]" if tool.documentation else ""


def _hints(tools: Sequence[Tool[Any]]) -> str:
    hints = dict.fromkeys(tool.hint for tool in tools if tool.hint)
    return "\n".join(["# Hints", *(f"- {hint}" for hint in hints)]) if hints else ""


def _skills(skills: Sequence[Skill]) -> str:
    lines: list[str] = []
    room = _SKILLS_WIDTH
    for skill in skills:
        line = f"- {skill.name}: {one_line(skill.description, _SKILL_WIDTH)}"
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    if not lines:
        return ""
    if rest := skills[len(lines) :]:
        lines.append(f"- and {len(rest)} more: {one_line(', '.join(skill.name for skill in rest), _NAMES_WIDTH)}")
    return "\n".join(["# Skills (read the one that fits with info before you start)", *lines])


def _instructions(text: str) -> str:
    return f"# Instructions of this workspace (AGENTS.md)\n{text.strip()}" if text.strip() else ""
