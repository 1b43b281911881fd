"""The tools and the system prompt that a conversation would have, without beginning one."""

from typing import TYPE_CHECKING

from codeagent.app.sources import open_catalog
from codeagent.app.tools import ToolDependencies, prompt_for
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.core.ports import SandboxKind
from codeagent.core.redact import Redactor
from codeagent.session.outputs import FileOutputs
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.edit.reads import ReadTracker
from codeagent.workspace.files import LocalWorkspace

if TYPE_CHECKING:  # for whoever runs or lists recipes
    from codeagent.core.recipes import RecipeBook


def describe_tools(local: LocalEnvironment, settings: Settings | None = None) -> ToolCatalog:
    """Load the tools that a conversation with a container would have; no source is started. Raises
    CodeagentError."""
    return _looked_at(_dependencies(local, "docker"), settings)


def describe_prompt(local: LocalEnvironment, kind: SandboxKind) -> str:
    """Build the system prompt that a conversation there would have. Raises CodeagentError."""
    dependencies = _dependencies(local, kind)
    return prompt_for(dependencies)(_looked_at(dependencies, None).always)


def read_recipes(local: LocalEnvironment) -> "RecipeBook":
    """Read the recipes that a conversation would have. Raises CodeagentError."""
    return _dependencies(local, "docker").recipes()


def _looked_at(dependencies: ToolDependencies, settings: Settings | None) -> ToolCatalog:
    catalog, _ = open_catalog(settings or Settings(), dependencies)
    return catalog


def _dependencies(local: LocalEnvironment, kind: SandboxKind) -> ToolDependencies:
    workspace = LocalWorkspace(local.workspace)
    outputs = FileOutputs(local.state_dir / "none", Redactor({}))
    return ToolDependencies(local, kind, workspace, outputs, ReadTracker(workspace))
