"""The tools and the system prompt that a conversation would have, without beginning one."""

from typing import TYPE_CHECKING

from codeagent.app.sources import open_catalog, open_services
from codeagent.app.tools import ToolDependencies, prompt_for
from codeagent.config.extensions import all_extensions
from codeagent.config.layers import extensions_of
from codeagent.config.local_environment import LocalEnvironment, user_config_file
from codeagent.config.settings import ExtensionSettings, Settings
from codeagent.core.errors import ConfigError
from codeagent.core.extension import folder_of, resolved
from codeagent.core.redact import Redactor
from codeagent.core.sandbox import SandboxKind
from codeagent.session.fold import History
from codeagent.session.outputs import FileOutputs
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.edit.reads import ReadTracker
from codeagent.workspace.files import LocalWorkspace

if TYPE_CHECKING:  # for whoever runs or lists recipes
    from codeagent.core.recipes import Recipes


def describe_tools(local: LocalEnvironment, settings: Settings | None = None) -> ToolCatalog:
    """Load the tools that a conversation with a container would have; no source is started. Raises
    CodeagentError."""
    return open_catalog(_dependencies(local, "docker", settings or _settings_of_user()))[0]


def describe_prompt(local: LocalEnvironment, kind: SandboxKind) -> str:
    """Build the system prompt that a conversation there would have. Raises CodeagentError."""
    dependencies = _dependencies(local, kind, _settings_of_user())
    return prompt_for(dependencies)(open_catalog(dependencies)[0].always)


def read_recipes(local: LocalEnvironment, settings: Settings | None = None) -> "Recipes":
    """Read the recipes that a conversation would have. Blocks on small files. Raises
    CodeagentError, also if the extension that reads them is switched off."""
    from codeagent.core.recipes import NoRecipes  # for whoever runs or lists them

    extensions = all_extensions().without((settings or _settings_of_user()).extensions.off)
    for each in extensions.on:
        if each.in_folders.prompts:
            shipped = [
                folder_of(one.in_folders.shipped) for one in extensions.on if one.in_folders.shipped
            ]
            recipes: Recipes = resolved(each.in_folders.prompts)(local, shipped)
            return recipes
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


def _dependencies(
    local: LocalEnvironment, kind: SandboxKind, settings: Settings
) -> ToolDependencies:
    workspace = LocalWorkspace(local.workspace)
    return ToolDependencies(
        settings,
        local,
        kind,
        workspace,
        outputs=FileOutputs(local.state_dir / "none", Redactor({})),
        reads=ReadTracker(workspace),
        services=open_services(settings, local, History(), workspace.root),
    )
