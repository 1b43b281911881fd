"""The tools of a conversation, and the prompt that goes with them."""

import platform
from typing import Any

from codeagent.agent.context import Environment, system_prompt
from codeagent.agent.questions import Questions
from codeagent.bootstrap.place import Place
from codeagent.bootstrap.sandboxes import SandboxKind
from codeagent.core.ports import Asker, OutputStore, Workspace
from codeagent.core.redact import Redactor
from codeagent.core.tool import Tool
from codeagent.session.history import History
from codeagent.session.outputs import FileOutputs
from codeagent.tools.builtin.bash import Bash
from codeagent.tools.builtin.edit import Edit
from codeagent.tools.builtin.list import List
from codeagent.tools.builtin.read import Read
from codeagent.tools.builtin.search import Search
from codeagent.tools.builtin.write import Write
from codeagent.tools.extra.ask_user import AskUser
from codeagent.tools.extra.git_commit import GitCommit
from codeagent.tools.extra.output_read import OutputRead
from codeagent.tools.registry import ToolRegistry
from codeagent.tools.seen import SeenFiles
from codeagent.workspace.commits import GitCommitter
from codeagent.workspace.files import LocalWorkspace
from codeagent.workspace.instructions import read_instructions

_ON_HOST = "without a sandbox this runs directly on your machine"


def commit_tool(workspace: Workspace, place: Place, *, hooks: bool) -> GitCommit:
    return GitCommit(workspace, GitCommitter(workspace, place.environment, hooks=hooks), hooks=hooks)


def tools_for(
    kind: SandboxKind | None,
    workspace: Workspace,
    outputs: OutputStore,
    seen: SeenFiles,
    asker: Asker,
    commit: GitCommit,
) -> ToolRegistry:
    """The tools a model gets; bash only where there is something to run it in, `commit` only where bash cannot."""
    tools: list[Tool[Any]] = [
        Read(workspace, seen),
        Write(workspace, seen),
        Edit(workspace, seen),
        List(workspace),
        Search(workspace),
        OutputRead(outputs),
        AskUser(asker),
    ]
    match kind:
        case "docker":
            tools = [Bash(outputs, seen), *tools, commit]
        case "host":
            tools = [Bash(outputs, seen, always_ask=_ON_HOST), *tools]
        case None:
            tools = [*tools, commit]
    return ToolRegistry(tools)


def describe_tools(place: Place) -> ToolRegistry:
    """The tools of a conversation with a sandbox, only to be looked at. Raises CodeagentError."""
    return _described(place, "docker")[0]


def describe_prompt(place: Place, kind: SandboxKind) -> str:
    """The system prompt of a conversation there. Raises CodeagentError."""
    tools, workspace = _described(place, kind)
    return assemble_prompt(tools, workspace, kind)


def _described(place: Place, kind: SandboxKind) -> tuple[ToolRegistry, Workspace]:
    workspace = LocalWorkspace(place.workspace)
    outputs = FileOutputs(place.state_dir / "none", Redactor({}))
    commit = commit_tool(workspace, place, hooks=False)
    return tools_for(kind, workspace, outputs, SeenFiles(workspace), Questions(), commit), workspace


def assemble_prompt(tools: ToolRegistry, workspace: Workspace, kind: SandboxKind | None) -> str:
    where = Environment(str(workspace.root), f"{platform.system()} {platform.machine()}", kind)
    return system_prompt(tuple(tools), read_instructions(workspace), where)


def seen_files(workspace: Workspace, history: History) -> SeenFiles:
    """What the model has seen of the files in the session so far."""
    seen = SeenFiles(workspace)
    for item in history.details:
        seen.restore(item.details)
    return seen
