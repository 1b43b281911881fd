"""Where a conversation happens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from codeagent.core.redact import Redactor


@dataclass(frozen=True)
class Place:
    """Where a conversation happens."""

    workspace: Path
    state_dir: Path
    environment: Mapping[str, str]
    find_key: Callable[[str], str | None] = field(default=lambda variable: None)
    """The key kept for a variable that the environment lacks; may block. Raises ConfigError."""
    config_dir: Path | None = None
    """Where rules and trust are kept beyond a session, and where the user's own tools, skills and hooks lie."""
    trust_project: bool = False
    """The project's tool files are loaded as they are now, for this conversation."""

    @cached_property
    def own_folder(self) -> Path | None:
        """The `config_dir`, unless the agent could write to it."""
        folder = self.config_dir
        if folder is None or folder.resolve().is_relative_to(self.workspace.resolve()):
            return None
        return folder

    @cached_property
    def redactor(self) -> Redactor:
        """Knows the environment's secrets, and every kept key that was used."""
        return Redactor(self.environment)
