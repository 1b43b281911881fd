"""Makes a container: engine, image, mounts, start. Blocks; belongs in a thread."""

import os
from collections.abc import Callable
from pathlib import Path

from codeagent.core.errors import SandboxUnavailable
from codeagent.core.sanitize import visible
from codeagent.disk.opens import create_file
from codeagent.sandbox.engine import EngineError, labels, probe_socket, reap
from codeagent.sandbox.guard import Container, SessionResources
from codeagent.sandbox.image import ImageChoice, choose_image, python_links, search_path, start_scripts
from codeagent.sandbox.mounts import NOT_ALL_MASKED, PinnedEntry, PinnedRoot, Secrets, is_utf8, submounts
from codeagent.sandbox.profile import HOME, KEEPER, PROXY_FOLDER, Bind, ContainerSpec, create_arguments
from codeagent.sandbox.spec import SandboxSpec


def launch(
    spec: SandboxSpec, resources: SessionResources, instance: str, stale: str | None, on_progress: Callable[[str], None]
) -> Container:
    """Make and start a container, once the `stale` one, given by its id, is gone. Raises SandboxUnavailable."""
    root, engine = resources.opened()
    probe_socket(engine.socket_path)
    try:
        if stale is not None:
            engine.remove(stale)
    except EngineError as refusal:
        problem = f"the old sandbox cannot be removed: {refusal}"
        raise SandboxUnavailable(problem, "codeagent sandbox prune") from refusal
    try:
        reap(engine)
        own = state_files(spec.state_dir, root.uid, root.gid)
        image = choose_image(engine, spec, on_progress)
        protected = _mountable(root.protected())
        secrets = resources.secrets()
        links = python_links(spec.virtual_env, image.python)
        python = (start_scripts(spec.state_dir, links),) if links else ()
        arguments = create_arguments(
            ContainerSpec(
                image=image.reference,
                root=str(root.path),
                uid=root.uid,
                gid=root.gid,
                binds=_nameable(_binds(spec, own, resources, image, protected, secrets)) + python,
                path=search_path(image.path, links, spec.virtual_env),
                virtual_env=str(spec.virtual_env or ""),
                memory_bytes=spec.memory_bytes,
                tmp_bytes=spec.tmp_bytes,
                pids=spec.pids,
                cpus=spec.cpus,
            ),
            labels(spec.session, instance, str(root.path)),
        )
        container_id, stdin = engine.run(arguments)
    except EngineError as refusal:
        remedy = "codeagent sandbox test shows more; codeagent sandbox build makes another image"
        if "bind source path does not exist" in str(refusal) or "invalid mount config" in str(refusal):
            remedy = "use an engine on this machine that sees this directory (docker context ls)"
        raise SandboxUnavailable(f"the Docker engine refused the sandbox: {refusal}", remedy) from refusal
    mounts = resources.around.mounts
    warnings = (*resources.around.warnings, *_warnings(secrets))
    return Container(container_id, stdin, image.reference, image.origin, protected, secrets, mounts, warnings)


def state_files(state_dir: Path, uid: int, gid: int) -> tuple[Path, Path, Path]:
    """Return the empty file that masks secrets, and the container's passwd and group; make what is missing.

    Raises SandboxUnavailable.
    """
    folder = state_dir / "sandbox"
    keeper = f"keeper:x:{KEEPER}:{KEEPER}::/:/bin/false\n"
    root = "" if uid == 0 else "root:x:0:0::/:/bin/false\n"
    passwd = f"agent:x:{uid}:{gid}::{HOME}:/bin/bash\n{root}{keeper}"
    group = f"agent:x:{gid}:\n" + ("" if gid == 0 else "root:x:0:\n") + f"keeper:x:{KEEPER}:\n"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return (
            _written(folder / "empty", ""),
            _written(folder / f"passwd-{uid}-{gid}", passwd),
            _written(folder / f"group-{gid}", group),
        )
    except OSError as error:
        raise SandboxUnavailable(
            f"the sandbox's files cannot be kept in {folder} ({error.strerror})",
            "make it writable, or set XDG_STATE_HOME to a folder that is",
        ) from error


def _written(path: Path, text: str) -> Path:
    if path.is_symlink() or not path.exists() or path.read_text(encoding="ascii") != text:
        path.unlink(missing_ok=True)
        fd = create_file(path, 0o444)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(text)
            os.fchmod(fd, 0o444)
    return path


def _mountable(protected: tuple[PinnedEntry, ...]) -> tuple[PinnedEntry, ...]:
    for found in protected:
        if found.kind not in ("directory", "file"):
            raise SandboxUnavailable(
                f"{found.name} is a {found.kind}, which cannot be protected from commands",
                f"make {found.name} a plain directory, or remove it",
            )
    return protected


def _nameable(binds: tuple[Bind, ...]) -> tuple[Bind, ...]:
    """Raise SandboxUnavailable if the engine cannot be given a path, which then could not be protected or hidden."""
    for path in (path for bind in binds for path in (bind.source, bind.target)):
        if not is_utf8(path):
            raise SandboxUnavailable(
                f"{visible(path)} has to be mounted, but its name is not UTF-8, which the Docker engine needs",
                "rename or remove it",
            )
    return binds


def _binds(
    spec: SandboxSpec,
    own: tuple[Path, Path, Path],
    resources: SessionResources,
    image: ImageChoice,
    protected: tuple[PinnedEntry, ...],
    secrets: Secrets,
) -> tuple[Bind, ...]:
    root, _ = resources.opened()
    empty, passwd, group = own
    return (
        *image.binds,
        Bind(str(passwd), "/etc/passwd"),
        Bind(str(group), "/etc/group"),
        *(Bind(path, path, recursive=False) for path, _ in resources.around.mounts),
        *_workspace(root, spec.read_only_workspace),
        *(Bind(found.path, found.path) for found in protected),
        *(Bind(str(empty), path) for path in sorted(found.path for found in secrets.masked)),
        *(() if spec.egress_folder is None else (Bind(str(spec.egress_folder), PROXY_FOLDER),)),
    )


def _workspace(root: PinnedRoot, read_only: bool) -> tuple[Bind, ...]:
    here = str(root.path)
    if not read_only:
        return (Bind(here, here, read_only=False),)
    below = submounts(root.path)
    return (Bind(here, here, recursive=False), *(Bind(path, path, recursive=False) for path in below))


def _warnings(secrets: Secrets) -> tuple[str, ...]:
    warnings = []
    names = sorted(found.name for found in secrets.masked)
    if names:
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        warnings.append(f"empty in bash, because they look like secrets ({len(names)}): {shown}")
    if not secrets.complete:
        warnings.append(f"the workspace is large: {NOT_ALL_MASKED}")
    return tuple(warnings)
