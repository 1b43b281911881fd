"""Finds what commands left in the workspace that a program of the user's would run; compares two
snapshots.

| found | what is done |
| --- | --- |
| a `.git` or `.codeagent` at the root | the sandbox moves it away, always |
| a file that runs outside the sandbox (`paths.watched`) | kept if a rule or the user agrees, otherwise taken back |
| such a file that was deleted | shown, and judged like any edit; like a written one if it held a program back |
| a repository below the root, a watched file too large to keep | kept if the user agrees, otherwise moved away |
| a change of what git runs in a repository that was there before | reported: no snapshot holds what was there |
| what a package manager installs (`paths.installed_in`) | reported |
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from codeagent.changes.diff import review_block
from codeagent.core.changes import Change, digest
from codeagent.core.checkpoints import Checkpoints, Node, Snapshot
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DisplayBlock, FilesBlock
from codeagent.core.paths import (
    GIT_RUNS,
    holds_back,
    host_reason,
    installed_in,
    plain_name,
    watched,
)
from codeagent.core.sanitize import first_few, spelled

MOST_NAMED = 5
_MOST_DIFFS = 20
_OURS = (".codeag", "codeag~")
_REPOSITORY = "is a git repository: a shell or an editor there may run what its configuration names"


@dataclass(frozen=True)
class Leftover:
    """What is to be decided about one path that a command may have changed; the change itself is
    that between two snapshots."""

    path: str
    reason: str
    """Why it matters: a sentence for the user."""
    gone: bool = False
    """Whether it was deleted, so that nothing of it runs any longer."""
    held: bool = True
    """Whether the earlier snapshot holds what was there; otherwise it can only be moved away."""


@dataclass(frozen=True)
class Leftovers:
    """The changes that matter between two snapshots."""

    found: tuple[Leftover, ...] = ()
    remarks: tuple[str, ...] = ()
    """About changes that are only reported."""


async def find_leftovers(
    store: Checkpoints,
    before: Snapshot,
    now: Snapshot,
    agreed: Collection[str],
    written: Mapping[str, str],
) -> Leftovers:
    """Return what changed between two snapshots, except paths `agreed` to and what allowed calls
    wrote.

    `written` is the SHA-256 of what they wrote by path, empty for a removed file. Raises
    CheckpointError.
    """
    found: list[Leftover] = []
    installed: Counter[str] = Counter()
    for change in () if now.id == before.id else await store.changes(before.id, now.id):
        path = change.path
        if (folder := installed_in(path)) is not None:
            installed[folder] += 1
        elif path not in agreed and (reason := _reason(path, before)) is not None:
            ours = path in written and _holds(await store.node(now.id, path), written[path])
            gone = change.change == "deleted" and not _loosens(path, now)
            found += (
                [] if ours else [Leftover(path, f"{path} was deleted" if gone else reason, gone)]
            )
    found = await _with_moves(store, before, now, found)
    remarks = [
        f"{folder}: {count:,} file{'s' * (count != 1)} changed, which may run on your machine"
        for folder, count in installed.items()
    ]
    for path, mark in now.marks.items():
        if before.marks.get(path) == mark or path in agreed:
            continue
        if path in before.marks and not watched(path):
            remarks.append(
                f"what git runs in {_folder(path)} was changed: look at {path} before git is used there"
            )
            continue
        found = [one for one in found if one.path != path]
        found.append(Leftover(path, _reason_of_mark(path), held=False))
    return Leftovers(tuple(found), tuple(remarks))


def _loosens(path: str, now: Snapshot) -> bool:
    """Whether a program may do more now that the file is gone: it held one back, or its repository
    stays."""
    return holds_back(path) or _repository_of(path, now) is not None


async def _with_moves(
    store: Checkpoints, before: Snapshot, now: Snapshot, found: list[Leftover]
) -> list[Leftover]:
    """Judge a file that was moved in both places alike: a no to the new place must not leave it in
    neither."""
    if all(one.gone for one in found) or not any(one.gone for one in found):
        return found
    there = {await store.node(now.id, one.path) for one in found if not one.gone}
    return [
        replace(one, gone=False)
        if one.gone and await store.node(before.id, one.path) in there
        else one
        for one in found
    ]


def _holds(node: Node | None, sha256: str) -> bool:
    """Whether this is a file with this content; an empty `sha256`: whether there is nothing."""
    return not sha256 if node is None else node.kind != "link" and digest(node.data) == sha256


def named(found: Sequence[Leftover]) -> str:
    """Return the first few paths in one line."""
    return first_few([spelled(one.path) for one in found], MOST_NAMED)


async def leftover_blocks(
    store: Checkpoints, before: Snapshot, now: Snapshot, found: Sequence[Leftover]
) -> tuple[DisplayBlock, ...]:
    """Make a diff for each text file, up to a limit; name the others, so that every file is
    shown."""
    blocks: list[DisplayBlock] = []
    listed: list[str] = []
    for one in found:
        block = None
        if one.held and not one.gone and len(blocks) < _MOST_DIFFS:
            then, there = await store.node(before.id, one.path), await store.node(now.id, one.path)
            block = review_block(Change(one.path, then, there))
        if block is None:
            listed.append(spelled(one.path) + " (deleted)" * one.gone)
        else:
            blocks.append(block)
    return (*blocks, *((FilesBlock(paths=tuple(listed)),) if listed else ()))


def _reason(path: str, before: Snapshot) -> str | None:
    """Return why a change to the file matters, as a sentence; None if it does not."""
    if watched(path):
        return host_reason(path)
    if (link := _link_to(path, before)) is not None:
        return f"{path} is what {link} leads to: {host_reason(link)}"
    if (repository := _repository_of(path, before)) is not None:
        return f"{path} decides what git runs in {repository or 'this folder'}"
    return None


def _repository_of(path: str, snapshot: Snapshot) -> str | None:
    """Return the bare repository in which the file decides what git runs; None if it does so in
    none."""
    parts = path.split("/")
    for at, part in enumerate(parts):
        if plain_name(part) in GIT_RUNS and "/".join([*parts[:at], "HEAD"]) in snapshot.marks:
            return "/".join(parts[:at])
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
