"""What commands changed in a copy-on-write view of the workspace: reads the upper layer of an
overlay."""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.effects import Effect, EntryKind, LayerEntry
from codeagent.core.errors import CodeagentError
from codeagent.disk.opens import NOT_THERE, open_below, open_folder, open_regular, read_regular

MARKS = "user.overlay."
"""How the extended attributes begin in which the kernel keeps its notes about a layer."""
_OPAQUE = f"{MARKS}opaque"
MOST_EFFECTS = 200_000
_DEEPEST = 200
_CHUNK = 1 << 20
_SET_ID = stat.S_ISUID | stat.S_ISGID


class TooMuch(CodeagentError):
    """A command changed more than can be looked through; nothing of it was landed."""


def look(folder: int, name: str) -> LayerEntry | None:
    """Return what has this name in an open folder, a link itself and not its target; None if
    nothing has."""
    try:
        return _entry(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except OSError as error:
        if error.errno in NOT_THERE:
            return None
        raise


def effects_of(
    upper: int, root: int, passes: Callable[[str], bool] = lambda path: True
) -> Iterator[Effect]:
    """Yield what the layer `upper` changes of the workspace `root`, both open folders.

    What is below a path for which `passes` is false is not looked at. Raises TooMuch, OSError.
    """
    for number, effect in enumerate(_Merge(passes).of("", upper, root)):
        if number == MOST_EFFECTS:
            raise TooMuch(f"it changed more than {MOST_EFFECTS:,} files")
        yield effect


@dataclass(frozen=True)
class _Merge:
    """Compares folders of a layer with those of the workspace."""

    passes: Callable[[str], bool]
    depth: int = 0

    def of(
        self, folder: str, upper: int, lower: int | None, *, opaque: bool = False
    ) -> Iterator[Effect]:
        """Yield what differs in a folder that both have, or that only the layer has (`lower` None).

        `opaque`: the layer hides everything that the workspace has there.
        """
        if self.depth > _DEEPEST:
            raise TooMuch(f"it made folders that are more than {_DEEPEST} deep")
        for name in _names(upper):
            path = f"{folder}{name}"
            status = os.stat(name, dir_fd=upper, follow_symlinks=False)
            before = None if lower is None else look(lower, name)
            if not _is_whiteout(status):
                yield from self._entry(path, before, _entry(status), (upper, lower), opaque)
            elif before is not None and lower is not None:
                yield from _removed(path, before, lower, self.depth)
        if opaque and lower is not None:
            for name in sorted({*_names(lower)} - {*_names(upper)}):
                if (before := look(lower, name)) is not None:
                    yield from _removed(f"{folder}{name}", before, lower, self.depth)

    def _entry(
        self,
        path: str,
        before: LayerEntry | None,
        after: LayerEntry,
        folders: tuple[int, int | None],
        opaque: bool,
    ) -> Iterator[Effect]:
        upper, lower = folders
        name = path.rpartition("/")[2]
        below = replace(self, depth=self.depth + 1)
        was_folder = before is not None and before.kind == "folder"
        if before is not None and lower is not None and was_folder and after.kind != "folder":
            yield from _contents_removed(path, lower, self.depth)
        if after.kind != "folder":
            yield from _changed(path, before, after, upper, lower)
            return
        with opened(upper, name) as inner:
            if before is None or lower is None or not was_folder:
                yield Effect(path, before, after)
                yield from below.of(f"{path}/", inner, None)
                return
            with opened(lower, name) as under:
                yield from _folder_changed(path, (before, under), (after, inner))
                if self.passes(path):
                    hides = opaque or is_opaque(inner)
                    yield from below.of(f"{path}/", inner, under, opaque=hides)


def changes_of(
    upper: int, root: int, effects: Sequence[Effect], *, files: int, size: int
) -> tuple[Change[Node], ...]:
    """Return the first so many effects on files and links whose contents, together, are no larger.

    Raises OSError.
    """
    found: list[Change[Node]] = []
    left = size
    for effect in effects:
        sides = [side for side in (effect.before, effect.after) if side is not None]
        whole = all(side.kind in ("file", "link") for side in sides) and not effect.only_times
        needed = sum(side.size for side in sides)
        if not whole or needed > left or len(found) == files:
            continue
        left -= needed
        before = _node(root, effect.path, effect.before)
        found.append(Change(effect.path, before, _node(upper, effect.path, effect.after)))
    return tuple(found)


def _node(top: int, path: str, entry: LayerEntry | None) -> Node | None:
    """Read a file or link. Raises OSError."""
    if entry is None:
        return None
    *parents, name = path.split("/")
    with closing_fd(open_below(top, parents)) as parent:
        if entry.kind == "link":
            return Node("link", os.fsencode(os.readlink(name, dir_fd=parent)))
        data = read_regular(name, within=parent)
    return Node("executable" if entry.mode & 0o111 else "file", data, entry.mode)


def replace_content(upper: int, path: str, data: bytes) -> LayerEntry:
    """Let a file of the layer have this content; mode and attributes stay. Return it as it is then.
    Raises OSError."""
    *parents, name = path.split("/")
    with closing_fd(open_below(upper, parents)) as parent:
        fd = os.open(name, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            return _entry(os.fstat(fd))


def _names(folder: int) -> list[str]:
    return sorted(os.listdir(folder))  # a descriptor, no path


def _folder_changed(
    path: str, before: tuple[LayerEntry, int], after: tuple[LayerEntry, int]
) -> Iterator[Effect]:
    """Yield the effect on a folder's own mode and attributes; the folder is open on both sides."""
    old, new = (_with_attributes(*side) for side in (before, after))
    if (old.mode, old.attributes) != (new.mode, new.attributes):
        yield Effect(path, old, new)


def _with_attributes(entry: LayerEntry, folder: int) -> LayerEntry:
    found = tuple((name, value.hex()) for name, value in sorted(attributes(folder).items()))
    return replace(entry, attributes=found)


def _removed(path: str, before: LayerEntry, lower: int, depth: int) -> Iterator[Effect]:
    yield Effect(path, before, None)
    if before.kind == "folder":
        yield from _contents_removed(path, lower, depth)


def _contents_removed(path: str, lower: int, depth: int) -> Iterator[Effect]:
    """Yield the removal of everything in the folder at the end of a path, which is in `lower`."""
    if depth > _DEEPEST:
        raise TooMuch(f"it removed folders that are more than {_DEEPEST} deep")
    with opened(lower, path.rpartition("/")[2]) as below:
        for inner in _names(below):
            if (before := look(below, inner)) is not None:
                yield from _removed(f"{path}/{inner}", before, below, depth + 1)


def _changed(
    path: str, before: LayerEntry | None, after: LayerEntry, upper: int, lower: int | None
) -> Iterator[Effect]:
    """Yield what became of a file, a link, or of something that is not a folder on both sides."""
    name = path.rpartition("/")[2]
    same = before is not None and lower is not None and _same(before, after, upper, lower, name)
    if not same:
        yield Effect(path, before, after)
    elif before is not None and before.modified_ns != after.modified_ns:
        yield Effect(path, before, after, only_times=True)


def _same(before: LayerEntry, after: LayerEntry, upper: int, lower: int, name: str) -> bool:
    """Whether a file or link has the same content, mode and attributes in the layer."""
    sides = ((side.kind, side.mode, side.size, side.links) for side in (before, after))
    if len({*sides}) > 1:
        return False
    if before.kind == "link":
        return os.readlink(name, dir_fd=upper) == os.readlink(name, dir_fd=lower)
    if before.kind != "file":
        return False
    with (
        closing_fd(open_regular(name, within=upper)) as new,
        closing_fd(open_regular(name, within=lower)) as old,
    ):
        return attributes(new) == attributes(old) and _same_content(new, old)


def _same_content(new: int, old: int) -> bool:
    while True:
        piece = os.read(new, _CHUNK)
        if piece != _exactly(old, len(piece)):
            return False
        if not piece:
            return not os.read(old, 1)


def _exactly(fd: int, size: int) -> bytes:
    found = b""
    while len(found) < size and (piece := os.read(fd, size - len(found))):
        found += piece
    return found


def attributes(fd: int) -> dict[str, bytes]:
    """Return the extended attributes of an open file, without the kernel's own about a layer."""
    names: list[str] = []
    with suppress(OSError):  # a file system without them
        names = os.listxattr(fd)
    return {name: os.getxattr(fd, name) for name in names if not name.startswith(MARKS)}


def is_opaque(folder: int) -> bool:
    """Whether an open folder of a layer hides what the workspace has in its place."""
    try:
        return os.getxattr(folder, _OPAQUE) == b"y"
    except OSError:
        return False


@contextmanager
def opened(folder: int, name: str) -> Iterator[int]:
    """Open a folder for the block, never through a link."""
    with closing_fd(open_folder(name, within=folder)) as fd:
        yield fd


@contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def _entry(status: os.stat_result) -> LayerEntry:
    kind = _kind(status.st_mode)
    return LayerEntry(
        kind=kind,
        device=status.st_dev,
        inode=status.st_ino,
        mode=stat.S_IMODE(status.st_mode),
        size=status.st_size if kind in ("file", "link") else 0,
        modified_ns=status.st_mtime_ns,
        changed_ns=status.st_ctime_ns,
        links=status.st_nlink if kind == "file" else 1,
    )


def _is_whiteout(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _kind(mode: int) -> EntryKind:
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) and not mode & _SET_ID else "other"
