"""Lands what a layer changes: all of it or nothing, by renaming, so that every file is the one that
the command made; finishes after a crash what it had begun."""

import errno
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from codeagent.changes.diff import count
from codeagent.changes.landing import folders_of
from codeagent.changes.layer_copy import LayerCopy, mount_of
from codeagent.changes.layers import MARKS, attributes, look, opened
from codeagent.core.dataclass import dataclass
from codeagent.core.effects import Effect, LayerEntry
from codeagent.core.errors import ContentChanged, PartlyChanged, WorkspaceError
from codeagent.core.sandbox import CHECK
from codeagent.core.sanitize import spelled
from codeagent.disk.opens import (
    NOT_THERE,
    closing_fd,
    exchange,
    open_below,
    open_file,
    open_folder,
    read_regular,
    rename_new,
    sync_file_system,
    sync_folder,
    syncs_at_once,
)
from codeagent.disk.private import replace_private
from codeagent.disk.trees import remove_tree

StepKind = Literal["rename", "folder"]
_JOURNAL = "landing.json"
_REMOVED = "removed"
_UPPER = "upper"
_LARGEST_JOURNAL = 1 << 28
_PINNED = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class LandingStep:
    """One rename that lands something, or what comes closest to it."""

    kind: StepKind
    """`rename`: what comes and what goes change places, where there are both; `folder`: one that
    stays gets another mode, or a new one, of which not everything is taken, is made."""
    path: str
    before: LayerEntry | None
    after: LayerEntry | None
    beside: str = ""
    """Where, in the layer's folder, what comes is before it is renamed, and what goes is
    afterwards."""
    inside: str = ""
    """The digest of what is in a folder that goes as a whole, see `_digest`."""


def plan(effects: Sequence[Effect], left: Collection[str] = ()) -> tuple[LandingStep, ...]:
    """Return the steps that land the effects, without those at the paths in `left`.

    A folder that is new or goes as a whole is one step. One that becomes a file stays while
    anything in it is left. What is neither file, folder nor link is always left.
    """
    out = {effect.path for effect in effects if effect.after and effect.after.kind == "other"}
    out.update(left)
    holding = {folder for path in out for folder in folders_of(path)}
    whole = {
        effect.path
        for effect in effects
        if _is_whole(effect) and effect.path not in out and effect.path not in holding
    }
    gone: dict[str, list[tuple[str, LayerEntry]]] = {path: [] for path in whole}
    for effect in effects:
        for folder in whole.intersection(folders_of(effect.path)):
            if effect.before is not None:
                gone[folder].append((effect.path.removeprefix(folder), effect.before))
    steps = (
        step
        for effect in effects
        if effect.path not in out and whole.isdisjoint(folders_of(effect.path))
        for step in _steps(effect, partly=effect.path in holding)
    )
    return tuple(
        replace(
            step,
            beside=f"{_UPPER}/{step.path}" if step.after else f"{_REMOVED}/{number}",
            inside=_digest(gone[step.path]) if step.path in whole else "",
        )
        for number, step in enumerate(steps)
    )


def _is_whole(effect: Effect) -> bool:
    """Whether a folder comes, goes, or is replaced by something else."""
    sides = [side.kind if side else None for side in (effect.before, effect.after)]
    return "folder" in sides and sides[0] != sides[1]


def _steps(effect: Effect, *, partly: bool) -> Iterator[LandingStep]:
    """Yield the steps of one effect; `partly`: something below it is left."""
    path, before, after = effect.path, effect.before, effect.after
    folders = [side is not None and side.kind == "folder" for side in (before, after)]
    if all(folders):
        yield LandingStep("folder", path, before, after)
    elif not partly:
        yield LandingStep("rename", path, before, after)
    elif folders[1]:
        if before is not None:
            yield LandingStep("rename", path, before, None)
        yield LandingStep("folder", path, None, after)


def landing_begun(folder: Path) -> bool:
    """Whether the landing of a layer is under way, or has to be finished."""
    return (folder / _JOURNAL).exists()


class LayerLanding:
    """Lands steps from a layer on a workspace.

    If a file cannot be renamed from one into the other, copies of what lands are made beforehand,
    in a folder of the workspace that takes the place of the layer's.
    """

    def __init__(self, folder: Path, root: int) -> None:
        """`folder` is the layer's own, with the journal; `root` is the open workspace."""
        self._folder = folder
        self._root = root
        with closing_fd(open_folder(folder)) as layer:
            self._apart = mount_of(layer) != mount_of(root)
        self._staged = f"{CHECK}{folder.name}"

    def land(self, steps: Sequence[LandingStep]) -> None:
        """Make all steps or none.

        Raises ContentChanged if something is not as it was when the layer was read, WorkspaceError
        if it cannot be done, PartlyChanged if what was made could not be taken back.
        """
        if not steps:
            return
        made: list[LandingStep] = []
        try:
            steps = self._prepared(steps)
            for step in steps:
                self._make(step)
                made.append(step)
            self._sync_folders(steps)
        except (OSError, WorkspaceError) as error:
            reason = error if isinstance(error, WorkspaceError) else _failed(error)
            self._take_back(steps, made, reason)
            raise reason from None
        self._forget()

    def _prepared(self, steps: Sequence[LandingStep]) -> Sequence[LandingStep]:
        """Check every step, make what lands durable, and write down what is to be done; return the
        steps that do it."""
        folders = {step.path for step in steps if step.kind == "folder" and step.before is None}
        for step in steps:
            if folders.isdisjoint(folders_of(step.path)):
                with _parent_of(step.path, self._root) as (parent, name):
                    now = look(parent, name)
                    _check(step, now)
                    if step.before is not None and not step.before.is_untouched(now):
                        raise _changed(step)
        coming = [step for step in steps if step.kind == "rename" and step.after is not None]
        with closing_fd(open_folder(self._folder)) as layer:
            for step in coming:
                with _parent_of(step.beside, layer) as (parent, name):
                    if step.after is None or not step.after.is_untouched(look(parent, name)):
                        raise _changed(step)
        if self._apart:
            self._write("back", ())
            steps = self._copied(steps)
        else:
            (self._folder / _REMOVED).mkdir(mode=0o700, exist_ok=True)
        at_once = syncs_at_once(self._root)
        for step in steps:
            if step.kind == "rename" and step.after is not None:
                with self._beside(step) as (parent, name):
                    _make_ready(parent, name, flush=not at_once)
        if at_once:
            sync_file_system(self._root)
        self._write("forward", steps)
        return steps

    def _copied(self, steps: Sequence[LandingStep]) -> Sequence[LandingStep]:
        """Copy what lands into the workspace; return the steps that land the copies."""
        os.mkdir(self._staged, 0o700, dir_fd=self._root)
        copied = []
        with opened(self._root, self._staged) as staged:
            for part in (_UPPER, _REMOVED):
                os.mkdir(part, 0o700, dir_fd=staged)
            with opened(staged, _UPPER) as upper, closing_fd(open_folder(self._folder)) as layer:
                copies = LayerCopy(upper)
                for number, step in enumerate(steps):
                    if step.kind == "rename" and step.after is not None:
                        with _parent_of(step.beside, layer) as (parent, name):
                            copies.add(name, parent, f"{number}", upper)
                        after = look(upper, f"{number}")
                        step = replace(step, after=after, beside=f"{_UPPER}/{number}")
                    copied.append(step)
        return copied

    def _check_gone(self, step: LandingStep) -> None:
        """Check what was replaced or removed, now that nobody can change it by its path."""
        with self._beside(step) as (folder, name):
            found = look(folder, name)
            _check(step, found)
            if found is not None and found.kind == "folder" and step.inside:
                with opened(folder, name) as fd:
                    if _digest(_contents("", fd)) != step.inside:
                        raise ContentChanged(f"something in {spelled(step.path)} changed meanwhile")

    def _make(self, step: LandingStep, *, made: bool = False) -> None:
        """Make a step; `made`: it has been made already, but what it replaced or removed may not have
        been checked."""
        with _parent_of(step.path, self._root) as (parent, name):
            if step.kind == "folder":
                if step.before is None:
                    os.mkdir(name, dir_fd=parent)
                _give_mode(parent, name, step.after)
                return
            if not made:
                self._rename(step, parent, name)
            try:
                if step.before is not None:
                    self._check_gone(step)
            except (OSError, WorkspaceError):
                self._rename(step, parent, name, back=True)
                raise

    def _unmake(self, step: LandingStep) -> None:
        """Take back a step that was made; one that was not is left alone.

        Raises ContentChanged if somebody else has changed what it made.
        """
        with _parent_of(step.path, self._root) as (parent, name):
            now = look(parent, name)
            if step.kind == "folder" and step.before is None:
                with suppress(OSError):  # somebody put something into it
                    os.rmdir(name, dir_fd=parent)
            elif step.kind == "folder":
                _give_mode(parent, name, step.before)
            elif self._is_made(step, now):
                self._rename(step, parent, name, back=True)
            elif now is not None and not (step.before and step.before.is_still(now)):
                raise _changed(step)

    def _rename(self, step: LandingStep, parent: int, name: str, *, back: bool = False) -> None:
        with self._beside(step) as (folder, kept):
            if step.before is not None and step.after is not None:
                exchange(name, kept, parent, folder)
            elif (step.after is None) is not back:
                rename_new(name, kept, parent, folder)
            else:
                rename_new(kept, name, folder, parent)

    def _is_made(self, step: LandingStep, now: LayerEntry | None) -> bool:
        """Whether a step was made; `now`: what is at its path."""
        if step.kind == "folder":
            return step.before is None and now is not None
        if step.after is not None:
            return step.after.is_still(now)
        with self._beside(step) as (folder, name):
            return look(folder, name) is not None

    def _take_back(
        self, steps: Sequence[LandingStep], made: Sequence[LandingStep], reason: WorkspaceError
    ) -> None:
        """Take back what was made. Raises PartlyChanged if not all of it can be; what is left of it
        is written down."""
        try:
            if made:
                self._write("back", steps)
            stuck = _each(self._unmake, reversed(made))
        except OSError as error:
            stuck = [str(_failed(error))]
        if stuck:
            raise PartlyChanged(f"{reason}; and not all was taken back: {'; '.join(stuck)}")
        self._forget()

    def finish(self) -> tuple[str, ...] | None:
        """Finish what a process had begun that was killed: make the rest, or take back the rest.

        Returns None if nothing was begun in this workspace; otherwise a line about what was done
        and about each path that somebody else changed meanwhile, which stays as it is. Raises
        OSError.
        """
        if (found := self._begun()) is None:
            return None
        way, steps = found
        did = "finished" if way == "forward" else "taken back"
        said = [f"an interrupted landing was {did}: {count(len(steps), 'change')}"]
        if way == "forward":
            said += _each(self._make_unless_made, steps)
        else:
            said += _each(self._unmake, reversed(steps))
        self._sync_folders(steps)
        self._forget()
        return tuple(said) if steps else ()

    def _make_unless_made(self, step: LandingStep) -> None:
        with _parent_of(step.path, self._root) as (parent, name):
            now = look(parent, name)
        if not (made := self._is_made(step, now)):
            _check(step, now)
        if not made or step.kind == "rename":
            self._make(step, made=made)

    def _begun(self) -> tuple[str, tuple[LandingStep, ...]] | None:
        """Return what the journal says; None if there is none, or it is of another workspace."""
        try:
            text = read_regular(self._folder / _JOURNAL, largest=_LARGEST_JOURNAL)
        except FileNotFoundError:
            return None
        written = json.loads(text)
        if written["root"] != _identity(self._root):
            return None
        return str(written["way"]), tuple(_read_step(*each) for each in written["steps"])

    def _write(self, way: Literal["forward", "back"], steps: Sequence[LandingStep]) -> None:
        written = {"root": _identity(self._root), "way": way, "steps": steps}
        replace_private(self._folder / _JOURNAL, json.dumps(written, default=_values).encode())

    def _forget(self) -> None:
        """Remove the copies and the journal; what fails here is removed with the layer."""
        with suppress(OSError):
            if self._apart:
                self._write("back", ())
                remove_tree(self._staged, self._root)
            (self._folder / _JOURNAL).unlink(missing_ok=True)
            sync_folder(self._folder)

    @contextmanager
    def _beside(self, step: LandingStep) -> Iterator[tuple[int, str]]:
        """Open the folder of what comes or went, and return its name there."""
        if self._apart:
            with _parent_of(f"{self._staged}/{step.beside}", self._root) as found:
                yield found
            return
        with (
            closing_fd(open_folder(self._folder)) as layer,
            _parent_of(step.beside, layer) as found,
        ):
            yield found

    def _sync_folders(self, steps: Iterable[LandingStep]) -> None:
        """Make the names in the workspace durable."""
        if syncs_at_once(self._root):
            sync_file_system(self._root)
            return
        for step in steps:
            with suppress(ContentChanged), _parent_of(step.path, self._root) as (parent, _):
                os.fsync(parent)


@contextmanager
def _parent_of(path: str, top: int) -> Iterator[tuple[int, str]]:
    """Open the folder that a path is in, and no link on the way; yield it and the name. Raises
    ContentChanged if it is not there."""
    *parents, name = path.split("/")
    try:
        parent = open_below(top, parents)
    except OSError as error:
        if error.errno in NOT_THERE:
            raise ContentChanged(f"the folder of {spelled(path)} is gone") from None
        raise
    with closing_fd(parent):
        yield parent, name


def _check(step: LandingStep, now: LayerEntry | None) -> None:
    """Raise ContentChanged unless what is there is still what the step replaces or removes."""
    if step.before is None:
        if now is None or step.kind == "folder":
            return
        raise ContentChanged(f"{spelled(step.path)} was created meanwhile")
    if now is None:
        raise ContentChanged(f"{spelled(step.path)} is gone")
    if not step.before.is_still(now):
        raise _changed(step)


def _changed(step: LandingStep) -> ContentChanged:
    return ContentChanged(f"{spelled(step.path)} changed meanwhile")


def _each(work: Callable[[LandingStep], None], steps: Iterable[LandingStep]) -> list[str]:
    """Do the work for each step; return a line about each for which it failed."""
    failed = []
    for step in steps:
        try:
            work(step)
        except WorkspaceError as error:
            failed.append(str(error))
        except OSError as error:
            failed.append(f"{spelled(step.path)}: {os.strerror(error.errno or 0)}")
    return failed


def _contents(path: str, folder: int) -> Iterator[tuple[str, LayerEntry]]:
    """Yield everything in an open folder, with its path from there."""
    for name in os.listdir(folder):
        if (entry := look(folder, name)) is None:
            continue
        yield f"{path}/{name}", entry
        if entry.kind == "folder":
            with opened(folder, name) as fd:
                yield from _contents(f"{path}/{name}", fd)


def _digest(contents: Iterable[tuple[str, LayerEntry]]) -> str:
    """Return a digest of which files and folders these are, and of when they last changed."""
    lines = sorted(
        f"{path}\0{each.inode}" + (f" {each.size} {each.modified_ns}" * (each.kind != "folder"))
        for path, each in contents
    )
    return sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


def _give_mode(parent: int, name: str, entry: LayerEntry | None) -> None:
    """Give a folder this mode and these extended attributes."""
    assert entry is not None
    wanted = {attribute: bytes.fromhex(value) for attribute, value in entry.attributes}
    with opened(parent, name) as fd:
        os.fchmod(fd, entry.mode)
        for attribute in attributes(fd).keys() - wanted.keys():
            os.removexattr(fd, attribute)
        for attribute, value in wanted.items():
            os.setxattr(fd, attribute, value)


def _make_ready(parent: int, name: str, *, flush: bool) -> None:
    """Remove the kernel's notes about the layer from what is going to land, and from all that is in
    it; `flush`: also make each file and folder durable."""
    with closing_fd(os.open(name, _PINNED, dir_fd=parent)) as pinned:
        path = Path(f"/proc/self/fd/{pinned}")
        if marks := [each for each in os.listxattr(path) if each.startswith(MARKS)]:
            mode = path.stat().st_mode & 0o7777
            path.chmod(mode | 0o200)  # its owner may only read it
            for mark in marks:
                os.removexattr(path, mark)
            path.chmod(mode)
    entry = look(parent, name)
    if entry is None or entry.kind not in ("file", "folder"):
        return
    if entry.kind == "folder":
        with opened(parent, name) as fd:
            for inner in os.listdir(fd):  # noqa: PTH208  # a descriptor, no path
                _make_ready(fd, inner, flush=flush)
    if flush:
        with closing_fd(open_file(name, within=parent)) as fd:
            os.fsync(fd)


def _identity(folder: int) -> list[int]:
    status = os.fstat(folder)
    return [status.st_dev, status.st_ino]


def _values(each: LandingStep | LayerEntry) -> list[Any]:
    """Return the values of the fields, for the journal."""
    return [getattr(each, name) for name in each.__match_args__]


def _read_step(
    kind: StepKind, path: str, before: list[Any] | None, after: list[Any] | None, *more: str
) -> LandingStep:
    old, new = (None if side is None else LayerEntry(*side) for side in (before, after))
    return LandingStep(kind, path, old, new, *more)


def _failed(error: OSError) -> WorkspaceError:
    if error.errno in (errno.ENOENT, errno.EEXIST):
        return ContentChanged("something was created or removed meanwhile")
    return WorkspaceError(f"it could not be landed: {os.strerror(error.errno or 0)}")
