"""Reads agents from Markdown files: the front matter that other programs use, and codeagent's own
keys."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from codeagent.core.agents import AgentDefinition
from codeagent.core.budget import Effort
from codeagent.core.policy import Mode, NetworkLevel
from codeagent.core.sanitize import one_line, visible
from codeagent.core.toolbox import ToolProblem
from codeagent.core.yaml_text import Unreadable, YamlDocument, front_matter
from codeagent.tools.files.fields import LimitFields, Tools, YamlSection
from codeagent.tools.files.report import YamlReport, validated
from codeagent.tools.folders import Loaded, LoaderNeeds, ToolFile

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_LONGEST_DESCRIPTION = 1024
_KNOWN_ELSEWHERE = {
    "Read": ("read",),
    "Write": ("write",),
    "Edit": ("edit",),
    "MultiEdit": ("edit",),
    "Bash": ("bash", "job_*"),
    "Grep": ("search",),
    "Glob": ("list",),
    "LS": ("list",),
    "WebFetch": ("web_fetch",),
    "WebSearch": ("web_search",),
    "TodoWrite": ("todo",),
    "BashOutput": ("job_*",),
    "KillShell": ("job_*",),
    "AskUserQuestion": ("ask_user",),
    "Agent": (),
    "ExitPlanMode": (),
    "NotebookEdit": (),
    "NotebookRead": (),
    "Skill": (),
    "SlashCommand": (),
    "Task": (),
}
"""Our names for the tools of another program, by its names; empty where we do not have such a
tool."""
_MODELS_ELSEWHERE = frozenset({"inherit", "sonnet", "opus", "haiku"})
"""Another program's names for models; ignored, as the user has already chosen a model here."""
_NO_EFFECT = ("background", "effort", "hooks", "initialPrompt", "mcpServers", "memory", "skills")
"""Another program's keys that are read by nobody here."""


class AgentFields(YamlSection):
    """The front matter: our keys, and those of another program's files."""

    name: str = ""
    description: str = ""
    tools: Tools = None
    model: str | None = None
    thinking: Effort | None = None
    mode: Mode | None = None
    network: NetworkLevel | None = None
    limits: LimitFields = LimitFields()
    parallel: bool = False
    worktree: bool = False
    isolation: str = ""
    """Another program's word for `worktree`."""
    color: Any = None
    disallowed_tools: Any = Field(default=None, alias="disallowedTools")
    max_turns: int | None = Field(default=None, ge=1, alias="maxTurns")
    permission_mode: (
        Literal["default", "acceptEdits", "auto", "bypassPermissions", "dontAsk", "manual", "plan"]
        | None
    ) = Field(default=None, alias="permissionMode")
    background: Any = None
    effort: Any = None
    hooks: Any = None
    initial_prompt: Any = Field(default=None, alias="initialPrompt")
    mcp_servers: Any = Field(default=None, alias="mcpServers")
    memory: Any = None
    skills: Any = None


_SECTIONS: Mapping[str, type[BaseModel]] = {"": AgentFields, "limits": LimitFields}


class AgentLoader:
    """Loads `.md` files (a ToolLoader of agents)."""

    suffixes = (".md",)

    def load(self, file: ToolFile) -> Loaded:
        try:
            head, body = front_matter(file.content)
            if head is None:
                raise Unreadable(
                    1,
                    "it must begin with a line of ---, then name: and description:, then --- again",
                )
            if not isinstance(head.value, dict):
                raise Unreadable(2, "the front matter must be lines of the form key: value")
        except Unreadable as error:
            return Loaded(problems=(ToolProblem(f"{file.shown}:{error.line}", str(error)),))
        report = YamlReport(file, head)
        agent = _agent(file, head, body, report)
        return Loaded(
            problems=report.problems, agents=() if agent is None or report.has_errors else (agent,)
        )


def agent_loader(needs: LoaderNeeds) -> AgentLoader:
    """Make the loader of a conversation, which needs nothing of it."""
    return AgentLoader()


def _agent(
    file: ToolFile, head: YamlDocument, body: str, report: YamlReport
) -> AgentDefinition | None:
    if (fields := validated(AgentFields, head.value, report, _SECTIONS)) is None:
        return None
    name = fields.name or file.path.stem
    if _NAME.fullmatch(name) is None:
        report.error(
            ("name",), "use 1 to 64 letters, digits, _ or -, beginning with a letter or digit"
        )
    if not fields.description.strip():
        report.error((), "description is missing; the model chooses by it")
    model = fields.model
    if model in _MODELS_ELSEWHERE:
        if model != "inherit":
            report.warn(
                ("model",),
                f"{model} is a model of another program: the agent has the model of its parent",
            )
        model = None
    _check_elsewhere(fields, head.value, report)
    limits = fields.limits.model_dump(exclude_none=True)
    if "budget" in limits:
        limits["max_cost_usd"] = limits.pop("budget")
    if fields.max_turns is not None:
        limits.setdefault("max_turns", fields.max_turns)
    return AgentDefinition(
        name=name,
        description=one_line(fields.description, _LONGEST_DESCRIPTION),
        prompt=visible(body.strip()),
        tools=_tools(fields.tools, report),
        model=model,
        thinking=fields.thinking,
        mode="plan" if fields.permission_mode == "plan" else fields.mode,
        network=fields.network,
        limits=limits,
        parallel=fields.parallel,
        worktree=fields.worktree or fields.isolation == "worktree",
        where=report.where(()),
    )


def _check_elsewhere(fields: AgentFields, given: Mapping[str, Any], report: YamlReport) -> None:
    """Report another program's keys that would take something away from the agent, or have no
    effect here."""
    if "disallowedTools" in given:
        report.error(
            ("disallowedTools",), "it is not supported: write in tools what the agent may call"
        )
    if fields.permission_mode not in (None, "default", "plan"):
        report.warn(
            ("permissionMode",),
            "it has no effect here; mode sets the mode, which is never wider than yours",
        )
    if fields.isolation not in ("", "worktree"):
        report.warn(
            ("isolation",),
            f"{one_line(fields.isolation, 40)} is not supported, only worktree: the agent works in the workspace",
        )
    for key in _NO_EFFECT:
        if key in given:
            report.warn((key,), "it is a key of another program, and has no effect here")


def _tools(given: Sequence[str] | None, report: YamlReport) -> tuple[str, ...] | None:
    """Return the names and patterns of a list, with those of another program in our words."""
    if given is None:
        return None
    names = tuple(
        dict.fromkeys(here for name in given for here in _KNOWN_ELSEWHERE.get(name, (name,)))
    )
    if given and not names:
        report.error(("tools",), f"none of them is a tool here: {', '.join(given)}")
    elif unknown := [name for name in given if _KNOWN_ELSEWHERE.get(name) == ()]:
        report.warn(("tools",), f"of another program, with no such tool here: {', '.join(unknown)}")
    return names
