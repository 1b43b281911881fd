"""What a conversation is opened with and chosen from, in plain values that cost nothing before the first frame."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from zlib import crc32

from codeagent.core.budget import Effort


@dataclass(frozen=True)
class LaunchOptions:
    """What the command line asked for; None leaves it to the settings."""

    model: str | None = None
    api_base: str | None = None
    fallback_model: str | None = None
    thinking: Effort | None = None
    mode: str | None = None
    sandbox: str | None = None
    theme: str | None = None
    resume: str | None = None
    """A session's id, or the beginning of one."""
    proceed: bool = False
    """The user agreed to a folder that is not a project."""
    read_git: bool | None = None
    """What the user said about a git directory outside the workspace; None where that was not asked."""
    prompt: str = ""
    """Text that waits in the composer at the start."""
    step: bool = False
    """Pause before every batch from the beginning."""


@dataclass(frozen=True)
class SessionRow:
    """One line of the session picker."""

    id: str
    modified: float
    """Seconds since the epoch."""
    prompt: str
    model: str
    in_use: bool


@dataclass(frozen=True)
class ModelRow:
    """One line of the model picker."""

    name: str
    """What `--model` takes."""
    about: str
    """Where it runs, what is missing."""
    ready: bool
    """Its key is there, or it needs none."""
    api_base: str | None = None


@dataclass(frozen=True)
class Missing:
    """Why no conversation can begin yet, and what would help."""

    kind: Literal["model", "key", "place", "git", "session", "error"]
    """git: whether commands may read a git directory outside the workspace; session: the one to continue cannot be
    opened."""
    text: str
    """One line: what is missing."""
    variable: str = ""
    """The environment variable of the key that is missing."""
    servers: tuple[ModelRow, ...] = ()
    """Local servers that answered on loopback."""


@dataclass(frozen=True)
class AppFolders:
    """Where the screen keeps and finds its files."""

    state: Path
    """Drafts, prompt history, crash reports."""
    config: Path
    """`themes/*.yaml` and `keys.yaml` of the user's own."""
    workspace: Path

    @property
    def drafts(self) -> Path:
        """The first draft of the folder worked in; those of further windows lie beside it."""
        return self.state / "drafts" / f"{self.workspace.name[:40]}-{crc32(os.fsencode(self.workspace)):08x}"

    @property
    def prompts(self) -> Path:
        return self.state / "prompts.jsonl"
