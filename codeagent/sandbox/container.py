"""A running container as the rest of the sandbox sees it."""

from dataclasses import dataclass
from typing import Any

from codeagent.sandbox.masks import Secrets
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
    secrets: Secrets
    """Files that read as empty inside, as they were when it was made."""
    mounts: tuple[tuple[str, int], ...]
    """What is mounted around the workspace: paths and inodes."""
    warnings: tuple[str, ...]

    @property
    def guarded(self) -> tuple[tuple[str, int], ...]:
        """What must be the same inside: names or paths, and inodes."""
        return (*((found.name, found.inode) for found in self.protected), *self.mounts)

    def let_go(self) -> None:
        self.stdin.close()
