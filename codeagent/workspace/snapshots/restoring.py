"""Going from one snapshot to another: what has to change, whether it may, and how it is done or undone."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import assert_never

from codeagent.core.checkpoints import Node, NodeKind
from codeagent.core.errors import CheckpointError, CodeagentError
from codeagent.workspace.snapshots.about import decode
from codeagent.workspace.snapshots.contents import NotCovered
from codeagent.workspace.snapshots.coverage import Coverage
from codeagent.workspace.snapshots.journal import Step
from codeagent.workspace.snapshots.landing import Landing, State
from codeagent.workspace.snapshots.objects import Leaf, ObjectReader

_KINDS: dict[bytes, NodeKind] = {b"100644": "file", b"100755": "executable", b"120000": "link"}
_MODES = {kind: mode for mode, kind in _KINDS.items()}
_MOST_NAMED = 5


def mode_of(kind: NodeKind) -> bytes:
    """As git writes it."""
    return _MODES[kind]


def state_of(leaf: Leaf | None) -> State | None:
    return None if leaf is None else State(_KINDS.get(leaf[0], "file"), leaf[1])


def coverage_of(reader: ObjectReader, snapshot: str) -> Coverage:
    """Raises CheckpointError."""
    files = reader.files(snapshot)

    def rules(path: str) -> str:
        state = state_of(reader.leaf(files, os.fsencode(path)))
        if state is None or state.kind == "link":
            return ""
        return reader.data(state.blob).decode("utf-8-sig", "surrogateescape")

    return Coverage(decode(reader.about(snapshot)), rules)


def differences(reader: ObjectReader, before: str, after: str) -> list[Step]:
    """What is known to differ: of what one of them did not cover nothing is said. Raises CheckpointError."""
    then, now = coverage_of(reader, before), coverage_of(reader, after)
    steps = []
    for raw, was, is_now in reader.changes(reader.files(before), reader.files(after)):
        step = Step(os.fsdecode(raw), state_of(was), state_of(is_now))
        if step.old is None and then.hides(step.path):
            continue
        if step.new is None and now.leaves_out(step.path):
            continue
        steps.append(step)
    return sorted(steps, key=lambda step: step.path)


def plan(
    reader: ObjectReader, landing: Landing, target: str, present: str, paths: Collection[str] | None
) -> tuple[Step, ...]:
    """What a restore changes. Raises CheckpointError where that would lose something."""
    then, now = coverage_of(reader, target), coverage_of(reader, present)
    steps = []
    conflicts = []
    for raw, was, wanted in reader.changes(reader.files(present), reader.files(target)):
        step = Step(os.fsdecode(raw), state_of(was), state_of(wanted))
        if paths is not None and not _selected(step.path, paths):
            continue
        if step.new is None and then.hides(step.path):
            continue
        try:
            found = landing.state(step.path)
        except NotCovered:
            if step.old is not None or not now.hides(step.path):
                conflicts.append(step.path)
            continue
        if found == step.new:
            continue
        if found == step.old:
            steps.append(step)
        elif step.old is not None or not now.hides(step.path):
            conflicts.append(step.path)
    if conflicts:
        raise CheckpointError(
            f"{_named(conflicts)} changed since the last snapshot; nothing was changed: look at it, then try again"
        )
    _check_room(landing, steps)
    return tuple(sorted(steps, key=lambda step: step.path))


def perform(reader: ObjectReader, landing: Landing, steps: Sequence[Step]) -> None:
    """All steps or none. Raises CheckpointError, and HalfDone where even taking them back fails."""
    try:
        _apply(reader, landing, steps)
    except (CodeagentError, OSError) as error:
        reason = _reason(error)
    else:
        return
    done = [step for step in steps if _is_done(landing, step)]
    try:
        _apply(reader, landing, [step.back() for step in done])
    except (CodeagentError, OSError) as error:
        raise HalfDone(
            f"going back broke off: {reason}; {len(done)} of {len(steps)} files are changed and could not be put "
            f"back ({_reason(error)}): start codeagent again to finish it"
        ) from None
    raise CheckpointError(f"going back failed: {reason}; nothing was changed: put that right, then try again")


class HalfDone(CheckpointError):
    """The journal stays."""


@dataclass(frozen=True)
class Resumed:
    """How a restore that a crash broke off has ended."""

    finished: bool
    """All is as after it; otherwise as before it."""
    kept: tuple[str, ...]
    """Files that somebody changed since: left as they are."""


def resume(reader: ObjectReader, landing: Landing, steps: Sequence[Step]) -> Resumed:
    """Finish it, or take it back where that fails. Raises CheckpointError where neither can be done."""
    to_do, done, kept = [], [], []
    for step in steps:
        landing.clear(step.path)
        try:
            found = landing.state(step.path)
        except NotCovered:
            kept.append(step.path)
            continue
        if found == step.new:
            done.append(step)
        elif found == step.old:
            to_do.append(step)
        else:
            kept.append(step.path)
    try:
        perform(reader, landing, to_do)
    except CheckpointError as error:
        reason = _reason(error)
    else:
        return Resumed(True, tuple(kept))
    try:
        perform(reader, landing, [step.back() for step in done])
    except CheckpointError:
        raise CheckpointError(
            f"going back, which a crash had broken off, can neither be finished nor taken back ({reason}); "
            "the files stay as the crash left them: put that right, then start codeagent again"
        ) from None
    return Resumed(False, tuple(kept))


def _apply(reader: ObjectReader, landing: Landing, steps: Sequence[Step]) -> None:
    """Removals first, so that a folder can become a file and the other way round."""
    for step in steps:
        if step.new is None and step.old is not None:
            landing.remove(step.path, present=step.old)
    for step in steps:
        if step.new is not None:
            landing.put(step.path, Node(step.new.kind, reader.data(step.new.blob)), present=step.old)
    landing.settle()


def _is_done(landing: Landing, step: Step) -> bool:
    try:
        return landing.state(step.path) == step.new
    except (NotCovered, OSError):
        return False


def _check_room(landing: Landing, steps: Sequence[Step]) -> None:
    """What comes anew finds no file where its folder should be, and no folder with more in it where it should be."""
    removed = {step.path for step in steps if step.new is None}
    for step in steps:
        if step.new is None or step.old is not None:
            continue
        if landing.is_folder(step.path):
            extra = next((path for path in landing.all_below(step.path) if path not in removed), None)
            if extra is not None:
                raise CheckpointError(
                    f"{step.path} was no folder then, and {extra}, which no snapshot holds, is in it; "
                    "nothing was changed: move it away, then try again"
                )
        at = step.path.find("/")
        while at >= 0:
            above = step.path[:at]
            if above not in removed and landing.exists(above) and not landing.is_folder(above):
                raise CheckpointError(
                    f"{step.path} cannot be brought back while {above} is no folder; "
                    "nothing was changed: bring that back too, or move it away"
                )
            at = step.path.find("/", at + 1)


def _selected(path: str, paths: Collection[str]) -> bool:
    return path in paths or any(path.startswith(f"{chosen}/") for chosen in paths)


def _named(paths: Sequence[str]) -> str:
    more = len(paths) - _MOST_NAMED
    return ", ".join(paths[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _reason(error: CodeagentError | OSError) -> str:
    match error:
        case OSError():
            return os.strerror(error.errno or 0)
        case CodeagentError():
            return str(error).partition(";")[0]
        case _:
            assert_never(error)
