"""A running container as the rest of the sandbox sees it."""

from dataclasses import dataclass
from typing import Any

from codeagent.sandbox.pinned import Found


@dataclass(frozen=True)
class Container:
    container_id: str
    stdin: Any
    """The connection that keeps it alive: when it closes, the container is gone."""
    image: str
    image_origin: str
    protected: tuple[Found, ...]
    """Mounted read-only, as they were when it was made."""
    masked: tuple[Found, ...]
    """Files that read as empty inside."""
    warnings: tuple[str, ...]

    @property
    def guarded(self) -> tuple[Found, ...]:
        return self.protected + self.masked

    def let_go(self) -> None:
        self.stdin.close()
