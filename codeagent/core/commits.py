"""What a commit would hold, and making it: what the `git_commit` tool asks of the user's repository."""

from typing import Literal, Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import WorkspaceError


class CommitRefused(WorkspaceError):
    """Nothing was committed and nothing was changed; the text says why and what can be done."""


@dataclass(frozen=True)
class CommitChange:
    """One file of a commit."""

    path: str
    kind: Literal["new", "changed", "deleted"]
    before: bytes | None
    """As it is stored in the last commit; None if it is new, or not read (see `left_out`)."""
    after: bytes | None
    """As it will be stored; None if it is deleted, or not read."""
    note: str = ""
    """What the contents do not show: `executable`, `link`, …"""
    left_out: str = ""
    """Why the contents were not read."""


@dataclass(frozen=True)
class CommitPlan:
    branch: str
    parent: str
    """The commit it follows, forty hex digits; empty for the first of a branch."""
    author: str
    """`Name <address>`, as git will have it."""
    changes: tuple[CommitChange, ...]
    """In order of their paths, never empty."""
    skipped_hooks: tuple[str, ...]
    """Hooks of the repository that do not run for this commit."""
    unsigned: bool
    """It is not signed, although the user's settings ask for it."""
    base: str
    """Changes with anything the commit is made from: the branch, the last commit, author, index, contents."""
    around: str = ""
    """The work tree that the workspace is a folder of; empty if it is the workspace itself."""


@dataclass(frozen=True)
class Committed:
    commit: str
    """Forty hex digits."""
    plan: CommitPlan
    notices: tuple[str, ...] = ()
    """What happened around it."""


class Committer(Protocol):
    """Commits files of the workspace as they are on disk; what else is staged stays staged. Every method blocks."""

    def plan(self, message: str, paths: tuple[str, ...]) -> CommitPlan:
        """Nothing is written. `paths` are files or folders of the workspace. Raises CommitRefused, WorkspaceError."""

    def commit(self, message: str, paths: tuple[str, ...], base: str | None) -> Committed:
        """Raises ContentChanged if a plan made now has another `base`, besides what `plan` raises."""
