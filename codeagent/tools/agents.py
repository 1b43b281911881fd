"""Reads agents from Markdown files: the front matter that other programs use, and codeagent's own keys."""

import re
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from codeagent.core.agents import AgentDefinition
from codeagent.core.allow import checked_names
from codeagent.core.budget import Effort
from codeagent.core.errors import ConfigError
from codeagent.core.policy import Mode, NetworkLevel
from codeagent.core.sanitize import one_line, visible
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.folders import Loaded, ToolFile
from codeagent.tools.user.yaml_text import Unreadable, YamlDocument, YamlReport, front_matter

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
}
"""Another program's names for tools, and our names for them."""
_MODELS_ELSEWHERE = frozenset({"inherit", "sonnet", "opus", "haiku"})
"""Another program's names for models; ignored, as the user has already chosen a model here."""
Positive = Annotated[int, Field(gt=0, strict=True)]
Amount = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]


class _Limits(BaseModel):
    model_config = ConfigDict(extra="forbid")

    max_turns: Positive | None = None
    max_calls: Positive | None = None
    max_tokens: Positive | None = None
    max_seconds: Amount | None = None
    timeout_per_call: Amount | None = None
    budget: Amount | None = None
    """US dollars."""


class _Fields(BaseModel):
    """The front matter; other keys belong to other programs."""

    model_config = ConfigDict(extra="ignore")

    name: str = ""
    description: str = ""
    tools: str | list[str] | None = None
    model: str | None = None
    thinking: Effort | None = None
    mode: Mode | None = None
    network: NetworkLevel | None = None
    limits: _Limits = _Limits()
    parallel: bool = False
    worktree: bool = False
    isolation: str = ""
    """Another program's word for `worktree`."""


class AgentLoader:
    """Loads `.md` files (a ToolLoader of agents)."""

    suffixes = (".md",)

    def load(self, file: ToolFile) -> Loaded:
        try:
            head, body = front_matter(file)
            if head is None:
                raise Unreadable(1, "it must begin with a line of ---, then name: and description:, then --- again")
            if not isinstance(head.value, dict):
                raise Unreadable(2, "the front matter must be lines of the form key: value")
        except Unreadable as error:
            return Loaded(problems=(ToolProblem(f"{file.shown}:{error.line}", str(error)),))
        report = YamlReport(file, head)
        agent = _agent(file, head, body, report)
        return Loaded(problems=report.problems, agents=() if agent is None or report.has_errors else (agent,))


def _agent(file: ToolFile, head: YamlDocument, body: str, report: YamlReport) -> AgentDefinition | None:
    try:
        fields = _Fields.model_validate(head.value)
    except ValidationError as error:
        for details in error.errors(include_url=False, include_context=False):
            report.error(tuple(details["loc"])[:2], _in_words(details["msg"], details["loc"]))
        return None
    name = fields.name or file.path.stem
    if _NAME.fullmatch(name) is None:
        report.error(("name",), "use 1 to 64 letters, digits, _ or -, beginning with a letter or digit")
    if not fields.description.strip():
        report.error((), "description is missing; the model chooses by it")
    model = fields.model
    if model in _MODELS_ELSEWHERE:
        if model != "inherit":
            report.warn(("model",), f"{model} is a model of another program: the agent has the model of its parent")
        model = None
    if fields.isolation not in ("", "worktree"):
        report.warn(
            ("isolation",),
            f"{one_line(fields.isolation, 40)} is not supported, only worktree: the agent works in the workspace",
        )
    limits = fields.limits.model_dump(exclude_none=True)
    if "budget" in limits:
        limits["max_cost_usd"] = limits.pop("budget")
    return AgentDefinition(
        name=name,
        description=one_line(fields.description, _LONGEST_DESCRIPTION),
        prompt=visible(body.strip()),
        tools=_tools(fields.tools, report),
        model=model,
        thinking=fields.thinking,
        mode=fields.mode,
        network=fields.network,
        limits=limits,
        parallel=fields.parallel,
        worktree=fields.worktree or fields.isolation == "worktree",
        where=report.where(()),
    )


def _tools(given: str | list[str] | None, report: YamlReport) -> tuple[str, ...] | None:
    """Return the names and patterns of a list, or of a text with commas, as the other program writes it."""
    if given is None:
        return None
    names = [name.strip() for name in given.split(",")] if isinstance(given, str) else given
    known = [here for name in names if name for here in _KNOWN_ELSEWHERE.get(name, (name,))]
    try:
        return checked_names(known)
    except ConfigError as error:
        report.error(("tools",), str(error))
        return None


def _in_words(message: str, where: tuple[Any, ...]) -> str:
    choices: dict[str, Any] = {"mode": Mode, "network": NetworkLevel, "thinking": Effort}
    if where and where[0] in choices:
        return f"use one of {', '.join(get_args(choices[str(where[0])]))}"
    return message.lower()
