"""Several changes of files that belong together: shown, bound, judged, landed and undone as one."""

from collections.abc import Sequence

from codeagent.changes.diff import diff_block
from codeagent.changes.hunks import Answered, hunks_of, is_by_hunk
from codeagent.changes.keys import paths_key
from codeagent.core.changes import Change, digest
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DiffBlock, DisplayBlock, HunkAnswer, TextBlock
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import first_few, spelled
from codeagent.core.tool import Failed, Preview

_BETWEEN = "\n\n"
"""Separates files in the binding of a change of several files."""
_MOST_NAMED = 3


@dataclass(frozen=True)
class ChangeSet:
    """Changes that land all or none; each path is touched by at most one of them."""

    changes: tuple[Change[Node], ...]

    @property
    def back(self) -> "ChangeSet":
        """The changes that take these back once they have landed."""
        return ChangeSet(tuple(change.back for change in reversed(self.changes)))

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for change in self.changes for path in change.paths)

    @property
    def binding(self) -> str:
        """The text that an approval is bound to: the state of every file before."""
        return _BETWEEN.join(_binding(change.paths[0], change.base) for change in self.changes)

    @property
    def blocks(self) -> tuple[DiffBlock, ...]:
        """A diff for each file whose text is shown."""
        return tuple(block for change in self.changes for block in diff_blocks(change))

    def policy_key(self, workspace: Workspace) -> ApprovalKey:
        """Return what rules are matched against."""
        return paths_key(workspace, self.paths)

    def preview(self, lines: Sequence[str] = ()) -> Preview:
        """Return what the user is asked about; `lines` say what is done, if not as `listing`."""
        target = named([change.paths[0] for change in self.changes])
        by_hunk = all(map(is_by_hunk, self.changes))
        return Preview(target, self._shown(lines), base=self.binding, by_hunk=by_hunk)

    def _shown(self, lines: Sequence[str]) -> tuple[DisplayBlock, ...]:
        match self.changes:
            case (Change(source=None, after=Node()),) if self.blocks:
                return self.blocks
            case _:
                listed = lines or [listing(change) for change in self.changes]
                return (TextBlock(text="\n".join(listed)), *self.blocks)

    def answered(self, answers: Sequence[HunkAnswer]) -> tuple[Answered, ...]:
        """Apply answers hunk by hunk, in the order of the changes. Raises Failed if they do not
        fit."""
        rest, found = list(answers), list[Answered]()
        for change in self.changes:
            if change.source is not None or change.after is None:
                raise Failed(
                    "a change that moves or removes files cannot be taken by hunk; make the same call again"
                )
            own = len(hunks_of(change)) if change is not self.changes[-1] else len(rest)
            found.append(Answered.of(change, rest[:own]))
            del rest[:own]
        return tuple(found)

    def land(self, workspace: Workspace) -> None:
        """Make all of the changes or none.

        Raises ContentChanged if a file is not in the state that the change of it is based on,
        PartlyChanged if what was made could not be taken back, WorkspaceError.
        """
        workspace.land(self.changes)

    def undo(self, workspace: Workspace) -> None:
        """Take all of the changes back or none. Raises what `land` does."""
        workspace.land(self.back.changes, forced=True)


def listing(change: Change[Node]) -> str:
    """Return `A path`, `M path` or `D path`."""
    path = spelled(change.path)
    if change.source is not None:
        return f"M {path} (moved from {spelled(change.source)})"
    return f"{ {'added': 'A', 'modified': 'M', 'deleted': 'D'}[change.kind] } {path}"


def diff_blocks(change: Change[Node]) -> tuple[DiffBlock, ...]:
    """Return the diff of a text; nothing if it is not text, or is only renamed."""
    renamed = change.source is not None and change.before == change.after
    if change.texts is None or renamed:
        return ()
    return (diff_block(change.path, *change.texts),)


def _binding(path: str, base: str | None) -> str:
    """Return a text that identifies a file and its content, of which `base` is the SHA-256; None if
    the file does not exist."""
    return f"{spelled(path)}\n{base or 'new'}"


def is_bound(base: str | None, path: str, content: bytes) -> bool:
    """Whether the approval `base` was given for this file with this content, alone or among
    others."""
    return _binding(path, digest(content)) in (base or "").split(_BETWEEN)


def named(paths: Sequence[str]) -> str:
    """Return the first few files and the number of others, in one line."""
    return first_few([spelled(path) for path in dict.fromkeys(paths)], _MOST_NAMED)
