"""Where codeagent keeps its files: the platform's folders, and a project's own."""

from pathlib import Path

import platformdirs

PROJECT_FILE = Path(".codeagent/config.toml")
DOCUMENTS = "openapi"
"""The folder of OpenAPI documents, below the configuration's."""
PROJECT_DOCUMENTS = Path(".codeagent/openapi")


def state_dir() -> Path:
    """Return the folder of the sessions; on Linux `$XDG_STATE_HOME/codeagent`."""
    return platformdirs.user_state_path("codeagent", appauthor=False)


def config_dir() -> Path:
    """Return the folder of what the user wrote or saved; on Linux `$XDG_CONFIG_HOME/codeagent`."""
    return platformdirs.user_config_path("codeagent", appauthor=False)


def user_config_file() -> Path:
    """Return the user's own configuration file; on Linux
    `$XDG_CONFIG_HOME/codeagent/config.toml`."""
    return config_dir() / "config.toml"
