"""Reads groups of agents from YAML files: members, channels, who begins, and their common
limits."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field, field_validator

from codeagent.core.agents import AgentDefinition
from codeagent.core.budget import Effort
from codeagent.core.channels import ChannelKind
from codeagent.core.groups import MOST_AGENTS, Group, GroupMember
from codeagent.core.json_types import MAIN
from codeagent.core.policy import Mode
from codeagent.core.recipes import NAME
from codeagent.core.sanitize import one_line, visible
from codeagent.core.toolbox import ToolProblem
from codeagent.core.yaml_text import Unreadable, YamlDocument, documents
from codeagent.tools.faults import nearest_or_all
from codeagent.tools.files.fields import LimitFields, Seconds, Tools, Version, YamlSection
from codeagent.tools.files.report import YamlReport, validated
from codeagent.tools.folders import ToolFile

_PATTERN = f"^{NAME.pattern}$"
_SENDS = "send_message"


class MemberFields(YamlSection):
    """One agent of the group."""

    name: str = Field(pattern=_PATTERN, description="What the others call it.")
    agent: str | None = Field(
        default=None, description="An agent that a file describes; the other keys come on top."
    )
    prompt: str = Field(
        default="", description="What it is there for; its system prompt ends with it."
    )
    tools: Tools = Field(
        default=None, description="All that it may call; default: what a conversation has."
    )
    model: str | None = Field(
        default=None, min_length=1, description="As in `--model`; default: that of the run."
    )
    thinking: Effort | None = Field(default=None, description="As in `--thinking`.")
    mode: Mode | None = Field(default=None, description="It only tightens the mode of the run.")
    limits: LimitFields = Field(
        default=LimitFields(),
        description="`max_tokens` and `budget` hold for all its runs together, the others for each run.",
    )
    channels: list[str] = Field(
        default_factory=list, description="The channels that it watches from the start."
    )
    may_add: bool = Field(
        default=False, description="It may add agents that can do no more than it can."
    )
    may_connect: bool = Field(default=False, description="It may make other agents watch channels.")


class SharedLimitFields(YamlSection):
    """The limits of all agents together."""

    max_tokens: int | None = Field(
        default=None, ge=1, description="Tokens, input and output together."
    )
    max_seconds: Seconds | None = Field(default=None, description="Elapsed time.")
    budget: float | None = Field(default=None, gt=0, description="US dollars.")


class GroupFields(YamlSection):
    """A group of agents."""

    name: str | None = Field(default=None, pattern=_PATTERN, description="Default: the file's.")
    version: Version = Field(default="", description="For readers; it has no effect.")
    description: str = Field(default="", description="For readers; it has no effect.")
    agents: list[MemberFields] = Field(
        min_length=1, max_length=MOST_AGENTS, description="Who belongs to it."
    )
    channels: dict[str, ChannelKind] = Field(
        default_factory=dict,
        description="A message to a `queue` goes to one who watches it, a `broadcast` to all.",
    )
    start: list[str] = Field(
        min_length=1, description="The agents that begin with the task; the others wait."
    )
    task: str = Field(default="", description="What to do, unless the command line says it.")
    limits: SharedLimitFields = Field(
        default=SharedLimitFields(), description="They hold for all agents together."
    )
    most_messages: int = Field(
        default=200, ge=1, le=10_000, description="Messages that are sent in all."
    )
    most_agents: int = Field(
        default=10,
        ge=1,
        le=MOST_AGENTS,
        description="Up to so many agents may be added, those above included.",
    )

    @field_validator("start", mode="before")
    @classmethod
    def _one_name(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


_SECTIONS: Mapping[str, type[BaseModel]] = {
    "": GroupFields,
    "agents": MemberFields,
    "limits": SharedLimitFields,
}


def load_group(file: ToolFile) -> tuple[Group | None, tuple[ToolProblem, ...]]:
    """Return the group of a file (None if there is an error) and every problem with its line. Never
    raises."""
    try:
        found = documents(file.content)
    except Unreadable as error:
        return None, (ToolProblem(f"{file.shown}:{error.line}", str(error)),)
    if len(found) != 1:
        return None, (ToolProblem(f"{file.shown}:1", "a group is one document with agents"),)
    report = YamlReport(file, found[0])
    group = _group(file, found[0], report)
    return None if report.has_errors else group, report.problems


def _group(file: ToolFile, document: YamlDocument, report: YamlReport) -> Group | None:
    if (fields := validated(GroupFields, document.value, report, _SECTIONS)) is None:
        return None
    _check_names(fields, report)
    members = tuple(_member(one, at, report) for at, one in enumerate(fields.agents))
    return Group(
        fields.name or file.path.stem,
        members,
        fields.channels,
        start=tuple(dict.fromkeys(fields.start)),
        task=fields.task,
        limits=_limits(fields.limits),
        most_messages=fields.most_messages,
        most_agents=max(fields.most_agents, len(members)),
    )


def _check_names(fields: GroupFields, report: YamlReport) -> None:
    names = [one.name for one in fields.agents]
    for at, one in enumerate(fields.agents):
        here = ("agents", at)
        if one.name in names[:at] or one.name in fields.channels or one.name == MAIN:
            what = "the conversation itself" if one.name == MAIN else "another agent, or a channel,"
            report.error((*here, "name"), f"{what} has the name {one.name}")
        for number, channel in enumerate(one.channels):
            if channel not in fields.channels:
                hint = nearest_or_all(channel, fields.channels)
                report.error(
                    (*here, "channels", number), f"unknown channel {one_line(channel, 64)}{hint}"
                )
    for channel in fields.channels:
        if NAME.fullmatch(channel) is None or channel == MAIN:
            report.error(
                ("channels", channel), f"{one_line(channel, 64)!r} cannot be the name of a channel"
            )
    for number, name in enumerate(fields.start):
        if name not in names:
            report.error(
                ("start", number),
                f"unknown agent {one_line(name, 64)}{nearest_or_all(name, names)}",
            )


def _member(fields: MemberFields, at: int, report: YamlReport) -> GroupMember:
    here = ("agents", at)
    if fields.agent is None and not fields.prompt.strip():
        report.error(here, "give agent, the name of one that a file describes, or prompt")
    if fields.tools is not None and _SENDS not in fields.tools:
        report.warn((*here, "tools"), f"{_SENDS} is missing, so it cannot answer anybody")
    return GroupMember(
        AgentDefinition(
            name=fields.name,
            description="",
            prompt=visible(fields.prompt.strip()),
            tools=None if fields.tools is None else tuple(fields.tools),
            model=fields.model,
            thinking=fields.thinking,
            mode=fields.mode,
            limits=_limits(fields.limits),
            where=report.where((*here, "agent") if fields.agent else (*here, "name")),
        ),
        fields.agent,
        tuple(dict.fromkeys(fields.channels)),
        fields.may_add,
        fields.may_connect,
    )


def _limits(fields: BaseModel) -> dict[str, float]:
    """Return the limits by their names in `agent.limits.Limits`."""
    given = fields.model_dump(exclude_none=True)
    return {"max_cost_usd" if name == "budget" else name: limit for name, limit in given.items()}
