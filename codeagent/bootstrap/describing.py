"""What a conversation here would be made of, only to be looked at."""

import platform
from collections.abc import Sequence
from typing import Any

from codeagent.agent.approvals import UserQuestions
from codeagent.agent.jobs.store import Jobs
from codeagent.agent.prompt import MakePrompt, PromptEnvironment, system_prompt
from codeagent.bootstrap.place import Place
from codeagent.bootstrap.sandboxes import SandboxKind
from codeagent.bootstrap.tools import ToolMakings
from codeagent.core.redact import Redactor
from codeagent.core.sanitize import visible
from codeagent.core.tool import Tool
from codeagent.session.outputs import FileOutputs
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.edit.reads import ReadTracker
from codeagent.workspace.files import LocalWorkspace


def describe_tools(place: Place, kind: SandboxKind = "docker") -> ToolCatalog:
    """The tools of a conversation with a sandbox, those of files among them. Raises CodeagentError."""
    return _looked_at(_makings(place, kind))


def describe_prompt(place: Place, kind: SandboxKind) -> str:
    """The system prompt of a conversation there. Raises CodeagentError."""
    makings = _makings(place, kind)
    return prompt_for(makings)(tuple(_looked_at(makings)))


def prompt_for(makings: ToolMakings) -> MakePrompt:
    """Of the tools that are in use, with everything else as it is here. Blocks on small files."""
    where = PromptEnvironment(
        visible(str(makings.workspace.root)), f"{platform.system()} {platform.machine()}", makings.kind
    )
    instructions, skills = makings.instructions.text, makings.skills

    def prompt(tools: Sequence[Tool[Any]]) -> str:
        return system_prompt(tools, instructions, where, skills.listed)

    return prompt


def _looked_at(makings: ToolMakings) -> ToolCatalog:
    catalog = makings.catalog()
    catalog.look()
    return catalog


def _makings(place: Place, kind: SandboxKind) -> ToolMakings:
    workspace = LocalWorkspace(place.workspace)
    outputs = FileOutputs(place.state_dir / "none", Redactor({}))
    return ToolMakings(place, kind, workspace, outputs, ReadTracker(workspace), UserQuestions(), Jobs(), None)
