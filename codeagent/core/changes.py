"""One file before and after: what every writer makes, and what is shown, judged, landed, undone and
committed."""

import hashlib
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import Generic, Literal, Protocol, TypeVar

from codeagent.core.checkpoints import ChangeKind, Node
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import WorkspaceError
from codeagent.core.text_files import NotText, TextFile, read_text

Content = Literal["text", "binary", "link", "absent"]
SideT = TypeVar("SideT")
_EMPTY = TextFile(b"", "", "utf-8", b"")


@dataclass(frozen=True)
class Change(Generic[SideT]):
    """What is at one path before and after: a `Node`, or what a store knows of one; None if
    nothing is."""

    path: str
    """Where it is afterwards, relative to the root; links on the way are resolved."""
    before: SideT | None
    """The state that the change is based on: if something else is there, it does not land."""
    after: SideT | None
    source: str | None = None
    """The earlier path of a renamed file, where `before` was; None if it keeps its path."""
    decoded: TextFile | None = None
    """The text before, whose encoding is that of the text after too; None: found from the bytes."""

    @property
    def kind(self) -> ChangeKind:
        if self.before is None:
            return "added"
        return "deleted" if self.after is None else "modified"

    @property
    def back(self) -> "Change[SideT]":
        """The change that takes this one back."""
        if self.source is None:
            return Change(self.path, self.after, self.before)
        return Change(self.source, self.after, self.before, self.path)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that it touches."""
        return (self.path,) if self.source is None else (self.source, self.path)

    @property
    def note(self: "Change[Node]") -> str:
        """What its text does not show, such as `link` or `now executable`; empty if nothing."""
        kinds = [node.kind for node in (self.before, self.after) if node is not None]
        if "link" in kinds:
            return "link"
        runs = self.after is not None and self.after.kind == "executable"
        if self.before is None or self.after is None:
            return "executable" if runs else ""
        if len(set(kinds)) == 1:
            return ""
        return "now executable" if runs else "no longer executable"

    @property
    def contents(self: "Change[Node]") -> tuple[Content, Content]:
        """What each side is made of."""
        texts = self.texts
        return _content(self.before, texts), _content(self.after, texts)

    @property
    def base(self: "Change[Node]") -> str | None:
        """The SHA-256 of the state that it is based on; None if there is no file yet."""
        return None if self.before is None else digest(self.before.data)

    @cached_property
    def texts(self: "Change[Node]") -> tuple[str, str] | None:
        """The text of each side, empty if nothing is there; None if one of them is not text."""
        if any(side is not None and side.kind == "link" for side in (self.before, self.after)):
            return None
        try:
            return self.file.text, "" if self.after is None else self._after()
        except NotText:
            return None

    @cached_property
    def file(self: "Change[Node]") -> TextFile:
        """The text before, empty if there is none. Raises NotText."""
        if self.decoded is not None:
            return self.decoded
        return _EMPTY if self.before is None else read_text(self.before.data)

    def _after(self: "Change[Node]") -> str:
        """Return the text after, in the encoding of the text before if it has one. Raises
        NotText."""
        assert self.after is not None
        file, data = self.decoded, self.after.data
        if file is None or not data.startswith(file.bom):
            return read_text(data).text
        return file.decode(data)


def digest(data: bytes) -> str:
    """Return the SHA-256 of a content, as the log and approvals name it."""
    return hashlib.sha256(data).hexdigest()


def content_name(node: Node | None) -> str:
    """Return what records call this content: its SHA-256, empty for no file."""
    if node is None:
        return ""
    return ("link:" if node.kind == "link" else "") + digest(node.data)


def _content(side: Node | None, texts: tuple[str, str] | None) -> Content:
    if side is None:
        return "absent"
    if side.kind == "link":
        return "link"
    if texts is not None:
        return "text"
    try:
        read_text(side.data)
    except NotText:
        return "binary"
    return "text"


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
    work_tree: str = ""
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
