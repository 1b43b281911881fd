"""What commands changed in a copy-on-write view of the workspace: reads the upper layer of an
overlay."""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.effects import Effect, EntryKind, LayerEntry
from codeagent.core.errors import CodeagentError
from codeagent.disk.atomic import content_attributes
from codeagent.disk.opens import (
    NOT_THERE,
    closing_fd,
    open_below,
    open_folder,
    open_regular,
    read_regular,
)

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


def effects_of(upper: int, root: int) -> Iterator[Effect]:
    """Yield what the layer `upper` changes of the workspace `root`, both open folders; what becomes
    of a folder comes before what becomes of its contents.

    Raises TooMuch, OSError.
    """
    for number, effect in enumerate(_below("", root, upper)):
        if number == MOST_EFFECTS:
            raise TooMuch(f"it changed more than {MOST_EFFECTS:,} files")
        yield effect


def _below(
    folder: str, lower: int | None, upper: int | None, *, hides: bool = False
) -> Iterator[Effect]:
    """Yield what differs in a folder that is open in the workspace and in the layer, or only in one
    of them; `hides`: the layer hides everything that the workspace has there."""
    if folder.count("/") > _DEEPEST:
        raise TooMuch(f"it made or removed folders that are more than {_DEEPEST} deep")
    names = set[str]() if upper is None else {*os.listdir(upper)}  # noqa: PTH208  # a descriptor, no path
    if lower is not None and (hides or upper is None):
        names.update(os.listdir(lower))  # noqa: PTH208  # a descriptor, no path
    for name in sorted(names):
        path = f"{folder}{name}"
        before = None if lower is None else look(lower, name)
        after = None if upper is None else _written(upper, name)
        with _inside(lower, before, name) as under, _inside(upper, after, name) as inner:
            if before and after and under is not None and inner is not None:
                yield from _folder_changed(path, (before, under), (after, inner))
            else:
                yield from _changed(path, lower, before, upper, after)
            opaque = inner is not None and _is_opaque(inner)
            yield from _below(f"{path}/", under, inner, hides=hides or opaque)


def _written(upper: int, name: str) -> LayerEntry | None:
    """Return what a layer has by this name; None if it hides what the workspace has."""
    try:
        status = os.stat(name, dir_fd=upper, follow_symlinks=False)
    except FileNotFoundError:
        return None
    whiteout = stat.S_ISCHR(status.st_mode) and status.st_rdev == 0
    return None if whiteout else _entry(status)


@contextmanager
def _inside(folder: int | None, entry: LayerEntry | None, name: str) -> Iterator[int | None]:
    """Open what has this name for the block; None if it is not a folder."""
    if folder is None or entry is None or entry.kind != "folder":
        yield None
        return
    with opened(folder, name) as inner:
        yield inner


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
    """Give a file of the layer this content, and keep its mode and attributes; return its new entry.
    Raises OSError."""
    *parents, name = path.split("/")
    with closing_fd(open_below(upper, parents)) as parent:
        fd = os.open(name, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            return _entry(os.fstat(fd))


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


def _changed(
    path: str,
    lower: int | None,
    before: LayerEntry | None,
    upper: int | None,
    after: LayerEntry | None,
) -> Iterator[Effect]:
    """Yield what became of something that is not a folder on both sides."""
    if before is None or after is None:
        if before is not after:
            yield Effect(path, before, after)
    elif not _same(before, after, upper, lower, path.rpartition("/")[2]):
        yield Effect(path, before, after)
    elif before.modified_ns != after.modified_ns:
        yield Effect(path, before, after, only_times=True)


def _same(
    before: LayerEntry, after: LayerEntry, upper: int | None, lower: int | None, name: str
) -> bool:
    """Whether a file or link has the same content, mode and attributes in the layer."""
    sides = ((side.kind, side.mode, side.size, side.links) for side in (before, after))
    if len({*sides}) > 1:
        return False
    if before.kind == "link":
        return os.readlink(name, dir_fd=upper) == os.readlink(name, dir_fd=lower)
    if before.kind != "file":
        return False
    with (
        os.fdopen(open_regular(name, within=upper), "rb") as new,
        os.fdopen(open_regular(name, within=lower), "rb") as old,
    ):
        if attributes(new.fileno()) != attributes(old.fileno()):
            return False
        while piece := new.read(_CHUNK):
            if piece != old.read(_CHUNK):
                return False
        return not old.read(1)


def attributes(fd: int) -> dict[str, bytes]:
    """Return the extended attributes of an open file that belong to its content, without the
    kernel's own about a layer. Raises OSError."""
    names = content_attributes(fd)
    return {name: os.getxattr(fd, name) for name in names if not name.startswith(MARKS)}


def _is_opaque(folder: int) -> bool:
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


def _kind(mode: int) -> EntryKind:
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) and not mode & _SET_ID else "other"
