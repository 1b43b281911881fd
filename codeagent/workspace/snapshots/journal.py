"""What a restore has to do, written down before the first step, so that a crash can be made good."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from codeagent.core.checkpoints import ChangeKind, FileChange, NodeKind
from codeagent.core.errors import CheckpointError
from codeagent.workspace.snapshots.landing import State
from codeagent.workspace.snapshots.private import open_private

_KINDS: dict[str, NodeKind] = {kind: kind for kind in get_args(NodeKind)}


@dataclass(frozen=True)
class Step:
    """One file: what it is before and what it is to be."""

    path: str
    old: State | None
    new: State | None

    def change(self) -> FileChange:
        kind: ChangeKind = "added" if self.old is None else "deleted" if self.new is None else "modified"
        return FileChange(self.path, kind)

    def back(self) -> "Step":
        return Step(self.path, self.new, self.old)


class Journal:
    """The steps of the restore that is under way, written before the first of them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __bool__(self) -> bool:
        return self._path.exists()

    def write(self, token: str, steps: Sequence[Step]) -> None:
        """Raises OSError; then nothing is under way."""
        record = {"token": token, "steps": [(step.path, _pair(step.old), _pair(step.new)) for step in steps]}
        draft = self._path.with_suffix(".tmp")
        with open_private(draft) as file:
            file.write(json.dumps(record).encode())
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self._path)
        self._sync()

    def read(self) -> tuple[str, tuple[Step, ...]]:
        """Raises CheckpointError."""
        try:
            record = json.loads(self._path.read_bytes())
            steps = tuple(Step(path, _unpaired(old), _unpaired(new)) for path, old, new in record["steps"])
            return str(record["token"]), steps
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{self._path} cannot be read ({error}), so it is not known which files a broken-off restore changed; "
                "nothing was changed: look at the workspace, then remove that file"
            ) from None

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)
        self._sync()

    def _sync(self) -> None:
        fd = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _pair(state: State | None) -> tuple[str, str] | None:
    return None if state is None else (state.kind, state.blob)


def _unpaired(pair: Sequence[str] | None) -> State | None:
    if pair is None:
        return None
    kind, blob = pair
    if kind not in _KINDS:
        raise ValueError(f"{kind!r} is no kind of file")
    return State(_KINDS[kind], blob)
