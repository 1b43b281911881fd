"""Makes a container: engine, image, mounts, start.

`launch` blocks, and belongs in a thread.
"""

import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import EngineError, SandboxUnavailable
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import visible
from codeagent.disk.opens import create_file
from codeagent.sandbox import packages
from codeagent.sandbox.engine import Engine, labels, reap
from codeagent.sandbox.engine_socket import is_rootless, probe_socket
from codeagent.sandbox.freeze import process_list
from codeagent.sandbox.git_view import GitView, view_of
from codeagent.sandbox.guard import Container, SessionResources
from codeagent.sandbox.image import ImageChoice, choose_image
from codeagent.sandbox.mounts import (
    NOT_ALL_MASKED,
    PinnedEntry,
    PinnedRoot,
    Secrets,
    is_utf8,
    submounts,
)
from codeagent.sandbox.profile import (
    HOME,
    KEEPER,
    PROXY_FOLDER,
    ContainerSpec,
    create_arguments,
    seccomp_filter,
)
from codeagent.sandbox.self_test import OWN_KERNEL
from codeagent.sandbox.spec import Bind, SandboxSpec
from codeagent.sandbox.tasks import keeping
from codeagent.sandbox.user_python import python_links, search_path, start_scripts
from codeagent.sandbox.work_user import WorkUserChoice, choose_user

if TYPE_CHECKING:
    from codeagent.sandbox.layers import Layer  # only for views

_REAP_SECONDS = 3.0
"""How long a start waits for what dead processes left to be removed; that may take longer, beside
it."""
_PLAIN = lazy_regex(r"[^,:\\\s\"]+")
"""Paths that need no escape in the options of a mount."""
_SEES_NOTHING = "use an engine on this machine that sees this directory (docker context ls)"
_REFUSALS = (
    ("bind source path does not exist", _SEES_NOTHING),
    ("invalid mount config", _SEES_NOTHING),
    (
        "container-init binary not found",
        "install Podman's init program: sudo apt-get install catatonit",
    ),
    ("in root network namespace", OWN_KERNEL),
)
"""What an engine says when it refuses a container, and what to do about it."""


def launch(
    spec: SandboxSpec,
    resources: SessionResources,
    instance: str,
    on_progress: Callable[[str], None],
    *,
    stale: str | None = None,
    why_root: str = "",
) -> Container:
    """Make and start a container, once the `stale` one, given by its id, is gone. Raises
    SandboxUnavailable.

    The caller has it when `SessionResources.taken` is called; `why_root`: see `choose_user`.
    """
    root, engine = resources.opened()
    # Before anything is asked that a hanging engine would not answer.
    podman = probe_socket(engine.socket_path)
    try:
        if stale is not None:
            engine.remove(stale)
    except EngineError as refusal:
        problem = f"the old sandbox cannot be removed: {refusal}"
        raise SandboxUnavailable(problem, "codeagent sandbox prune") from refusal
    try:
        _reap_strays(engine)
        with choose_user(root, why_root) as work:
            return _start(spec, resources, instance, work, on_progress, podman=podman)
    except EngineError as refusal:
        if work.user.mapped:
            why_root = f"the engine refuses mounts with mapped ids: {refusal}"
            return launch(spec, resources, instance, on_progress, stale=stale, why_root=why_root)
        usual = "codeagent sandbox test shows more; codeagent sandbox build makes another image"
        remedy = next((remedy for said, remedy in _REFUSALS if said in str(refusal)), usual)
        raise SandboxUnavailable(f"the engine refused the sandbox: {refusal}", remedy) from refusal


def _start(
    spec: SandboxSpec,
    resources: SessionResources,
    instance: str,
    work: WorkUserChoice,
    on_progress: Callable[[str], None],
    *,
    podman: bool,
) -> Container:
    """Make and start a container. Raises SandboxUnavailable, EngineError."""
    root, engine = resources.opened()
    if spec.view is None or resources.image is None:
        resources.image = choose_image(engine, spec, on_progress)
    image = resources.image
    with resources.creating() as unwanted, _layer(spec, root) as layer:
        contents = _contents(spec, resources, work, image, layer)
        arguments = create_arguments(
            ContainerSpec(
                image=image.reference,
                root=str(root.path),
                uid=work.user.uid,
                gid=work.user.gid,
                binds=contents.binds,
                path=contents.path,
                variables=_variables(spec) + contents.cache.variables + work.user.variables,
                seccomp_file=_filter_file(spec.state_dir) if podman else "",
                user_namespace="keep-id" if podman and is_rootless(engine.socket_path) else "",
                limits=spec.limits,
                view=spec.view,
                layer=contents.layer,
            ),
            labels(spec.session, instance, str(root.path)),
        )
        container_id, stdin = engine.run(arguments, unwanted)
        outside = resources.repository
        container = Container(
            container_id=container_id,
            stdin=stdin,
            processes=process_list(engine, container_id),
            image=image.reference,
            image_origin=image.origin,
            protected=contents.protected,
            secrets=contents.hidden,
            mounts=outside.mounts + contents.cache.mounts,
            told=(*outside.warnings, *filter(None, (spec.image.note, image.note))),
            warnings=contents.warnings,
            path=contents.path,
            git_view=contents.view,
            user=work.user,
            layer=layer,
        )
        resources.hand_over()
        return container


def discard(resources: SessionResources, container: Container) -> None:
    """End a container that `launch` returned and nobody wants any more."""
    container.discard()
    resources.taken()


@contextmanager
def _layer(spec: SandboxSpec, root: PinnedRoot) -> "Iterator[Layer | None]":
    """Make the layer of a view, and remove it if the block fails; None if there is none."""
    if spec.view is None or not spec.view.layered:
        yield None
        return
    from codeagent.sandbox.layers import new_layer, remove_layer  # only for views

    layer = new_layer(spec.state_dir, root)
    try:
        yield layer
    except BaseException:
        remove_layer(layer)
        raise


@dataclass(frozen=True)
class _MountedCache:
    """What a container has of the package cache."""

    binds: tuple[Bind, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    mounts: tuple[tuple[str, int], ...] = ()
    """Path inside and inode."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Contents:
    """What is mounted into a container, on top of its image, and what its commands do not see."""

    binds: tuple[Bind, ...]
    path: str
    """PATH of commands."""
    protected: tuple[PinnedEntry, ...]
    hidden: Secrets
    view: GitView | None
    cache: _MountedCache
    warnings: tuple[str, ...]
    layer: tuple[str, str] | None
    """See `ContainerSpec`."""


def _contents(
    spec: SandboxSpec,
    resources: SessionResources,
    work: WorkUserChoice,
    image: ImageChoice,
    layer: "Layer | None",
) -> _Contents:
    """Prepare everything on this machine that is mounted; `layer`: what gets the changes in place
    of the workspace. Raises SandboxUnavailable."""
    root, _ = resources.opened()
    outside = resources.repository
    protected = _mountable(root.protected())
    hidden = resources.secrets()
    view, unviewed = view_of(outside.location, hidden.masked, spec.state_dir, (root.uid, root.gid))
    cache = _package_cache(spec, root.uid, image)
    folders = [str(root.path), *(path for path, _ in outside.mounts)]
    folders += [bind.source for bind in (*spec.binds, *cache.binds)]
    # What the image brings from the home directory may be private.
    folders += [bind.source for bind in image.binds if Path(bind.source).is_relative_to(spec.home)]
    folders += [] if view is None else [str(view.folder)]
    work.show(folders if layer is None else [*folders, str(layer.folder)])
    own = state_files(spec.state_dir, work.user.uid, work.user.gid)
    links = python_links(spec.python.environment, image.python)
    python = (start_scripts(spec.state_dir, links),) if links else ()
    binds = _binds(spec, resources, image, own=own, protected=protected, hidden=hidden)
    binds = binds if view is None else view.over(binds)
    return _Contents(
        binds=work.over(_nameable(binds + cache.binds)) + python,
        path=search_path(image.path, links, spec.python.environment),
        protected=protected,
        hidden=hidden,
        view=view,
        cache=cache,
        warnings=(*_warnings(hidden), *filter(None, (unviewed,)), *cache.warnings),
        layer=None if layer is None else _layer_folders(root, layer, work),
    )


def _layer_folders(root: PinnedRoot, layer: "Layer", work: WorkUserChoice) -> tuple[str, str]:
    """Return where the engine finds the workspace and the layer. Raises SandboxUnavailable if it
    cannot be given them."""
    lower, own = (work.shown(path) for path in (str(root.path), str(layer.folder)))
    if odd := next((path for path in (lower, own) if not _PLAIN.fullmatch(path)), None):
        raise SandboxUnavailable(
            f"{visible(odd)} cannot be shown as a view: it has a space, a quote or one of `,:\\` in its name",
            "rename the folder",
        )
    return lower, own


def _reap_strays(engine: Engine) -> None:
    """Remove the containers of dead processes; one that the engine cannot remove does not keep
    another from starting.

    An engine may never answer about a container that was paused while a command was about to run in
    it.
    """

    def work() -> None:
        with suppress(EngineError, SandboxUnavailable):  # the next start tries again
            reap(engine)

    thread = threading.Thread(target=work, name="codeagent-reap", daemon=True)
    thread.start()
    thread.join(_REAP_SECONDS)


def state_files(state_dir: Path, uid: int, gid: int) -> tuple[Path, Path, Path]:
    """Return the empty file that masks secrets, and the container's passwd and group; make what is
    missing.

    Raises SandboxUnavailable.
    """
    folder = state_dir / "sandbox"
    keeper = f"keeper:x:{KEEPER}:{KEEPER}::/:/bin/false\n"
    root = "" if uid == 0 else "root:x:0:0::/:/bin/false\n"
    passwd = f"agent:x:{uid}:{gid}::{HOME}:/bin/bash\n{root}{keeper}"
    group = f"agent:x:{gid}:\n" + ("" if gid == 0 else "root:x:0:\n") + f"keeper:x:{KEEPER}:\n"
    with keeping(f"the sandbox's files cannot be kept in {folder}"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return (
            _written(folder / "empty", ""),
            _written(folder / f"passwd-{uid}-{gid}", passwd),
            _written(folder / f"group-{gid}", group),
        )


def _filter_file(state_dir: Path) -> str:
    """Return the path of a file with the seccomp filter; write it if it is missing. Raises
    SandboxUnavailable."""
    with keeping(f"the sandbox's system call filter cannot be kept in {state_dir}"):
        return str(_written(state_dir / "sandbox" / "seccomp.json", seccomp_filter()))


def _written(path: Path, text: str) -> Path:
    """Write a file that everybody may read, unless it is there; two containers may be made at
    once."""
    if path.is_symlink() or not path.exists() or path.read_text(encoding="ascii") != text:
        new = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
        fd = create_file(new, 0o444)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(text)
            os.fchmod(fd, 0o444)
        new.replace(path)
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
    """Raise SandboxUnavailable if the engine cannot be given a path, which then could not be
    protected or hidden."""
    for path in (path for bind in binds for path in (bind.source, bind.target)):
        if not is_utf8(path):
            raise SandboxUnavailable(
                f"{visible(path)} has to be mounted, but its name is not UTF-8, which the Docker engine needs",
                "rename or remove it",
            )
    return binds


def _binds(
    spec: SandboxSpec,
    resources: SessionResources,
    image: ImageChoice,
    *,
    own: tuple[Path, Path, Path],
    protected: tuple[PinnedEntry, ...],
    hidden: Secrets,
) -> tuple[Bind, ...]:
    root, _ = resources.opened()
    empty, passwd, group = own
    return (
        *image.binds,
        Bind(str(passwd), "/etc/passwd"),
        Bind(str(group), "/etc/group"),
        *(Bind(path, path, recursive=False) for path, _ in resources.repository.mounts),
        *spec.binds,
        *(
            _mounted(root)
            if spec.view is not None and spec.view.layered
            else _workspace(root, spec.read_only)
        ),
        *(Bind(found.path, found.path) for found in protected),
        *(Bind(str(empty), path) for path in sorted(found.path for found in hidden.masked)),
        *(() if spec.egress_folder is None else (Bind(str(spec.egress_folder), PROXY_FOLDER),)),
    )


def _package_cache(spec: SandboxSpec, uid: int, image: ImageChoice) -> _MountedCache:
    """Open the package cache, except for a container that may change nothing: nothing watches how
    much it writes."""
    if spec.packages is None or spec.read_only:
        return _MountedCache()
    try:
        folder, inode = spec.packages.open(uid)
    except OSError as error:
        why = f"what commands download to install is not kept: {spec.packages.folder} ({error.strerror})"
        return _MountedCache(warnings=(why,))
    bind = Bind(str(folder), packages.INSIDE, read_only=False, recursive=False)
    variables = packages.variables_beside(image.sets)
    return _MountedCache((bind,), tuple(variables.items()), ((packages.INSIDE, inode),))


def _variables(spec: SandboxSpec) -> tuple[tuple[str, str], ...]:
    environment = spec.python.environment
    return () if environment is None else (("VIRTUAL_ENV", str(environment)),)


def _workspace(root: PinnedRoot, read_only: bool) -> tuple[Bind, ...]:
    here = str(root.path)
    if not read_only:
        return (Bind(here, here, read_only=False),)
    return (Bind(here, here, recursive=False), *_mounted(root))


def _mounted(root: PinnedRoot) -> tuple[Bind, ...]:
    """Return read-only mounts of what is mounted below the root."""
    return tuple(Bind(path, path, recursive=False) for path in submounts(root.path))


def _warnings(hidden: Secrets) -> tuple[str, ...]:
    warnings = []
    names = sorted(found.name for found in hidden.masked)
    if names:
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        warnings.append(f"empty in bash, because they look like secrets ({len(names)}): {shown}")
    if not hidden.complete:
        warnings.append(f"the workspace is large: {NOT_ALL_MASKED}")
    return tuple(warnings)
