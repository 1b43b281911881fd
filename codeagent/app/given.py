"""Completes what a caller gave: a folder to where a conversation happens, and some settings to all
of them."""

import asyncio
from pathlib import Path

from codeagent.config.layers import load_settings
from codeagent.config.paths import user_config_file
from codeagent.config.place import Place
from codeagent.config.sessions import GivenSettings, GivenWorkspace
from codeagent.config.settings import Settings
from codeagent.core.errors import ConfigError
from codeagent.tools.shell.rules import decides


def place_of(workspace: GivenWorkspace) -> Place:
    """Return the folder with the user's environment and keys. Raises ConfigError."""
    if isinstance(workspace, Place):
        return workspace
    folder = Path(workspace).absolute()
    if not folder.is_dir():
        raise ConfigError(f"{str(folder)[:200]!r} is not an existing folder; nothing was run")
    return Place.of_user(folder)


async def settings_of(given: GivenSettings, place: Place) -> Settings:
    """Return all settings; those that were not given come from the environment and the files.
    Raises ConfigError."""
    if isinstance(given, Settings):
        return given
    return await asyncio.to_thread(
        load_settings,
        given,
        environment=place.environment,
        user_file=user_config_file(),
        workspace=place.workspace,
        decides=decides,
    )
