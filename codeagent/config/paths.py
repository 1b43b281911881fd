"""Where codeagent keeps its files: the platform's folders, and a project's own."""

from pathlib import Path

import platformdirs

PROJECT_FILE = Path(".codeagent/config.toml")


def state_dir() -> Path:
    """Sessions; on Linux `$XDG_STATE_HOME/codeagent`."""
    return platformdirs.user_state_path("codeagent", appauthor=False)


def config_dir() -> Path:
    """What the user wrote or had us keep; on Linux `$XDG_CONFIG_HOME/codeagent`."""
    return platformdirs.user_config_path("codeagent", appauthor=False)


def user_config_file() -> Path:
    """On Linux `$XDG_CONFIG_HOME/codeagent/config.toml`."""
    return config_dir() / "config.toml"
