"""Builds the image that a repository describes, once the user trusts it, from a bounded part of the
repository."""

import os
import stat
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import EngineError, SandboxUnavailable
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.paths import protected_part
from codeagent.core.sanitize import one_line
from codeagent.disk.opens import open_below, open_file, open_folder
from codeagent.extensions.images.canonical import canonical
from codeagent.extensions.images.dockerfile import DockerfileError, bases, copies_files
from codeagent.extensions.images.repository_image import RepositoryImage
from codeagent.sandbox.described_image import BuildLimits
from codeagent.sandbox.engine import IMAGES, BuildOptions, Engine, ImageDetails, left_out_by
from codeagent.sandbox.mounts import is_secret

MIB = 1024**2
MOST_BYTES = 100 * MIB
MOST_FILES = 10_000
_DOCKERFILE = ".codeagent-dockerfile"
_CONTEXT = "codeagent.context"
"""The label with the digest of the files that could be copied."""
_REFERENCE = lazy_regex(
    r"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?/)?[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[a-z0-9]+:[0-9a-f]{32,128})?"
)
"""The name of an image: nothing that would be another address of the engine."""
_PICK = "repair it, or use the usual image: codeagent sandbox distrust"
_NETWORK = "codeagent sandbox build --network builds it with network access"
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class BuildableImage:
    """Implements the DescribedImage of `codeagent.sandbox.described_image`."""

    source: RepositoryImage

    @property
    def file(self) -> str:
        return self.source.file

    @property
    def digest(self) -> str:
        return self.source.digest

    @property
    def tag(self) -> str:
        return tag_of(self.source)

    def build(
        self,
        engine: Engine,
        limits: BuildLimits,
        on_progress: Callable[[str], None],
        *,
        again: bool = False,
    ) -> ImageDetails:
        return build(engine, self.source, limits, on_progress, again=again)

    def is_outdated(self, details: ImageDetails) -> bool:
        return outdated(details, self.source)


def tag_of(image: RepositoryImage) -> str:
    """Return the name of the image that is made of this; the same for every workspace unless files
    are copied in."""
    where = str(image.root) if copies_files(image.text) else ""
    return f"{IMAGES}:repository-{sha256(f'{image.digest} {where}'.encode()).hexdigest()[:32]}"


def build(
    engine: Engine,
    image: RepositoryImage,
    limits: BuildLimits,
    on_progress: Callable[[str], None],
    *,
    again: bool = False,
) -> ImageDetails:
    """Return the image, built now unless it was before; `again`: in any case.

    An image that is only named gets a name of our own, so that nothing but another build changes
    which one it is. Raises SandboxUnavailable, and then nothing else is to be used instead.
    """
    with _ONE_AT_A_TIME:
        if not again and (details := engine.image_details(tag_of(image))) is not None:
            return details
        tag = tag_of(image)
        try:
            if image.image:
                engine.tag(_have(engine, image.image, image, limits, on_progress).id, tag)
            else:
                _build(engine, image, limits, on_progress)
            made = engine.image_details(tag)
        except (EngineError, DockerfileError) as refusal:
            raise _failed(
                image, str(refusal), _PICK if limits.network else f"{_NETWORK}; or {_PICK}"
            ) from refusal
    if made is None:
        raise _failed(image, "the engine did not keep the image", _PICK)
    return made


def outdated(details: ImageDetails, image: RepositoryImage) -> bool:
    """Tell whether the files that were copied into the image may have changed since; blocks while
    it reads them."""
    if not copies_files(image.text):
        return False
    with Path(os.devnull).open("wb") as nowhere, tarfile.open(fileobj=nowhere, mode="w") as tar:
        return details.labels.get(_CONTEXT) != _pack(tar, image)[0]


def _build(
    engine: Engine, image: RepositoryImage, limits: BuildLimits, on_progress: Callable[[str], None]
) -> None:
    """Build it: with network from the repository's own Dockerfile, without from one of ours
    (`canonical`)."""

    def have(base: str) -> ImageDetails:
        return _have(engine, base, image, limits, on_progress)

    options = BuildOptions(tag_of(image), network=limits.network, memory_bytes=limits.memory_bytes)
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            digest, packed = _pack(tar, image)
            if limits.network:
                for base in bases(image.text, image.arguments):
                    have(base)
                options = replace(options, target=image.target, arguments=image.arguments)
                text = image.text
            else:
                steps = canonical(image.text, image.arguments, image.target, have, packed)
                options = replace(options, steps=tuple(step.shown for step in steps))
                text = "".join(f"{step.line}\n" for step in steps)
            _add(tar, _entry(_DOCKERFILE, tarfile.REGTYPE, 0o644), text.encode())
        file.seek(0)
        options = replace(options, labels={_CONTEXT: digest})
        engine.build(
            file,
            _DOCKERFILE,
            options,
            lambda line: on_progress(f"building the image: {one_line(line, 160)}"),
        )


def _have(
    engine: Engine,
    base: str,
    image: RepositoryImage,
    limits: BuildLimits,
    on_progress: Callable[[str], None],
) -> ImageDetails:
    """Make sure that an image is on this machine: the engine would pull a missing one without being
    asked."""
    if _REFERENCE.fullmatch(base) is None:
        raise _failed(image, f"{one_line(base, 100)} is not the name of an image", _PICK)
    details = engine.image_details(base)
    if details is None and limits.network:
        if (problem := engine.pull(base, on_progress)) is not None:
            raise _failed(image, f"{base} cannot be pulled: {one_line(problem, 200)}", _PICK)
        details = engine.image_details(base)
    if details is None:
        raise _failed(
            image,
            f"{base} is not on this machine",
            f"docker pull {base}; or {_NETWORK}; or {_PICK}",
        )
    if details.on_build and not image.image:
        raise _failed(
            image,
            f"{base} has instructions for builds on top of it, which are not in the file",
            _PICK,
        )
    return details


def _failed(image: RepositoryImage, why: str, remedy: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"the image of {image.file} cannot be built: {one_line(why, 600)}", remedy
    )


def _pack(tar: tarfile.TarFile, image: RepositoryImage) -> tuple[str, dict[str, bytes]]:
    """Pack the files that may be copied; return the digest (hex) of them, and the type of each by
    its path.

    Links stay links. Nothing protected is packed, nothing that is masked in containers, and nothing
    that `.dockerignore` leaves out. Raises SandboxUnavailable if it is too large.
    """
    seen = sha256()
    packed = dict[str, bytes]()
    if not copies_files(image.text):
        return seen.hexdigest(), packed
    try:
        with closing(_Folder(image)) as folder:
            for entry, data in folder.entries():
                _add(tar, entry, data)
                packed[entry.name] = entry.type
                described = (
                    f"{entry.name}\0{entry.mode}\0{entry.linkname}\0{sha256(data).hexdigest()}\n"
                )
                seen.update(described.encode("utf-8", "surrogateescape"))
    except (OSError, RecursionError) as error:
        why = getattr(error, "strerror", None) or "it is nested too deeply"
        raise _failed(image, f"{image.context} cannot be read ({why})", _PICK) from error
    return seen.hexdigest(), packed


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.mode = mode & 0o777
    return entry


def _add(tar: tarfile.TarFile, entry: tarfile.TarInfo, data: bytes) -> None:
    entry.size = len(data)
    tar.addfile(entry, BytesIO(data))


class _Folder:
    """The folder of a build context; everything in it is opened from its descriptor, and no link is
    followed."""

    def __init__(self, image: RepositoryImage) -> None:
        """Raises OSError."""
        self._image = image
        self._prefix = "" if image.context == "." else f"{image.context}/"
        self._left_out = left_out_by(image.ignore)
        self._has_exceptions = any(
            line.lstrip().startswith("!") for line in image.ignore.splitlines()
        )
        self._bytes = 0
        self._files = 0
        top = open_folder(image.root, follow=True)
        try:
            self._fd = open_below(
                top, [part for part in image.context.split("/") if part != "."], listed=True
            )
        finally:
            os.close(top)

    def close(self) -> None:
        os.close(self._fd)

    def entries(self) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
        """Yield what goes into the context, in the order of the names. Raises
        SandboxUnavailable."""
        yield from self._below(self._fd, "")

    def _below(self, fd: int, folder: str) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
        for name in sorted(os.listdir(fd)):
            path = f"{folder}{name}"
            if protected_part(name) or path == _DOCKERFILE:
                continue
            left_out = self._left_out(path)
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                if left_out and not self._has_exceptions:
                    continue
                if not left_out:
                    self._count(0)
                    yield _entry(path, tarfile.DIRTYPE, status.st_mode), b""
                yield from self._inside(fd, name, path)
            elif left_out:
                continue
            elif stat.S_ISLNK(status.st_mode):
                self._count(0)
                entry = _entry(path, tarfile.SYMTYPE, 0o777)
                entry.linkname = os.readlink(name, dir_fd=fd)
                yield entry, b""
            elif (
                stat.S_ISREG(status.st_mode) and (data := self._content(fd, name, path)) is not None
            ):
                yield _entry(path, tarfile.REGTYPE, status.st_mode), data

    def _inside(self, fd: int, name: str, path: str) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
        inner = open_folder(name, within=fd)
        try:
            yield from self._below(inner, f"{path}/")
        finally:
            os.close(inner)

    def _content(self, fd: int, name: str, path: str) -> bytes | None:
        """Return what is in the file; None if that may be a secret."""
        opened = open_file(name, within=fd)
        with os.fdopen(opened, "rb") as file:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                return None
            data = file.read(MOST_BYTES - self._bytes + 1)
        self._count(len(data))
        return None if is_secret(f"{self._prefix}{path}", data) else data

    def _count(self, size: int) -> None:
        self._files += 1
        self._bytes += size
        if self._files > MOST_FILES or self._bytes > MOST_BYTES:
            raise _failed(
                self._image,
                f"{self._image.context} has more than {MOST_FILES:,} files or {MOST_BYTES // MIB} MB to copy from",
                f"leave out what the image does not need in {self._prefix}.dockerignore; or {_PICK}",
            )
