"""Which image the sandbox runs: the first that can be had of four, and how it came about."""

import io
import math
import os
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from codeagent.core.errors import SandboxUnavailable
from codeagent.sandbox.docker import Engine, ImageFacts
from codeagent.sandbox.profile import DEFAULT_PATH, Bind
from codeagent.sandbox.python import host_python
from codeagent.sandbox.spec import SandboxSpec

REPOSITORY = "codeagent-sandbox"
OFFLINE = f"{REPOSITORY}:offline"
DEFAULT = "python@sha256:9bed8554e926c07c6f908841d5ee88c33e8df9236b191526bbce81a9062ab43a"
"""python:3.12-bookworm, for every architecture: Python, git, make, patch, perl and a C compiler."""
_PULL_AGAIN_SECONDS = 3600.0
_ETC = (
    "alternatives", "ssl/certs", "ssl/openssl.cnf", "ca-certificates", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
    "localtime", "mime.types", "services", "protocols", "perl", "python3*", "java-*", "debian_version",
)  # fmt: skip
"""What programs under /usr need of /etc; nothing here is about a user or this machine's network."""
_LIBRARIES = ("bin", "lib", "lib32", "lib64", "libx32")


@dataclass(frozen=True)
class ImageChoice:
    reference: str
    origin: str
    path: str
    """PATH inside."""
    binds: tuple[Bind, ...] = ()
    python: Path | None = None
    """What python3 is to be inside, where the image leaves that open."""


def choose_image(engine: Engine, spec: SandboxSpec, on_progress: Callable[[str], None]) -> ImageChoice:
    """Configured; built here from packages; the default, pulled once; this machine's own toolchain.

    Raises SandboxUnavailable where a configured image is missing, or nothing is left to try.
    """
    if spec.image is not None:
        facts = engine.image(spec.image)
        if facts is None:
            raise SandboxUnavailable(
                f"the configured image {spec.image} is not on this machine",
                f"docker pull {spec.image}, or take the image out of the configuration",
            )
        return _of(spec.image, facts, "configured")
    if facts := engine.image(OFFLINE):
        return _of(OFFLINE, facts, "built here from distribution packages")
    if facts := engine.image(DEFAULT):
        return _of(DEFAULT, facts, "default, pinned by digest")
    if spec.pull and (facts := _pull_once(engine, spec.state_dir, on_progress)):
        return _of(DEFAULT, facts, "default, pinned by digest")
    return host_toolchain(engine, spec, on_progress)


def pull_default(engine: Engine, on_progress: Callable[[str], None]) -> str | None:
    """None when it has come, otherwise why not."""
    on_progress(f"pulling the default image {DEFAULT[:26]}…")
    return engine.pull(DEFAULT, on_progress)


def host_toolchain(engine: Engine, spec: SandboxSpec, on_progress: Callable[[str], None]) -> ImageChoice:
    """An empty image for the host's own /usr, read-only: the person's tools, none of their data."""
    if not Path("/usr/bin/bash").exists() and not Path("/bin/bash").exists():
        raise SandboxUnavailable(
            "no image: the registry cannot be reached and this machine has no usable toolchain of its own",
            "codeagent sandbox build, once there is a network",
        )
    tar = empty_root()
    tag = f"{REPOSITORY}:host-{sha256(tar).hexdigest()[:12]}"
    if engine.image(tag) is None:
        on_progress("making an image from this machine's toolchain")
        engine.import_image(tar, tag, [])
    prefix = _interpreter(spec)
    path = DEFAULT_PATH if prefix is None else f"{DEFAULT_PATH}:{prefix}/bin"
    binds = toolchain_binds() + (() if prefix is None else (Bind(prefix, prefix),))
    return ImageChoice(tag, "host toolchain, read-only", path, binds, host_python(prefix, spec.python))


def toolchain_binds() -> tuple[Bind, ...]:
    """`/usr`, `/bin` and `/lib*` where they are no links into it, and the few files of `/etc`."""
    top = [f"/{name}" for name in _LIBRARIES if Path(f"/{name}").is_dir() and not Path(f"/{name}").is_symlink()]
    etc = sorted(str(path) for name in _ETC for path in Path("/etc").glob(name))
    return tuple(Bind(os.path.realpath(path), path) for path in ["/usr", *top, *etc])


def empty_root() -> bytes:
    """A tar of directories, the links of a merged /usr, and where lookups are made; always the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in ("proc", "sys", "dev", "sbin", "etc", "usr", "run", "var", "home"):
            _add(tar, name, tarfile.DIRTYPE, 0o755)
        _add(tar, "tmp", tarfile.DIRTYPE, 0o1777)
        _add(tar, "var/tmp", tarfile.SYMTYPE, 0o777, link="/tmp")
        for name in _LIBRARIES:
            if Path(f"/{name}").is_symlink():
                _add(tar, name, tarfile.SYMTYPE, 0o777, link=str(Path(f"/{name}").readlink()))
        _add(tar, "etc/nsswitch.conf", tarfile.REGTYPE, 0o644, b"passwd: files\ngroup: files\nhosts: files\n")
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, kind: bytes, mode: int, data: bytes = b"", link: str = "") -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(data), link
    tar.addfile(entry, io.BytesIO(data))


def _of(reference: str, facts: ImageFacts, origin: str) -> ImageChoice:
    path = next((value[5:] for value in facts.environment if value.startswith("PATH=")), DEFAULT_PATH)
    return ImageChoice(reference, origin, path)


def _pull_once(engine: Engine, state_dir: Path, on_progress: Callable[[str], None]) -> ImageFacts | None:
    """An unreachable registry is not asked again for an hour: some networks take minutes to say no."""
    failed = state_dir / "sandbox" / "pull-failed"
    if _age(failed) < _PULL_AGAIN_SECONDS:
        return None
    problem = pull_default(engine, on_progress)
    if problem is None:
        return engine.image(DEFAULT)
    on_progress(f"the default image cannot be pulled; trying again in an hour at the earliest ({problem})")
    try:
        failed.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        failed.write_text(problem, encoding="utf-8")
    except OSError as error:
        on_progress(f"that it cannot be pulled could not be noted ({error.strerror}), so it is tried at every start")
    return None


def _age(path: Path) -> float:
    """Seconds since it was written; endless where there is none."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return math.inf


def _interpreter(spec: SandboxSpec) -> str | None:
    """Where this Python is installed, if outside /usr: virtual environments in the workspace point there."""
    prefix = Path(os.path.realpath(sys.base_prefix))
    inside = any(prefix == place or place in prefix.parents for place in (Path("/usr"), spec.root))
    too_much = any(prefix == place or prefix in place.parents for place in (spec.root, spec.home, spec.state_dir))
    looks_right = (prefix / "bin" / f"python3.{sys.version_info.minor}").exists()
    return None if inside or too_much or not looks_right else str(prefix)
