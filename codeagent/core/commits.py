"""Commits: what one would hold, and making it, for the tool `git_commit`."""

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import WorkspaceError


class CommitRefused(WorkspaceError):
    """Nothing was committed or changed; the text says why, and what can be done."""


@dataclass(frozen=True)
class CommitPlan:
    branch: str
    parent: str
    """Its parent, forty hex digits; empty for the first commit of a branch."""
    author: str
    """`Name <address>`, as git will record it."""
    changes: tuple[Change[Node], ...]
    """The last commit and this one, sorted by path, never empty."""
    skipped_hooks: tuple[str, ...]
    """Hooks of the repository that do not run for this commit."""
    unsigned: bool
    """Whether it is left unsigned although the user's settings ask for a signature."""
    base: str
    """A hash of everything the commit is made from: branch, last commit, author, index and
    contents."""
    around: str = ""
    """The work tree that contains the workspace; empty if it is the workspace itself."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Why contents were not read, by path: `changes` has them as empty."""


@dataclass(frozen=True)
class Committed:
    commit: str
    """Forty hex digits."""
    plan: CommitPlan
    notices: tuple[str, ...] = ()
    """What else happened, a sentence each."""


class Committer(Protocol):
    """Commits files of the workspace as they are on disk; anything else staged stays staged. Every
    method blocks."""

    def plan(self, message: str, paths: tuple[str, ...]) -> CommitPlan:
        """Prepare a commit and write nothing. `paths` are files or folders. Raises CommitRefused,
        WorkspaceError."""

    def commit(self, message: str, paths: tuple[str, ...], base: str | None) -> Committed:
        """Carry out a plan. Raises what `plan` does, and ContentChanged if a plan made now has
        another `base`."""
