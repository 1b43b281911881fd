"""The tools and the system prompt that a conversation would have, without beginning one."""

from dataclasses import replace
from typing import TYPE_CHECKING

from codeagent.agent.parts import AgentServices
from codeagent.app.sources import extensions_on, open_catalog, open_parts
from codeagent.app.tools import ToolDependencies, prompt_for
from codeagent.config.extensions import all_extensions
from codeagent.config.layers import extensions_of
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.paths import user_config_file
from codeagent.config.settings import ExtensionSettings, Settings
from codeagent.core.errors import ConfigError
from codeagent.core.extension import resolved
from codeagent.core.ports import SandboxKind
from codeagent.core.redact import Redactor
from codeagent.session.fold import History
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


def read_recipes(local: LocalEnvironment, settings: Settings | None = None) -> "RecipeBook":
    """Read the recipes that a conversation would have. Blocks on small files. Raises
    CodeagentError, also if the extension that reads them is switched off."""
    from codeagent.core.recipes import NoRecipes  # for whoever runs or lists them

    extensions = all_extensions().without((settings or _settings_of_user()).extensions.off)
    for each in extensions.on:
        if each.in_folders.prompts:
            book: RecipeBook = resolved(each.in_folders.prompts)(local)
            return book
    for each in extensions.off:
        if each.in_folders.prompts:
            raise ConfigError(
                f"recipes cannot be read: the extension {each.name} is switched off; nothing was run"
            )
    return NoRecipes()


def _settings_of_user() -> Settings:
    """Return settings without the extensions that the user switched off. Raises ConfigError."""
    off = tuple(each.name for each in extensions_of(user_config_file()).off)
    return Settings(extensions=ExtensionSettings(off=off))


def _looked_at(dependencies: ToolDependencies, settings: Settings | None) -> ToolCatalog:
    settings = settings or _settings_of_user()
    services = AgentServices()
    parts = open_parts(
        settings,
        History(),
        dependencies.local,
        root=dependencies.workspace.root,
        questions=services.questions,
    )
    services = replace(services, parts=parts)
    dependencies = replace(dependencies, services=services, extensions=extensions_on(settings))
    catalog, _ = open_catalog(settings, dependencies)
    return catalog


def _dependencies(local: LocalEnvironment, kind: SandboxKind) -> ToolDependencies:
    workspace = LocalWorkspace(local.workspace)
    outputs = FileOutputs(local.state_dir / "none", Redactor({}))
    return ToolDependencies(local, kind, workspace, outputs, ReadTracker(workspace))
