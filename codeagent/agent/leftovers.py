"""Finds what commands left in the workspace that a program of the user's would run; compares two snapshots.

| found | what is done |
| --- | --- |
| a `.git` or `.codeagent` at the root | the sandbox moves it away, always |
| a file that runs outside the sandbox (`paths.watched`) | kept if a rule or the user agrees, otherwise taken back |
| a repository below the root, a watched file too large to keep | kept if the user agrees, otherwise moved away |
| a change of what git runs in a repository that was there before | reported: no snapshot holds what was there |
| what a package manager installs (`paths.installed_in`) | reported |
"""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from codeagent.core.checkpoints import Checkpoints, Node, Snapshot
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DisplayBlock, FilesBlock
from codeagent.core.paths import GIT_RUNS, host_reason, installed_in, plain_name, watched
from codeagent.core.sanitize import on_one_line
from codeagent.tools.edit.diff import diff_block
from codeagent.tools.edit.encoding import NotText, read_text
from codeagent.tools.edit.reads import digest

MOST_NAMED = 5
_MOST_DIFFS = 20
_OURS = (".codeag", "codeag~")
_REPOSITORY = "is a git repository: a shell or an editor there may run what its configuration names"


@dataclass(frozen=True)
class Leftover:
    """One path that a command may have changed."""

    path: str
    reason: str
    """Why it matters: a sentence for the user."""
    held: bool = True
    """Whether the earlier snapshot holds what was there; otherwise it can only be moved away."""


@dataclass(frozen=True)
class Leftovers:
    """The changes that matter between two snapshots."""

    found: tuple[Leftover, ...] = ()
    remarks: tuple[str, ...] = ()
    """About changes that are only reported."""


async def find_leftovers(
    store: Checkpoints, before: Snapshot, now: Snapshot, agreed: Collection[str], written: Mapping[str, str]
) -> Leftovers:
    """Return what changed between two snapshots, except paths `agreed` to and what allowed calls wrote.

    `written` is the SHA-256 of what they wrote by path, empty for a removed file. Raises CheckpointError.
    """
    found: list[Leftover] = []
    installed: Counter[str] = Counter()
    for change in () if now.id == before.id else await store.changes(before.id, now.id):
        path = change.path
        if (folder := installed_in(path)) is not None:
            installed[folder] += 1
        elif path not in agreed and (reason := _reason(path, before)) is not None:
            ours = path in written and _holds(await store.node(now.id, path), written[path])
            found += [] if ours else [Leftover(path, reason)]
    remarks = [f"{folder}: {count} files changed, which may run on your machine" for folder, count in installed.items()]
    for path, mark in now.marks.items():
        if before.marks.get(path) == mark or path in agreed:
            continue
        if path in before.marks and not watched(path):
            remarks.append(f"what git runs in {_folder(path)} was changed: look at {path} before git is used there")
            continue
        found = [one for one in found if one.path != path]
        found.append(Leftover(path, _reason_of_mark(path), held=False))
    return Leftovers(tuple(found), tuple(remarks))


def _holds(node: Node | None, sha256: str) -> bool:
    """Whether this is a file with this content; an empty `sha256`: whether there is nothing."""
    return not sha256 if node is None else node.kind != "link" and digest(node.data) == sha256


def named(found: Sequence[Leftover]) -> str:
    """Return the first few paths in one line."""
    more = len(found) - MOST_NAMED
    return ", ".join(on_one_line(one.path) for one in found[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


async def leftover_blocks(
    store: Checkpoints, before: Snapshot, now: Snapshot, found: Sequence[Leftover]
) -> tuple[DisplayBlock, ...]:
    """Make a diff for each text file, up to a limit; name the others, so that every file is shown."""
    blocks: list[DisplayBlock] = []
    listed: list[str] = []
    for one in found:
        texts = None
        if one.held and len(blocks) < _MOST_DIFFS:
            texts = _texts(await store.node(before.id, one.path), await store.node(now.id, one.path))
        if texts is None:
            listed.append(on_one_line(one.path))
        else:
            blocks.append(diff_block(one.path, *texts))
    return (*blocks, *((FilesBlock(paths=tuple(listed)),) if listed else ()))


def _texts(old: Node | None, new: Node | None) -> tuple[str, str] | None:
    """Return both texts; None if one is not text, or a diff would not show the difference."""
    try:
        before, after = (_text(node) for node in (old, new))
    except NotText:
        return None
    return None if before == after else (before, after)


def _text(node: Node | None) -> str:
    if node is None:
        return ""
    return f"-> {on_one_line(os.fsdecode(node.data))}\n" if node.kind == "link" else read_text(node.data).text


def _reason(path: str, before: Snapshot) -> str | None:
    """Return why a change to the file matters, as a sentence; None if it does not."""
    if watched(path):
        return host_reason(path)
    if (link := _link_to(path, before)) is not None:
        return f"{path} is what {link} leads to: {host_reason(link)}"
    parts = path.split("/")
    for at, part in enumerate(parts):
        if plain_name(part) in GIT_RUNS and "/".join([*parts[:at], "HEAD"]) in before.marks:
            return f"{path} decides what git runs in {'/'.join(parts[:at]) or 'this folder'}"
    return None


def _link_to(path: str, before: Snapshot) -> str | None:
    """Return a watched link that led to the file, or to a folder that it is in."""
    parts = path.split("/")
    folders = ("/".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((before.linked[folder] for folder in folders if folder in before.linked), None)


def _reason_of_mark(path: str) -> str:
    if watched(path) and (reason := host_reason(path)) is not None:
        return reason
    if plain_name(path.rpartition("/")[2]).startswith(_OURS):
        return f"{path} may decide what a coding agent started in {_folder(path)} is allowed to do"
    return f"{_folder(path)} {_REPOSITORY}"


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "this folder"
