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
    """Where rules are kept beyond a session; None: nowhere."""

    @cached_property
    def redactor(self) -> Redactor:
        """Knows the environment's secrets, and every kept key that was used."""
        return Redactor(self.environment)
