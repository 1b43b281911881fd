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
from typing import Any, Literal, assert_never

from codeagent.changes.diff import count
from codeagent.changes.layers import MARKS, attributes, closing_fd, look, opened
from codeagent.core.dataclass import dataclass
from codeagent.core.effects import Effect, LayerEntry
from codeagent.core.errors import ContentChanged, PartlyChanged, WorkspaceError
from codeagent.core.sanitize import spelled
from codeagent.disk.opens import (
    exchange,
    open_below,
    open_folder,
    open_regular,
    read_regular,
    rename_new,
    sync_file_system,
)
from codeagent.disk.private import replace_private

StepKind = Literal["move", "swap", "remove", "folder", "mode", "times"]
_JOURNAL = "landing.json"
_REMOVED = "removed"
_LARGEST_JOURNAL = 1 << 28


@dataclass(frozen=True)
class LandingStep:
    """One rename that lands something, or what comes closest to it."""

    kind: StepKind
    """`move`: out of the layer, where nothing is; `swap`: in the place of what is there, which goes
    into the layer; `remove`: out of the workspace; `folder`: a new folder, of which not everything
    is taken."""
    path: str
    before: LayerEntry | None
    after: LayerEntry | None
    inside: str = ""
    """The digest of what is in a folder that goes as a whole, see `_digest`."""


def plan(effects: Sequence[Effect], left: Collection[str] = ()) -> tuple[LandingStep, ...]:
    """Return the steps that land the effects, without those at the paths in `left`.

    A folder that is new or goes as a whole is one step. One that becomes a file stays while
    anything in it is left. What is neither file, folder nor link is always left.
    """
    out = {effect.path for effect in effects if effect.after and effect.after.kind == "other"}
    out.update(left)
    holding = {folder for path in out for folder in _folders_of(path)}
    whole = {
        effect.path
        for effect in effects
        if _is_whole(effect) and effect.path not in out and effect.path not in holding
    }
    gone: dict[str, list[tuple[str, LayerEntry]]] = {path: [] for path in whole}
    for effect in effects:
        for folder in whole.intersection(_folders_of(effect.path)):
            if effect.before is not None:
                gone[folder].append((effect.path.removeprefix(folder), effect.before))
    return tuple(
        replace(step, inside=_digest(gone[step.path])) if step.path in whole else step
        for effect in effects
        if effect.path not in out and whole.isdisjoint(_folders_of(effect.path))
        for step in _steps(effect, partly=effect.path in holding)
    )


def _is_whole(effect: Effect) -> bool:
    """Whether a folder comes, goes, or is replaced by something else."""
    sides = [side.kind if side else None for side in (effect.before, effect.after)]
    return "folder" in sides and sides[0] != sides[1]


def _steps(effect: Effect, *, partly: bool) -> Iterator[LandingStep]:
    """Yield the steps of one effect; `partly`: something below it is left."""
    path, before, after = effect.path, effect.before, effect.after
    if before is not None and before.kind == "folder" and partly and _is_whole(effect):
        return
    if after is not None and after.kind == "folder" and partly and _is_whole(effect):
        if before is not None:
            yield LandingStep("remove", path, before, None)
        yield LandingStep("folder", path, None, after)
    elif after is None:
        yield LandingStep("remove", path, before, None)
    elif before is None:
        yield LandingStep("move", path, None, after)
    elif effect.only_times:
        yield LandingStep("times", path, before, after)
    elif before.kind == after.kind == "folder":
        yield LandingStep("mode", path, before, after)
    else:
        yield LandingStep("swap", path, before, after)


def _folders_of(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def landing_begun(folder: Path) -> bool:
    """Whether the landing of a layer is under way, or has to be finished."""
    return (folder / _JOURNAL).exists()


class LayerLanding:
    """Lands steps from a layer on a workspace, both open folders on the same file system."""

    def __init__(self, folder: Path, upper: int, root: int) -> None:
        """`folder` is the layer's own, for the journal and for what is removed."""
        self._folder = folder
        self._upper = upper
        self._root = root

    def land(self, steps: Sequence[LandingStep]) -> None:
        """Make all steps or none.

        Raises ContentChanged if something is not as it was when the layer was read, WorkspaceError
        if it cannot be done, PartlyChanged if what was made could not be taken back.
        """
        if not steps:
            return
        try:
            self._prepare(steps)
        except OSError as error:
            raise _failed(error) from None
        made: list[LandingStep] = []
        try:
            for step in steps:
                self._make(step)
                made.append(step)
            self._sync(self._root, steps)
        except (OSError, WorkspaceError) as error:
            reason = error if isinstance(error, WorkspaceError) else _failed(error)
            self._take_back(steps, made, reason)
            raise reason from None
        self._forget()

    def _prepare(self, steps: Sequence[LandingStep]) -> None:
        """Check every step, make the layer durable, and write down what is to be done."""
        folders = {step.path for step in steps if step.kind == "folder"}
        for step in steps:
            if folders.isdisjoint(_folders_of(step.path)):
                with self._folder_of(self._root, step.path) as (parent, name):
                    now = look(parent, name)
                    self._check(step, now)
                    if step.before is not None and not step.before.is_untouched(now):
                        raise _changed(step)
        for step in steps:
            if step.kind in ("move", "swap"):
                with self._folder_of(self._upper, step.path) as (parent, name):
                    if step.after is None or not step.after.is_still(look(parent, name)):
                        raise _changed(step)
                    _strip_marks(parent, name)
        (self._folder / _REMOVED).mkdir(mode=0o700, exist_ok=True)
        self._sync(self._upper, steps)
        self._write("forward", steps)

    def _check(self, step: LandingStep, now: LayerEntry | None) -> None:
        if step.before is None:
            if now is None or step.kind == "folder":
                return
            raise ContentChanged(f"{spelled(step.path)} was created meanwhile")
        if now is None:
            raise ContentChanged(f"{spelled(step.path)} is gone")
        if not step.before.is_still(now):
            raise _changed(step)

    def _check_gone(self, step: LandingStep, folder: int, name: str) -> None:
        """Check what was replaced or removed, now that nobody can change it by its path."""
        found = look(folder, name)
        self._check(step, found)
        if found is not None and found.kind == "folder" and step.inside:
            with opened(folder, name) as fd:
                if _digest(_contents("", fd)) != step.inside:
                    raise ContentChanged(f"something in {spelled(step.path)} changed meanwhile")

    def _make(self, step: LandingStep, *, made: bool = False) -> None:
        """Make a step; `made`: a process that was killed has renamed what it swaps or removes."""
        with self._folder_of(self._root, step.path) as (parent, name):
            match step.kind:
                case "move":
                    with self._folder_of(self._upper, step.path) as (source, _):
                        rename_new(name, name, source, parent)
                case "swap":
                    self._swap(step, parent, name, made)
                case "remove":
                    self._remove(step, parent, name, made)
                case "folder":
                    assert step.after is not None
                    os.mkdir(name, dir_fd=parent)
                    _give_mode(parent, name, step.after)
                case "mode":
                    assert step.after is not None
                    _give_mode(parent, name, step.after)
                case "times":
                    assert step.after is not None
                    _give_times(parent, name, step.after)
                case _:
                    assert_never(step.kind)

    def _swap(self, step: LandingStep, parent: int, name: str, made: bool) -> None:
        with self._folder_of(self._upper, step.path) as (source, _):
            if not made:
                exchange(name, name, source, parent)
            try:
                self._check_gone(step, source, name)
            except WorkspaceError:
                exchange(name, name, source, parent)
                raise

    def _remove(self, step: LandingStep, parent: int, name: str, made: bool) -> None:
        kept = _kept_as(step)
        with opened_path(self._folder / _REMOVED) as removed:
            if not made:
                rename_new(name, kept, parent, removed)
            try:
                self._check_gone(step, removed, kept)
            except WorkspaceError:
                rename_new(kept, name, removed, parent)
                raise

    def _take_back(
        self, steps: Sequence[LandingStep], made: Sequence[LandingStep], reason: WorkspaceError
    ) -> None:
        """Take back what was made. Raises PartlyChanged if not all of it can be; what is left of it
        is written down."""
        try:
            self._write("back", steps)
            stuck = _each(self._unmake, reversed(made))
        except OSError as error:
            stuck = [str(_failed(error))]
        if stuck:
            raise PartlyChanged(f"{reason}; and not all was taken back: {'; '.join(stuck)}")
        self._forget()

    def _unmake(self, step: LandingStep) -> None:
        """Take a step back that was made; one that was not is left alone.

        Raises ContentChanged if somebody else has changed what it made.
        """
        with self._folder_of(self._root, step.path) as (parent, name):
            now = look(parent, name)
            match step.kind:
                case "move":
                    assert step.after is not None
                    if step.after.is_still(now):
                        with self._folder_of(self._upper, step.path) as (source, _):
                            rename_new(name, name, parent, source)
                    elif now is not None:
                        raise _changed(step)
                case "swap":
                    assert step.before is not None and step.after is not None
                    if step.after.is_still(now):
                        with self._folder_of(self._upper, step.path) as (source, _):
                            exchange(name, name, source, parent)
                    elif not step.before.is_still(now):
                        raise _changed(step)
                case "remove":
                    kept = _kept_as(step)
                    with opened_path(self._folder / _REMOVED) as removed:
                        if look(removed, kept) is not None:
                            rename_new(kept, name, removed, parent)
                case "folder":
                    with suppress(OSError):  # somebody put something into it
                        os.rmdir(name, dir_fd=parent)
                case "mode":
                    assert step.before is not None
                    _give_mode(parent, name, step.before)
                case "times":
                    assert step.before is not None
                    _give_times(parent, name, step.before)
                case _:
                    assert_never(step.kind)

    def finish(self) -> tuple[str, ...] | None:
        """Finish what a process had begun that was killed: make the rest, or take back the rest.

        Returns None if nothing was begun in this workspace; otherwise a line about what was done
        and about each path that somebody else changed meanwhile, which stays as it is. Raises
        OSError.
        """
        if (found := self._begun()) is None:
            return None
        way, steps = found
        did = "was finished" if way == "forward" else "was taken back"
        said = [f"taking what a command changed {did}: {count(len(steps), 'change')}"]
        if way == "forward":
            said += _each(self._make_unless_made, steps)
        else:
            said += _each(self._unmake, reversed(steps))
        self._sync(self._root, steps)
        self._forget()
        return tuple(said)

    def _make_unless_made(self, step: LandingStep) -> None:
        with self._folder_of(self._root, step.path) as (parent, name):
            now = look(parent, name)
        made = step.after is not None and step.after.is_still(now)
        match step.kind:
            case "folder" if now is not None:
                return
            case "times" if now is not None and step.after is not None:
                made = now.modified_ns == step.after.modified_ns
            case "remove":
                with opened_path(self._folder / _REMOVED) as removed:
                    made = look(removed, _kept_as(step)) is not None
            case _:
                pass
        if not made:
            self._check(step, now)
        elif step.kind not in ("swap", "remove"):
            return
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
        return str(written["way"]), tuple(_read_step(each) for each in written["steps"])

    def _write(self, way: Literal["forward", "back"], steps: Sequence[LandingStep]) -> None:
        lines = [_written_step(step) for step in steps]
        written = {"root": _identity(self._root), "way": way, "steps": lines}
        replace_private(self._folder / _JOURNAL, json.dumps(written).encode())

    def _forget(self) -> None:
        (self._folder / _JOURNAL).unlink()
        with opened_path(self._folder) as folder:
            os.fsync(folder)

    @contextmanager
    def _folder_of(self, top: int, path: str) -> Iterator[tuple[int, str]]:
        """Open the folder that a path is in, and no link on the way. Raises ContentChanged if it is
        not there."""
        *parents, name = path.split("/")
        try:
            parent = open_below(top, parents)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise ContentChanged(f"the folder of {spelled(path)} is gone") from None
            raise
        with closing_fd(parent):
            yield parent, name

    def _sync(self, top: int, steps: Iterable[LandingStep]) -> None:
        """Make everything durable at once, or file by file where that is not possible."""
        try:
            sync_file_system(top)
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
        else:
            return
        for step in steps:
            if step.after is None:
                continue
            with suppress(ContentChanged), self._folder_of(top, step.path) as (parent, name):
                _sync_tree(parent, name)
                os.fsync(parent)


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


def _kept_as(step: LandingStep) -> str:
    """Return the name under which what a step removes is kept until it has landed."""
    return sha256(os.fsencode(step.path)).hexdigest()


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


def _changed(step: LandingStep) -> ContentChanged:
    return ContentChanged(f"{spelled(step.path)} changed meanwhile")


def _give_mode(parent: int, name: str, entry: LayerEntry) -> None:
    """Give a folder this mode and these extended attributes."""
    wanted = {attribute: bytes.fromhex(value) for attribute, value in entry.attributes}
    with opened(parent, name) as fd:
        os.fchmod(fd, entry.mode)
        for attribute in attributes(fd).keys() - wanted.keys():
            os.removexattr(fd, attribute)
        for attribute, value in wanted.items():
            os.setxattr(fd, attribute, value)


def _give_times(parent: int, name: str, entry: LayerEntry) -> None:
    accessed = os.stat(name, dir_fd=parent, follow_symlinks=False).st_atime_ns
    os.utime(name, ns=(accessed, entry.modified_ns), dir_fd=parent, follow_symlinks=False)


def _strip_marks(parent: int, name: str) -> None:
    """Remove the kernel's notes about the layer from what is going to land, and all that is in
    it."""
    path = f"/proc/self/fd/{parent}/{name}"
    for attribute in os.listxattr(path, follow_symlinks=False):
        if attribute.startswith(MARKS):
            os.removexattr(path, attribute, follow_symlinks=False)
    entry = look(parent, name)
    if entry is not None and entry.kind == "folder":
        with opened(parent, name) as fd:
            for inner in os.listdir(fd):  # noqa: PTH208  # a descriptor, no path
                _strip_marks(fd, inner)


def _sync_tree(parent: int, name: str) -> None:
    entry = look(parent, name)
    if entry is None or entry.kind not in ("file", "folder"):
        return
    if entry.kind == "file":
        with closing_fd(open_regular(name, within=parent)) as fd:
            os.fsync(fd)
        return
    with opened(parent, name) as fd:
        for inner in os.listdir(fd):  # noqa: PTH208  # a descriptor, no path
            _sync_tree(fd, inner)
        os.fsync(fd)


@contextmanager
def opened_path(folder: Path) -> Iterator[int]:
    with closing_fd(open_folder(folder)) as fd:
        yield fd


def _identity(folder: int) -> list[int]:
    status = os.fstat(folder)
    return [status.st_dev, status.st_ino]


def _written_step(step: LandingStep) -> list[Any]:
    sides = [None if side is None else vars_of(side) for side in (step.before, step.after)]
    return [step.kind, step.path, step.inside, *sides]


def vars_of(entry: LayerEntry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in LayerEntry.__match_args__}


def _read_step(written: list[Any]) -> LandingStep:
    kind, path, inside, *sides = written
    before, after = (None if side is None else LayerEntry(**side) for side in sides)
    return LandingStep(kind, path, before, after, inside)


def _failed(error: OSError) -> WorkspaceError:
    match error.errno:
        case errno.EXDEV:
            return WorkspaceError(
                "it cannot be moved into the workspace, which is on another file system"
            )
        case errno.ENOENT | errno.EEXIST:
            return ContentChanged("something was created or removed meanwhile")
        case _:
            return WorkspaceError(f"it could not be landed: {os.strerror(error.errno or 0)}")
