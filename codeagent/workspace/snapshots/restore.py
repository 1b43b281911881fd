"""Restores a snapshot: what has to change, whether it may, how it is done, undone or finished after
a crash."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import assert_never

from codeagent.changes.landing import HalfLanded, NotLanded, land
from codeagent.core.changes import Change
from codeagent.core.checkpoints import FileChange, Node
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CheckpointError, CodeagentError
from codeagent.core.sanitize import first_few
from codeagent.disk.opens import create_file
from codeagent.workspace.ignore import folders_of
from codeagent.workspace.snapshots.coverage import Coverage, decode
from codeagent.workspace.snapshots.index import FileState, state_of
from codeagent.workspace.snapshots.nodes import FileWriter, Placing
from codeagent.workspace.snapshots.objects import ObjectReader
from codeagent.workspace.snapshots.store import HalfRestored

_MOST_NAMED = 5
_GROUP = 32_768
"""How many files are written before they are flushed together."""
_GROUP_SIZE = 128 << 20
"""Bytes of such files: so much room on the disk a restore needs beside what it replaces."""


StoredChange = Change[FileState]
"""A change of one file, whose contents are in the store."""


def listed(changes: Sequence[StoredChange]) -> Iterator[FileChange]:
    """Yield what happened to each file, without its content."""
    for change in changes:
        yield FileChange(change.path, change.kind)


def node_of(reader: ObjectReader, state: FileState | None) -> Node | None:
    """Return the file or link with its content. Raises CheckpointError."""
    return None if state is None else Node(state.kind, reader.data(state.blob))


def write_new(path: Path, node: Node) -> None:
    """Write a file or link that does not exist yet, and the folders above it; not flushed. Raises
    OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if node.kind == "link":
        path.symlink_to(os.fsdecode(node.data))
        return
    with os.fdopen(create_file(path, 0o777 if node.kind == "executable" else 0o666), "wb") as file:
        file.write(node.data)


def coverage_of(reader: ObjectReader, snapshot: str) -> Coverage:
    """Return what the snapshot covers. Raises CheckpointError."""
    files = reader.files(snapshot)

    def rules(path: str) -> str:
        state = state_of(reader.leaf(files, os.fsencode(path)))
        if state is None or state.kind == "link":
            return ""
        return reader.data(state.blob).decode("utf-8-sig", "surrogateescape")

    return Coverage(decode(reader.about(snapshot)), rules)


def differences(reader: ObjectReader, before: str, after: str) -> list[StoredChange]:
    """List what is known to differ; what one of them did not cover is left out. Raises
    CheckpointError."""
    then, now = coverage_of(reader, before), coverage_of(reader, after)
    steps = []
    for raw, was, is_now in reader.changes(reader.files(before), reader.files(after)):
        step = StoredChange(os.fsdecode(raw), state_of(was), state_of(is_now))
        if step.before is None and then.hides(step.path):
            continue
        if step.after is None and now.leaves_out(step.path):
            continue
        steps.append(step)
    return sorted(steps, key=lambda step: step.path)


@dataclass(frozen=True)
class Wanted:
    """What is to be restored."""

    target: str
    """The snapshot to go back to."""
    present: str
    paths: frozenset[str] | None = None
    """Only these files, and what is below these folders; None: all."""
    instead: Mapping[str, FileState | None] = field(default_factory=dict)
    """What these files become, in place of what `target` has."""

    def step(self, path: str, was: FileState | None, then: FileState | None) -> StoredChange | None:
        """Return the step for a file that differs; None if it is to stay."""
        if self.paths is not None and self.paths.isdisjoint(
            (path, *(folder[:-1] for folder in folders_of(path)))
        ):
            return None
        return StoredChange(path, was, self.instead.get(path, then))


def plan(reader: ObjectReader, landing: FileWriter, wanted: Wanted) -> tuple[StoredChange, ...]:
    """Return what a restore changes. Raises CheckpointError if that would lose something."""
    with landing.steady():
        return _planned(reader, landing, wanted)


def _planned(reader: ObjectReader, landing: FileWriter, wanted: Wanted) -> tuple[StoredChange, ...]:
    then, now = coverage_of(reader, wanted.target), coverage_of(reader, wanted.present)
    steps = []
    conflicts = []
    for raw, is_now, was in reader.changes(
        reader.files(wanted.present), reader.files(wanted.target)
    ):
        step = wanted.step(os.fsdecode(raw), state_of(is_now), state_of(was))
        if step is None:
            continue
        if step.after is None and then.hides(step.path):
            continue
        found = landing.state(step.path)
        if found == step.after:
            continue
        if found == step.before:
            steps.append(step)
        elif step.before is not None or not now.hides(step.path):
            conflicts.append(step.path)
    if conflicts:
        raise CheckpointError(
            f"{first_few(conflicts, _MOST_NAMED)} changed since the last snapshot; nothing was changed: "
            "look at it, then try again"
        )
    _check_room(landing, steps)
    return tuple(sorted(steps, key=lambda step: step.path))


class StoredWriter:
    """Makes changes whose contents are in the store."""

    def __init__(self, reader: ObjectReader, files: FileWriter) -> None:
        self._reader = reader
        self._files = files

    def apply(self, changes: Sequence[StoredChange]) -> None:
        """Make the changes, removals first, so that a folder can become a file and the other way
        round."""
        files = self._files
        files.remove(
            [
                (each.path, each.before)
                for each in changes
                if each.after is None and each.before is not None
            ]
        )
        group, size = list[Placing](), 0
        placed = [
            (each.path, each.after, each.before) for each in changes if each.after is not None
        ]
        contents = self._reader.each([after.blob for _, after, _ in placed])
        for (path, after, before), data in zip(placed, contents, strict=True):
            group.append((path, Node(after.kind, data), before))
            size += len(data)
            if len(group) == _GROUP or size >= _GROUP_SIZE:
                files.put(group)
                group, size = [], 0
        files.put(group)
        files.settle()

    def take_back(self, changes: Sequence[StoredChange]) -> None:
        self.apply(changes)

    def done(self, changes: Sequence[StoredChange]) -> list[StoredChange]:
        return [change for change in changes if self._is_done(change)]

    def _is_done(self, change: StoredChange) -> bool:
        try:
            return self._files.state(change.path) == change.after
        except OSError:
            return False


def perform(reader: ObjectReader, landing: FileWriter, steps: Sequence[StoredChange]) -> None:
    """Do all steps or none. Raises CheckpointError, and HalfRestored if even undoing them fails."""
    try:
        land(StoredWriter(reader, landing), steps)
    except NotLanded as error:
        raise CheckpointError(
            f"going back failed: {_reason(error.reason)}; nothing was changed: fix that, then try again"
        ) from None
    except HalfLanded as error:
        raise HalfRestored(
            f"going back stopped halfway: {_reason(error.reason)}; {len(error.left)} of {len(steps)} files are changed "
            f"and could not be put back ({_reason(error.stuck)}): start codeagent again to finish it"
        ) from None


def resume(reader: ObjectReader, landing: FileWriter, steps: Sequence[StoredChange]) -> str:
    """Finish the restore that a crash interrupted, or undo it if that fails; tell the user in one
    line.

    Raises CheckpointError if neither works.
    """
    to_do, done, kept = [], [], []
    for step in steps:
        landing.clear(step.path)
        found = landing.state(step.path)
        if found == step.after:
            done.append(step)
        elif found == step.before:
            to_do.append(step)
        else:
            kept.append(step.path)
    try:
        perform(reader, landing, to_do)
    except CheckpointError as error:
        reason = _reason(error)
    else:
        return _recovered("finished", "then", len(steps), kept)
    try:
        perform(reader, landing, [step.back for step in done])
    except CheckpointError:
        raise CheckpointError(
            f"going back, which a crash had interrupted, can neither be finished nor undone ({reason}); "
            "the files stay as the crash left them: fix that, then start codeagent again"
        ) from None
    return _recovered("undone", "before it", len(steps), kept)


def _recovered(how: str, when: str, steps: int, kept: Sequence[str]) -> str:
    files = steps - len(kept)
    were = "1 file is as it was" if files == 1 else f"{files} files are as they were"
    rest = (
        f"; {first_few(kept, _MOST_NAMED)} changed since and {'was' if len(kept) == 1 else 'were'} kept"
        if kept
        else ""
    )
    return f"going back, which a crash had interrupted, was {how}: {were} {when}{rest}"


def _check_room(landing: FileWriter, steps: Sequence[StoredChange]) -> None:
    """Check that no file is in the place of a new file's folder, and no folder with other files in
    its own place."""
    removed = {step.path for step in steps if step.after is None}
    known: dict[str, int | None] = {}
    for step in steps:
        if step.after is None or step.before is not None:
            continue
        exists = True
        for folder in folders_of(step.path):
            above = folder[:-1]
            if above not in known:
                known[above] = None if above in removed else landing.mode(above)
            mode = known[above]
            if mode is None:
                exists = False
                break
            if not stat.S_ISDIR(mode):
                raise CheckpointError(
                    f"{step.path} cannot be restored while {above} is not a folder; "
                    "nothing was changed: restore that too, or move it away"
                )
        if not exists or not stat.S_ISDIR(landing.mode(step.path) or 0):
            continue
        extra = next((path for path in landing.all_below(step.path) if path not in removed), None)
        if extra is not None:
            raise CheckpointError(
                f"{step.path} was not a folder then, and {extra}, which no snapshot holds, is in it; "
                "nothing was changed: move it away, then try again"
            )


def _reason(error: CodeagentError | OSError) -> str:
    match error:
        case OSError():
            return os.strerror(error.errno or 0)
        case CodeagentError():
            return str(error).partition(";")[0]
        case _:
            assert_never(error)
