"""Chooses the image the sandbox runs, builds one from packages, and decides which Python commands
get.

Only names that belong to Python come before the image's own programs: a file in the workspace must
not stand in for `ls` or `git`, which run without being asked about.
"""

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import EngineError, SandboxUnavailable
from codeagent.core.host_programs import IMAGE_BUILD, NOWHERE, minimal, open_program
from codeagent.core.programs import find_program
from codeagent.disk.opens import read_regular
from codeagent.sandbox.described_image import BuildLimits, DescribedImage
from codeagent.sandbox.engine import IMAGES, Engine
from codeagent.sandbox.profile import DEFAULT_PATH
from codeagent.sandbox.spec import Bind, SandboxSpec
from codeagent.sandbox.tasks import keeping
from codeagent.sandbox.user_python import host_python

OFFLINE = f"{IMAGES}:offline"
DEFAULT = "python@sha256:9bed8554e926c07c6f908841d5ee88c33e8df9236b191526bbce81a9062ab43a"
"""python:3.12-bookworm, for every architecture: Python, git, make, patch, perl and a C compiler."""
_PULL_AGAIN_SECONDS = 3600.0
_ETC = (
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "services",
    "protocols",
    "perl",
    "python3*",
    "java-*",
    "debian_version",
)
"""The parts of /etc that programs under /usr need; none tells of a user or this machine's
network."""
_LIBRARIES = ("bin", "lib", "lib32", "lib64", "libx32")
PACKAGES = (
    "bash",
    "build-essential",
    "ca-certificates",
    "curl",
    "diffutils",
    "file",
    "findutils",
    "git",
    "jq",
    "less",
    "make",
    "patch",
    "perl",
    "procps",
    "python3",
    "python3-pip",
    "python3-venv",
    "ripgrep",
    "unzip",
    "xz-utils",
    "zip",
)
_PROXIES = (
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
)
WITH_PACKAGES = ", with the packages of its lock files"
HOST_TOOLCHAIN = "host toolchain, read-only"


@dataclass(frozen=True)
class ImageChoice:
    reference: str
    origin: str
    path: str
    """PATH inside."""
    binds: tuple[Bind, ...] = ()
    python: Path | None = None
    """What `python3` leads to inside, if the image leaves that open."""
    note: str = ""
    """What the user should know about it, as a sentence; empty if there is nothing."""
    sets: frozenset[str] = frozenset()
    """The names of the variables that it sets."""


def choose_image(
    engine: Engine, spec: SandboxSpec, on_progress: Callable[[str], None]
) -> ImageChoice:
    """Choose the first of: configured; the repository's own, once trusted; built here from
    packages; the default, pulled once; this machine's toolchain.

    Raises SandboxUnavailable if a configured image is missing, the repository's cannot be built, or
    nothing is left to try.
    """
    require_image(spec)
    return _with_packages(engine, spec, base_image(engine, spec, on_progress))


def base_image(
    engine: Engine, spec: SandboxSpec, on_progress: Callable[[str], None]
) -> ImageChoice:
    """Choose as `choose_image` does, without the packages of lock files."""
    if spec.image.reference is not None:
        return configured_image(engine, spec.image.reference)
    if spec.image.described is not None:
        return _of_repository(engine, spec, spec.image.described, on_progress)
    if (variables := engine.image(OFFLINE)) is not None:
        return _of(OFFLINE, variables, "built here from distribution packages")
    variables = engine.image(DEFAULT)
    if variables is None and spec.image.pull:
        variables = _pull_once(engine, spec.state_dir, on_progress)
    if variables is not None:
        return _of(DEFAULT, variables, "default, pinned by digest")
    return host_toolchain(engine, spec, on_progress)


def _with_packages(engine: Engine, spec: SandboxSpec, base: ImageChoice) -> ImageChoice:
    """Choose the image with this workspace's packages on top of `base`, if there is one for its
    locks as they are."""
    made = package_tags(engine, spec)
    if not made:
        return base
    tag = package_tag(engine, spec, base)
    if tag not in made:
        note = "the locked packages or the image below them have changed, so the packages are not in the image"
        return replace(base, note=f"{note}: codeagent sandbox build --packages installs them again")
    variables = engine.image(tag) or ()
    has_python = any(value.startswith("VIRTUAL_ENV=") for value in variables)
    made_of = _of(tag, variables, f"{base.origin}{WITH_PACKAGES}")
    return replace(
        made_of, binds=base.binds, python=None if has_python else base.python, note=base.note
    )


def package_tag(engine: Engine, spec: SandboxSpec, base: ImageChoice) -> str:
    """Return the name of the image with the packages of the workspace's locks as they are now, on
    top of `base`."""
    from codeagent.sandbox.lock_files import LARGEST_LOCK, LOCK_FILES  # few images have packages

    details = engine.image_details(base.reference)
    python = "" if base.python is None else os.path.realpath(base.python)
    parts = [details.id if details else base.reference, base.path, python]
    digest = sha256("\0".join(parts).encode())
    for name in LOCK_FILES:
        with suppress(OSError):
            digest.update(
                f"\0{name}\0".encode()
                + sha256(read_regular(spec.root / name, largest=LARGEST_LOCK)).digest()
            )
    return f"{_packages_of(spec)}{digest.hexdigest()[:16]}"


def package_tags(engine: Engine, spec: SandboxSpec) -> tuple[str, ...]:
    """Return the images with packages of this workspace, whichever they are."""
    return tuple(tag for tag in engine.images(IMAGES) if tag.startswith(_packages_of(spec)))


def _packages_of(spec: SandboxSpec) -> str:
    where = os.path.realpath(spec.image.packages_of or spec.root)
    return f"{IMAGES}:packages-{sha256(where.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}-"


def require_image(spec: SandboxSpec) -> None:
    """Raise SandboxUnavailable if no image may be used."""
    if spec.image.withheld:
        problem, _, remedy = spec.image.withheld.partition("; ")
        raise SandboxUnavailable(problem, remedy)


def configured_image(engine: Engine, reference: str) -> ImageChoice:
    """Look up the configured image. Raises SandboxUnavailable if it is missing, or the engine
    refuses to look."""
    try:
        variables = engine.image(reference)
    except EngineError as refusal:
        raise SandboxUnavailable(
            f"the engine refused the image {reference}: {refusal}", "check its name"
        ) from refusal
    if variables is None:
        raise SandboxUnavailable(
            f"the configured image {reference} is not on this machine",
            f"docker pull {reference}, or remove the image from the configuration",
        )
    return _of(reference, variables, "configured")


def _of_repository(
    engine: Engine, spec: SandboxSpec, image: DescribedImage, on_progress: Callable[[str], None]
) -> ImageChoice:
    if not spec.image.pull and engine.image(image.tag) is None:
        raise SandboxUnavailable(
            f"the image of {image.file} is not built yet", "the next start builds it"
        )
    limits = BuildLimits(spec.image.build_network, spec.limits.memory_bytes)
    details = image.build(engine, limits, on_progress)
    main = not (spec.read_only or spec.per_command or spec.egress_folder)
    note = ""
    if main and image.is_outdated(details):
        note = f"files that went into the image of {image.file} have changed; codeagent sandbox build builds it again"
    return replace(_of(image.tag, details.variables, f"this repository's {image.file}"), note=note)


def pull_default(engine: Engine, on_progress: Callable[[str], None]) -> str | None:
    """Pull the default image; return None if that succeeded, otherwise why not."""
    on_progress(f"pulling the default image {DEFAULT[:26]}…")
    return engine.pull(DEFAULT, on_progress)


def host_toolchain(
    engine: Engine, spec: SandboxSpec, on_progress: Callable[[str], None]
) -> ImageChoice:
    """Choose an empty image for the host's own /usr, read-only: the user's tools, none of their
    data."""
    if not Path("/usr/bin/bash").exists() and not Path("/bin/bash").exists():
        raise SandboxUnavailable(
            "no image: the registry cannot be reached and this machine has no usable toolchain of its own",
            "run codeagent sandbox build once you have a network",
        )
    tar = empty_root()
    tag = f"{IMAGES}:host-{sha256(tar).hexdigest()[:12]}"
    if engine.image(tag) is None:
        on_progress("making an image from this machine's toolchain")
        engine.import_image(tar, tag, [])
    prefix = _interpreter(spec)
    path = DEFAULT_PATH if prefix is None else f"{DEFAULT_PATH}:{prefix}/bin"
    binds = toolchain_binds() + (() if prefix is None else (Bind(prefix, prefix),))
    return ImageChoice(tag, HOST_TOOLCHAIN, path, binds, host_python(prefix, spec.python.program))


def toolchain_binds() -> tuple[Bind, ...]:
    """Return `/usr`, `/bin` and `/lib*` unless they are links into it, and a few files of
    `/etc`."""
    top = [
        f"/{name}"
        for name in _LIBRARIES
        if Path(f"/{name}").is_dir() and not Path(f"/{name}").is_symlink()
    ]
    etc = sorted(str(path) for name in _ETC for path in Path("/etc").glob(name))
    return tuple(Bind(os.path.realpath(path), path) for path in ["/usr", *top, *etc])


def empty_root() -> bytes:
    """Make a tar of directories, the links of a merged /usr, and nsswitch.conf; always the same
    bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in ("proc", "sys", "dev", "sbin", "etc", "usr", "run", "var", "home"):
            add_entry(tar, name, tarfile.DIRTYPE, 0o755)
        add_entry(tar, "tmp", tarfile.DIRTYPE, 0o1777)
        add_entry(tar, "var/tmp", tarfile.SYMTYPE, 0o777, link="/tmp")
        for name in _LIBRARIES:
            if Path(f"/{name}").is_symlink():
                add_entry(tar, name, tarfile.SYMTYPE, 0o777, link=str(Path(f"/{name}").readlink()))
        add_entry(
            tar,
            "etc/nsswitch.conf",
            tarfile.REGTYPE,
            0o644,
            b"passwd: files\ngroup: files\nhosts: files\n",
        )
    return buffer.getvalue()


def add_entry(
    tar: tarfile.TarFile, name: str, kind: bytes, mode: int, data: bytes = b"", link: str = ""
) -> None:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.mode = mode
    entry.size = len(data)
    entry.linkname = link
    tar.addfile(entry, io.BytesIO(data))


def _of(reference: str, variables: tuple[str, ...], origin: str) -> ImageChoice:
    path = next((value[5:] for value in variables if value.startswith("PATH=")), DEFAULT_PATH)
    return ImageChoice(
        reference, origin, path, sets=frozenset(value.partition("=")[0] for value in variables)
    )


def _pull_once(
    engine: Engine, state_dir: Path, on_progress: Callable[[str], None]
) -> tuple[str, ...] | None:
    """Pull the default image; after a failure not again for an hour, as some networks take minutes
    to fail."""
    failed = state_dir / "sandbox" / "pull-failed"
    with suppress(OSError):
        if 0 <= time.time() - failed.stat().st_mtime < _PULL_AGAIN_SECONDS:
            return None
    problem = pull_default(engine, on_progress)
    if problem is None:
        return engine.image(DEFAULT)
    on_progress(
        f"the default image cannot be pulled; trying again in an hour at the earliest ({problem})"
    )
    try:
        failed.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        failed.write_text(problem, encoding="utf-8")
    except OSError as error:
        on_progress(
            f"the failure could not be recorded ({error.strerror}), so every start will try again"
        )
    return None


def _interpreter(spec: SandboxSpec) -> str | None:
    """Return where this Python is installed, if outside /usr: virtual environments in the workspace
    point there."""
    prefix = Path(os.path.realpath(sys.base_prefix))
    inside = any(prefix == place or place in prefix.parents for place in (Path("/usr"), spec.root))
    too_much = any(
        prefix == place or prefix in place.parents
        for place in (spec.root, spec.home, spec.state_dir)
    )
    looks_right = (prefix / "bin" / f"python3.{sys.version_info.minor}").exists()
    return None if inside or too_much or not looks_right else str(prefix)


def build_offline(engine: Engine, scratch: Path, on_progress: Callable[[str], None]) -> None:
    """Make `OFFLINE` with debootstrap. Takes about a minute and 1 GB below `scratch`.

    Raises SandboxUnavailable, with nothing left behind.
    """
    if os.getuid() != 0:
        raise SandboxUnavailable(
            "building from packages needs root", "sudo codeagent sandbox build --offline"
        )
    debootstrap, packer = (find_program(name, Path.cwd()) for name in ("debootstrap", "tar"))
    if debootstrap is None or packer is None:
        raise SandboxUnavailable(
            "debootstrap is missing", "apt-get install debootstrap (Debian, Ubuntu)"
        )
    suite = _suite()
    with keeping(f"nothing can be built in {scratch}"):
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch, prefix="build-") as folder:
        root = Path(folder) / "root"
        tar = Path(folder) / "root.tar"
        command = [
            debootstrap,
            "--variant=minbase",
            f"--include={','.join(PACKAGES)}",
            suite,
            str(root),
        ]
        _watch(command, on_progress)
        on_progress("packing")
        excluded = (
            "./proc/*",
            "./sys/*",
            "./dev/*",
            "./var/cache/apt/archives/*.deb",
            "./var/lib/apt/lists/*",
        )
        _watch(
            [
                packer,
                "-C",
                str(root),
                *(f"--exclude={name}" for name in excluded),
                "-cf",
                str(tar),
                ".",
            ],
            on_progress,
        )
        on_progress("importing it into the engine")
        try:
            engine.import_image(str(tar), OFFLINE, [f"ENV PATH={DEFAULT_PATH}"])
        except EngineError as refusal:
            raise SandboxUnavailable(
                f"the engine refused the image: {refusal}", "look at its free space"
            ) from refusal


def _suite() -> str:
    import platform  # only for a build

    if name := platform.freedesktop_os_release().get("VERSION_CODENAME"):
        return name
    raise SandboxUnavailable(
        "this distribution has no code name for debootstrap", "codeagent sandbox build"
    )


def _watch(command: list[str], on_progress: Callable[[str], None]) -> None:
    """Run a command to its end and report each line as progress. Raises SandboxUnavailable with the
    last line."""
    last = ""
    with open_program(
        IMAGE_BUILD,
        command,
        folder=NOWHERE,
        environment=minimal(os.environ, *_PROXIES),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last = line.decode(errors="replace").strip() or last
            on_progress(last)
    if process.returncode != 0:
        raise SandboxUnavailable(
            f"{command[0]} failed: {last}", "check the network and the package sources"
        )
