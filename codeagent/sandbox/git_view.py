"""What git in containers sees in place of the git directory while files that git tracks are masked
there.

A masked file is empty, which git would call a change. The view is a folder of ours, mounted where
the git directory is: its index says that git must not look at such files. Everything else in it
leads to the real directory, which is mounted inside; the user's own index stays as it is.
"""

import hashlib
import os
import secrets
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.disk.opens import create_file, read_regular
from codeagent.disk.repository import repository_of
from codeagent.sandbox.mounts import PinnedEntry
from codeagent.sandbox.spec import Bind

_REAL = "codeagent-git"
"""Where the real git directory is in the view."""
_OWN = frozenset({_REAL, "HEAD", "index"})
_MOUNTED = ("modules", "objects")
"""Submodules and alternates are found by going up from here, so these have to be folders and not
links."""
_MOST_NAMES = 1000
_LARGEST_HEAD = 4096
_LARGEST_INDEX = 256 << 20
_HEADER = struct.Struct(">4sII")
_DIGESTS = {"sha1": 20, "sha256": 32}
"""Bytes of each kind of object name, which is also that of the checksum."""
_STATUS_BYTES = 40
_EXTENDED = 0x4000
"""The flag of an entry that has further flags."""
_SKIP = 0x4000
"""The further flag: git does not look at the file."""
_STAGE = 0x3000
_LENGTH = 0x0FFF
_OF_OFFSETS = (b"EOIE", b"IEOT")
"""Extensions that say where entries are, and that git can do without."""


@dataclass(frozen=True)
class GitLocation:
    """A repository that commands see."""

    top: Path
    """Its work tree."""
    directory: Path
    """The git directory with its index and HEAD."""


class GitView:
    """One folder for all containers of a session; sessions in the same workspace share it, and
    write it alike."""

    def __init__(self, location: GitLocation, folder: Path, owner: tuple[int, int]) -> None:
        """Make the folder, for `owner` to read. Raises OSError."""
        self._location = location
        self.folder = folder
        self._turn = threading.Lock()
        self._written: tuple[object, ...] = ()
        """What the index was made of."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o755)
        self._mounted = tuple(name for name in _MOUNTED if (location.directory / name).is_dir())
        for name in (_REAL, *self._mounted):
            if (folder / name).is_symlink():
                (folder / name).unlink()
            (folder / name).mkdir(exist_ok=True)
        if os.geteuid() == 0:
            os.chown(folder, *owner)  # git refuses a directory of somebody else

    @property
    def directory(self) -> str:
        """The git directory, in whose place the view is mounted."""
        return str(self._location.directory)

    @property
    def inode(self) -> int:
        return self.folder.stat().st_ino

    def over(self, binds: tuple[Bind, ...]) -> tuple[Bind, ...]:
        """Return the mounts with the view in place of the git directory. Read-only, as that is."""
        kept = [bind for bind in binds if bind.target != self.directory]
        last = (
            max(
                (
                    at
                    for at, bind in enumerate(kept)
                    if self.directory.startswith(f"{bind.target}/")
                ),
                default=-1,
            )
            + 1
        )
        folders = (f"{self.directory}/{name}" for name in self._mounted)
        inner = (
            Bind(self.directory, f"{self.directory}/{_REAL}"),
            *(Bind(folder, folder) for folder in folders),
        )
        return (*kept[:last], Bind(str(self.folder), self.directory), *inner, *kept[last:])

    def refresh(self, masked: Iterable[PinnedEntry]) -> None:
        """Take over what changed in the git directory; blocks for a moment. Raises OSError."""
        with self._turn:
            self._link(self._location.directory)
            head = read_regular(self._location.directory / "HEAD", most=_LARGEST_HEAD)
            if _content(self.folder / "HEAD") != head:
                _replace(self.folder / "HEAD", head)
            self._copy_index(index_names(self._location, masked))

    def _link(self, real: Path) -> None:
        names = {
            entry.name for entry in os.scandir(real) if not entry.name.endswith(".lock")
        } - _OWN
        with os.scandir(self.folder) as there:
            links = {entry.name for entry in there if entry.is_symlink()}
        for name in links - names:
            (self.folder / name).unlink(missing_ok=True)
        for name in sorted(names - links)[:_MOST_NAMES]:
            with suppress(FileExistsError):
                (self.folder / name).symlink_to(f"{_REAL}/{name}")

    def _copy_index(self, names: frozenset[bytes]) -> None:
        state = index_state(self._location)
        if state is None:
            (self.folder / "index").unlink(missing_ok=True)
            return
        if (state, names) == self._written and (self.folder / "index").exists():
            return
        data = read_regular(self._location.directory / "index", largest=_LARGEST_INDEX)
        with suppress(
            ValueError
        ):  # git then shows the masked files as changed, as it would without a view
            data, _ = skipping(data, names)
        _replace(self.folder / "index", data, state[-1])
        self._written = (state, names)


def view_of(
    location: GitLocation | None,
    masked: Iterable[PinnedEntry],
    state_dir: Path,
    owner: tuple[int, int],
) -> tuple[GitView | None, str]:
    """Return the view that git needs, up to date, or None if no masked file is tracked; and a
    warning, if any."""
    masked = tuple(masked)
    try:
        if location is None or not tracks(location, masked):
            return None, ""
        both = os.fsencode(f"{location.top}\0{location.directory}")
        digest = hashlib.sha256(both).hexdigest()[:32]
        view = GitView(location, state_dir / "sandbox" / "git" / digest, owner)
        view.refresh(masked)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return (
            None,
            f"git in bash may show files as changed that are only hidden: its index is used as it is ({why})",
        )
    return view, ""


def tracks(location: GitLocation, files: Iterable[PinnedEntry]) -> bool:
    """Whether one of the files is in the index. Raises OSError, ValueError."""
    names = index_names(location, files)
    if not names or index_state(location) is None:
        return False
    data = read_regular(location.directory / "index", largest=_LARGEST_INDEX)
    plain = data[:8] in (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3") and not any(
        location.directory.glob("sharedindex.*")
    )
    if plain and not any(name in data for name in names):
        return False  # as for nearly everybody: nothing has to be parsed
    return bool(skipping(data, names)[1])


def tracked(root: Path, paths: Iterable[str]) -> frozenset[str]:
    """Return those of the paths below `root` that git tracks; all of them if that cannot be
    known."""
    repository = repository_of(root)
    if repository is None:
        return frozenset()
    outside = repository.outside
    directory = repository.top / ".git" if outside is None else outside.own
    names = {os.fsencode((root / path).relative_to(repository.top)): path for path in paths}
    try:
        index = read_regular(directory / "index", largest=_LARGEST_INDEX)
        found = skipping(index, frozenset(names))[1]
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError):
        return frozenset(names.values())
    return frozenset(names[name] for name in found)


def index_state(location: GitLocation) -> tuple[int, int, int] | None:
    """Return what is another one once the index was written; None if there is none. Raises
    OSError."""
    try:
        found = (location.directory / "index").lstat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def index_names(location: GitLocation, masked: Iterable[PinnedEntry]) -> frozenset[bytes]:
    """Return the names that these files would have in the index."""
    top = f"{location.top}/"
    return frozenset(
        os.fsencode(each.path.removeprefix(top)) for each in masked if each.path.startswith(top)
    )


def skipping(index: bytes, names: frozenset[bytes]) -> tuple[bytes, frozenset[bytes]]:
    """Return an index in which git does not look at files of these names, and the names that it
    has.

    Raises ValueError if it is not an index, or one that is split over several files.
    """
    try:
        return _Index(index).skipping(names)
    except (struct.error, IndexError) as error:
        raise ValueError("it is cut off") from error


class _Index:
    def __init__(self, data: bytes) -> None:
        self._data = data
        signature, self._version, self._count = _HEADER.unpack_from(data)
        if signature != b"DIRC" or self._version not in (2, 3, 4):
            raise ValueError("it is not an index that is known here")
        fits = (
            kind for kind, size in _DIGESTS.items() if _digest(kind, data[:-size]) == data[-size:]
        )
        self._kind = next(fits, "")
        """Of its checksum; empty if it has zeros in place of one (`index.skipHash`)."""
        self._digest_bytes = _DIGESTS[self._kind or "sha1"]
        if not self._kind and any(data[-self._digest_bytes :]):
            raise ValueError("its checksum is wrong")

    def skipping(self, names: frozenset[bytes]) -> tuple[bytes, frozenset[bytes]]:
        data = self._data
        found = set[bytes]()
        at = _HEADER.size
        pieces = [_HEADER.pack(b"DIRC", max(self._version, 3), self._count)]
        copied = previous = at
        name = b""
        for _ in range(self._count):
            previous = at
            name, flags_at, name_at, at = self._entry(at, name)
            (flags,) = struct.unpack_from(">H", data, flags_at)
            if name in names and not flags & _STAGE:
                found.add(name)
                pieces += [
                    data[copied:previous],
                    self._skipped(previous, flags_at, name_at, at, name),
                ]
                copied = at
        extensions = tuple(self._extensions(at))
        if not found:
            return data, frozenset()
        pieces += [data[copied:at], *extensions]
        whole = b"".join(pieces)
        return whole + (
            _digest(self._kind, whole) if self._kind else bytes(self._digest_bytes)
        ), frozenset(found)

    def _entry(self, at: int, before: bytes) -> tuple[bytes, int, int, int]:
        """Return an entry's name, where its flags and its name begin, and where it ends."""
        data = self._data
        flags_at = at + _STATUS_BYTES + self._digest_bytes
        (flags,) = struct.unpack_from(">H", data, flags_at)
        name_at = flags_at + (4 if flags & _EXTENDED else 2)
        if self._version == 4:
            dropped, start = _varint(data, name_at)
            end = data.index(b"\0", start)
            return before[: len(before) - dropped] + data[start:end], flags_at, name_at, end + 1
        length = flags & _LENGTH
        end = data.index(b"\0", name_at) if length == _LENGTH else name_at + length
        return data[name_at:end], flags_at, name_at, end + 8 - (end - at) % 8

    def _skipped(self, at: int, flags_at: int, name_at: int, end: int, name: bytes) -> bytes:
        data = self._data
        (flags,) = struct.unpack_from(">H", data, flags_at)
        further = struct.unpack_from(">H", data, flags_at + 2)[0] if flags & _EXTENDED else 0
        head = data[at:flags_at] + struct.pack(">HH", flags | _EXTENDED, further | _SKIP)
        if self._version == 4:
            return head + data[name_at:end]
        return head + name + bytes(8 - (len(head) + len(name)) % 8)

    def _extensions(self, at: int) -> Iterator[bytes]:
        data = self._data
        end = len(self._data) - self._digest_bytes
        while at < end:
            signature, size = struct.unpack_from(">4sI", data, at)
            if signature == b"link":
                raise ValueError("it is split over several files")
            if signature not in _OF_OFFSETS:
                yield data[at : at + 8 + size]
            at += 8 + size


def _digest(kind: str, data: bytes) -> bytes:
    return hashlib.new(kind, data, usedforsecurity=False).digest()


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return git's own number of variable length, and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) + (data[at] & 0x7F)
    return value, at + 1


def _content(path: Path) -> bytes | None:
    try:
        return read_regular(path, most=_LARGEST_HEAD)
    except FileNotFoundError:
        return None


def _replace(path: Path, data: bytes, changed_ns: int | None = None) -> None:
    """Write a file that commands may read; git compares the index's own time with those of
    files."""
    new = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    with os.fdopen(create_file(new, 0o644), "wb") as file:
        file.write(data)
        os.fchmod(file.fileno(), 0o644)
    if changed_ns is not None:
        os.utime(new, ns=(changed_ns, changed_ns))
    new.replace(path)
