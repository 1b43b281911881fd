"""Builds an image with the packages of a repository's lock files, so that its tests run without a
network.

They are fetched and installed by commands of a sandbox, which sees the lock files and nothing else
of the repository, and reaches their indexes through the proxy. What they leave becomes a layer on
top of the image in use.
"""

import json
import shlex
import shutil
import stat
import tarfile
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from codeagent.core.errors import ConfigError, SandboxUnavailable
from codeagent.core.messages import OutputStream
from codeagent.core.sandbox import Command
from codeagent.core.sanitize import one_line
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.dockerfile_words import image_id, word
from codeagent.sandbox.egress.internet import NOT_PUBLIC, Internet
from codeagent.sandbox.engine import BuildOptions, Engine
from codeagent.sandbox.image import ImageChoice, add_entry, package_tag, package_tags
from codeagent.sandbox.lock_files import Lock, read_locks, requirements
from codeagent.sandbox.spec import Bind, SandboxSpec
from codeagent.sandbox.tasks import in_thread, keeping
from codeagent.sandbox.user_python import python_names, start_script

_PLACE = "/opt/codeagent"
"""Where packages are in the image, and while they are installed."""
_PYTHON = f"{_PLACE}/python"
_SCRIPTS = f"{_PLACE}/bin"
_MODULES = "/node_modules"
"""The last folder in which node looks for a package, wherever a program is."""
_MARKERS = """import json, os, platform, sys
v = ".".join(platform.python_version_tuple()[:2])
print(json.dumps(dict(os_name=os.name, sys_platform=sys.platform, platform_machine=platform.machine(),
platform_python_implementation=platform.python_implementation(), platform_release="", platform_system=platform.system(),
platform_version="", python_version=v, python_full_version=platform.python_version(),
implementation_name=sys.implementation.name, implementation_version=platform.python_version())))"""
_LAST_LINES = 3
"""Lines of a failed installation that are part of its error."""
_CHANGED = SandboxUnavailable(
    "the lock files changed while their packages were fetched", "build again"
)


class PackageBuild:
    """One build, from the lock files to the image. Every method raises SandboxUnavailable."""

    def __init__(
        self,
        spec: SandboxSpec,
        base: ImageChoice,
        locks: tuple[Lock, ...],
        tell: Callable[[str], None],
    ) -> None:
        """`base`: the image in use, to which the packages of `locks`, as they are now, are
        added."""
        self._spec = spec
        self._base = base
        self._locks = locks
        self._tell = tell

    async def run(self, engine: Engine, internet_for: Callable[[Lock], Internet]) -> str:
        """Fetch, install and build; return the image's name. `internet_for`: how the hosts of a
        lock are reached."""
        tag = await in_thread(lambda: package_tag(engine, self._spec, self._base))
        if [lock.digest for lock in read_locks(self._spec.root)] != [
            lock.digest for lock in self._locks
        ]:
            raise _CHANGED
        with _scratch(self._spec.state_dir) as (work, kept):
            bind = Bind(str(kept), _PLACE, read_only=False)
            spec = replace(
                self._spec,
                root=work,
                image=replace(self._spec.image, packages_of=None),
                python=replace(self._spec.python, environment=None),
                packages=None,
                binds=(bind,),
                per_command=False,
            )
            for lock in self._locks:
                sandbox = DockerSandbox(spec, partial(internet_for, lock))
                try:
                    await (self._python if lock.kind == "python" else self._node)(
                        sandbox, lock, work
                    )
                finally:
                    await sandbox.close()
            return await in_thread(lambda: self._image(engine, kept, tag))

    async def _python(self, sandbox: DockerSandbox, lock: Lock, work: Path) -> None:
        ask = f"python3 -c {shlex.quote(_MARKERS)}"
        environment = (
            json.loads(await self._run(sandbox, lock, ask, quiet=True)) if lock.packages else {}
        )
        try:
            wanted = requirements(lock, environment)
        except ConfigError as error:
            raise SandboxUnavailable(str(error), "lock the packages again") from error
        (work / "requirements.txt").write_text(wanted, encoding="utf-8")
        first, *others = lock.indexes
        indexes = [
            "--index-url",
            first,
            *(word for other in others for word in ("--extra-index-url", other)),
        ]
        plain = [urlsplit(index).netloc for index in lock.indexes if index.startswith("http:")]
        indexes += [
            word for host in plain for word in ("--trusted-host", host)
        ]  # what comes from it has a known hash
        complete = ["--no-deps"] if lock.packages else []
        pip = (
            f"python3 -m pip --python {_PYTHON}/bin/python --isolated --disable-pip-version-check "
            "install --no-input --no-cache-dir --progress-bar off --retries 1 --require-hashes"
        )
        given = shlex.join([*complete, *indexes, "-r", "requirements.txt"])
        make = f"python3 -m venv --without-pip {_PYTHON}"
        await self._run(sandbox, lock, f"{make} && mkdir -p tmp && TMPDIR=$PWD/tmp {pip} {given}")

    async def _node(self, sandbox: DockerSandbox, lock: Lock, work: Path) -> None:
        (work / "package.json").write_text(lock.manifest, encoding="utf-8")
        (work / "package-lock.json").write_text(lock.text, encoding="utf-8")
        npm = "npm ci --no-audit --no-fund --no-update-notifier --cache cache --registry"
        index = shlex.quote(lock.indexes[0])
        await self._run(sandbox, lock, f"{npm} {index} && mv node_modules {_PLACE}/node_modules")

    async def _run(
        self, sandbox: DockerSandbox, lock: Lock, text: str, *, quiet: bool = False
    ) -> str:
        """Run a command that may reach the lock's hosts, tell what it prints, and return its
        standard output."""
        output = bytearray()
        last = deque[str](maxlen=_LAST_LINES)

        async def keep(stream: OutputStream, data: bytes) -> None:
            output.extend(data if stream == "stdout" else b"")
            for line in data.decode("utf-8", "replace").splitlines():
                if line.strip():
                    last.append(one_line(line.strip(), 160))
                    if not quiet:
                        self._tell(f"{lock.file}: {last[-1]}")

        result = await sandbox.run(Command(text, "packages", hosts=lock.hosts, apart=True), keep)
        if result.exit_code != 0:
            said = "; ".join((*result.notices, *last))
            problem = f"the packages of {lock.file} cannot be installed: {said or f'exit code {result.exit_code}'}"
            raise SandboxUnavailable(problem, remedy_for(lock, result.notices))
        return output.decode("utf-8", "replace")

    def _image(self, engine: Engine, kept: Path, tag: str) -> str:
        """Build the image, and remove those with earlier packages of this repository."""
        if package_tag(engine, self._spec, self._base) != tag:
            raise _CHANGED
        self._tell("packing")
        old = [other for other in package_tags(engine, self._spec) if other != tag]
        has = {lock.kind for lock in self._locks}
        names = python_names(kept / "python/bin") if "python" in has else []
        path = [*([_SCRIPTS] if names else []), self._base.path]
        path += [f"{_PYTHON}/bin"] if "python" in has else []
        path += [f"{_MODULES}/.bin"] if "node" in has else []
        lines = dockerfile_on(engine, self._base.reference, ":".join(path), python="python" in has)
        with (
            tempfile.TemporaryFile(dir=kept.parent) as layer,
            tempfile.TemporaryFile(dir=kept.parent) as context,
        ):
            _pack(layer, kept, names)
            with tarfile.open(fileobj=context, mode="w") as tar:
                add_entry(tar, "Dockerfile", tarfile.REGTYPE, 0o644, "\n".join(lines).encode())
                entry = tarfile.TarInfo("packages.tar")
                entry.size = layer.tell()
                layer.seek(0)
                tar.addfile(entry, layer)
            context.seek(0)
            engine.build(context, "Dockerfile", BuildOptions(tag), lambda line: None)
        for other in old:
            engine.remove_image(other)
        return tag


def remedy_for(lock: Lock, notices: tuple[str, ...]) -> str:
    """Return what helps if packages could not be installed; `notices` say which requests were
    refused, and why."""
    if not any(NOT_PUBLIC in notice for notice in notices):
        return "codeagent doctor says what the image lacks; nothing was changed"
    option = "--index" if lock.kind == "python" else "--registry"
    return f"name your own mirror with {option} URL, or the host in private_hosts under [network]; nothing was changed"


def dockerfile_on(engine: Engine, base: str, path: str, *, python: bool) -> list[str]:
    """Write the Dockerfile of the image: the base by its ID, and nothing that the base says as text
    of our own."""
    details = engine.image_details(base)
    if details is None:
        raise SandboxUnavailable(f"the image {base} is gone", "build again")
    if details.on_build:
        why = f"{base} has instructions for builds on top of it, which would run without having been shown"
        raise SandboxUnavailable(f"no packages can be added: {why}", "use an image without ONBUILD")
    try:
        lines = [f"FROM {image_id(details)}", "ADD packages.tar /", f"ENV PATH={word(path)}"]
    except ValueError as error:
        raise SandboxUnavailable(
            f"no packages can be added to {base}: {error}", "use another image"
        ) from error
    return [*lines, f"ENV VIRTUAL_ENV={_PYTHON}"] if python else lines


@contextmanager
def _scratch(state_dir: Path) -> Iterator[tuple[Path, Path]]:
    """Make a folder for the lock files and one for what is installed; both go at the end."""
    parent = state_dir / "sandbox"
    with keeping(f"nothing can be built in {parent}"):
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=parent, prefix="packages-"))
    try:
        for name in ("work", "kept"):
            (folder / name).mkdir(mode=0o755)
        yield folder / "work", folder / "kept"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _pack(file: BinaryIO, kept: Path, names: list[str]) -> None:
    """Write what was installed as root's, without special files, and the scripts that start
    Python's programs."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if not (entry.isreg() or entry.isdir() or entry.issym() or entry.islnk()):
            return None
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mode = stat.S_IMODE(entry.mode) & 0o755 | 0o444
        return entry

    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, target in (("python", _PYTHON), ("node_modules", _MODULES)):
            if (kept / name).is_dir():
                tar.add(kept / name, target[1:], filter=plain)
        for name in names:
            script = start_script(f"{_PYTHON}/bin/{name}").encode()
            add_entry(tar, f"{_SCRIPTS}/{name}"[1:], tarfile.REGTYPE, 0o755, script)
