"""The `info` tool: the full documentation of a tool or a skill that the prompt only names."""

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from codeagent.core.deferred import Field
from codeagent.core.errors import MissingPath
from codeagent.core.memory import Skill, Skills
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import spelled, unspelled, visible
from codeagent.core.tool import Access, NotFound, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.faults import nearest_or_all
from codeagent.tools.schema import tool_schema

_PERMISSIONS = {"auto": "not asked about", "prompt": "the user is asked", "deny": "denied"}


class InfoArgs(ToolArgs):
    name: Annotated[str, Field(min_length=1, max_length=500)]


class Info(Tool[InfoArgs]):
    """Does not need approval: it shows what the user, or the project, wrote for the model to
    read."""

    name = "info"
    label = "Info"
    description = "Read all about a tool or skill; skill/file reads a file of a skill."
    Args = InfoArgs
    permission = "auto"
    concurrency = "shared"
    effect = "nothing"

    def __init__(
        self, tools: Callable[[], Iterable[Tool[Any]]], skills: Skills, read: set[str] | None = None
    ) -> None:
        """`tools` returns the tools in use at that moment; names of tools read about are added to
        `read`."""
        self._tools = tools
        self._skills = skills
        self._read = set() if read is None else read

    @staticmethod
    def is_useful(tools: Iterable[Tool[Any]], skills: Skills) -> bool:
        """Whether there is more to read than the definitions."""
        return bool(skills.listed) or any(tool.documentation for tool in tools)

    def access(self, args: InfoArgs, workspace: Workspace) -> Access:
        return Access("shared", "")

    def approval_key(self, args: InfoArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.name,))

    async def run(self, args: InfoArgs, ctx: ToolContext) -> ToolResult:
        name, _, file = unspelled(args.name.strip()).partition("/")
        tool = None if file else next((tool for tool in self._tools() if tool.name == name), None)
        skill = next((skill for skill in self._skills.listed if skill.name == name), None)
        parts: list[str] = []
        if tool is not None:
            parts.append(_about_tool(tool))
            self._read.add(name)
        if skill is not None:
            parts.append(await asyncio.to_thread(self._about_skill, skill, file or None))
        if not parts:
            known = dict.fromkeys(
                [*(tool.name for tool in self._tools()), *(one.name for one in self._skills.listed)]
            )
            raise NotFound(f"unknown tool or skill {visible(name)!r}{nearest_or_all(name, known)}")
        return ToolResult.from_text(
            "\n\n".join(parts), details={} if tool is None else {"tool": name}
        )

    def _about_skill(self, skill: Skill, file: str | None) -> str:
        if file is not None and skill.place == "project":
            folder = skill.where.rpartition("/")[0]
            raise NotFound(
                f"the files of {skill.name} are in this workspace: read {folder}/{spelled(file)}"
            )
        try:
            found = self._skills.read(skill.name, file)
        except (KeyError, MissingPath):
            what = (
                f"file '{spelled(file)}' in the skill {skill.name}"
                if file is not None
                else f"skill {skill.name!r}"
            )
            raise NotFound(f"{what} does not exist; it may have been removed") from None
        if file is not None:
            return found.text
        how = (
            "to be opened with read"
            if skill.place == "project"
            else f'to be opened with info("{skill.name}/FILE")'
        )
        files = [f"\nFiles of this skill, {how}:", *found.files] if found.files else []
        return "\n".join([f"# Skill {skill.name} ({skill.where})", "", found.text.rstrip(), *files])


def _about_tool(tool: Tool[Any]) -> str:
    origin = f"{tool.source}, {visible(tool.origin)}" if tool.origin else tool.source
    facts = [
        _PERMISSIONS[tool.permission],
        "runs in the sandbox" if tool.sandboxed else "",
        "runs as a job" if tool.mode != "direct" else "",
        f"at most {tool.timeout:g} s" if tool.timeout is not None else "",
        f"at most {tool.max_calls} calls in a run" if tool.max_calls is not None else "",
    ]
    parts = [
        f"# {tool.name} ({origin})",
        visible(tool.description.strip()),
        visible(tool.documentation.strip()),
    ]
    parts += [f"Facts: {', '.join(fact for fact in facts if fact)}."]
    parts += [f"Arguments (JSON Schema): {json.dumps(tool_schema(tool), ensure_ascii=False)}"]
    return "\n\n".join(part for part in parts if part)
