"""`codeagent sandbox`: shows, builds, tests, enters and cleans up the sandboxes of commands."""

import argparse
import os
import sys
from collections.abc import Coroutine, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from codeagent.changes.diff import count
from codeagent.commands.actions import actions_in, add_added, run_added
from codeagent.commands.arguments import (
    add_cwd,
    add_flag,
    print_json,
    say,
    settings_of,
    workspace_of,
)
from codeagent.commands.sandbox_packages import add_package_arguments, build_packages
from codeagent.config.extensions import actions_of
from codeagent.config.local_environment import (
    LocalEnvironment,
    config_dir,
    git_elsewhere,
    state_dir,
)
from codeagent.console.colour import print_line
from codeagent.console.table import print_facts
from codeagent.core.errors import ConfigError, SandboxError, SandboxUnavailable
from codeagent.core.hosts import HostRule
from codeagent.core.sanitize import visible
from codeagent.sandbox.described_image import BuildLimits, DescribedImage, summary_lines
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.packages import PackageCache, package_cache, package_caches

if TYPE_CHECKING:
    from codeagent.commands.ports import App
    from codeagent.sandbox.engine import Engine
    from codeagent.sandbox.image import ImageChoice
    from codeagent.sandbox.spec import SandboxSpec

_LABEL = 12
"""The width of a label in the status."""
_ACTIONS = ("status", "build", "test", "shell", "prune", "cache", "git")
"""Those of the kernel; extensions have others."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = actions_in(parser)
    status = actions.add_parser(
        "status", help="the engine, the image in use and the running containers"
    )
    add_flag(status, "--json", "as one JSON object")
    build = actions.add_parser(
        "build", help="build the repository's own image if you trust it, else pull the default"
    )
    how = build.add_mutually_exclusive_group()
    add_flag(how, "--offline", "build from this distribution's packages (root, Debian)")
    how.add_argument(
        "--network",
        dest="build_network",
        action="store_true",
        help="build the repository's own image with network access",
    )
    add_package_arguments(build, how)
    test = actions.add_parser("test", help="start a sandbox here and show its self-test")
    shell = actions.add_parser("shell", help="open a shell in a new sandbox for this workspace")
    prune = actions.add_parser(
        "prune", help="remove containers whose agent has ended, and caches of folders that are gone"
    )
    add_flag(prune, "--images", "also remove the images built on this machine")
    add_flag(prune, "--packages", "also remove the package caches of all folders")
    cache = actions.add_parser(
        "cache", help="what package managers in this workspace's sandbox downloaded"
    )
    add_flag(cache, "--clear", "remove all of it")
    for _, action in actions_of("sandbox", _ACTIONS):
        add_added(actions, action)
    git = actions.add_parser(
        "git", help="allow or refuse the use of a worktree's or submodule's git directory"
    )
    _add_answers(git)
    for action_parser in (status, build, test, shell, cache, git):
        add_cwd(action_parser)


def _add_answers(git: argparse.ArgumentParser) -> None:
    answers = git.add_mutually_exclusive_group()
    answers.add_argument(
        "--allow",
        dest="answer",
        action="store_const",
        const=True,
        help="commands may read it and commits may go to it from now on",
    )
    answers.add_argument(
        "--refuse",
        dest="answer",
        action="store_const",
        const=False,
        help="they may not (the default)",
    )


def main(args: argparse.Namespace, app: "App") -> int | Coroutine[Any, Any, int]:
    try:
        match args.action:
            case "status":
                return _status(args, app)
            case "build":
                return _build(args, app)
            case "prune":
                return _prune(args)
            case "test":
                return _test(args, app)
            case "git":
                return _git(args)
            case "cache":
                return _cache(args)
            case "shell":
                return _shell(args, app)
            case _:
                return run_added(args, app, "sandbox", _ACTIONS)
    except SandboxUnavailable as error:
        return _unavailable(error)


def _status(args: argparse.Namespace, app: "App") -> int:
    from codeagent.sandbox.engine import LABEL, local_engine, runtime_warning
    from codeagent.sandbox.thaw import is_stray

    sandbox = _sandbox(args, app)
    workspace = workspace_of(args.cwd)
    images = app.image_source(settings_of(args, workspace), workspace, config_dir())
    described = None if images is None else images.summary()
    cache, most = _package_cache(args)
    size = cache.size()
    with local_engine(sandbox.spec.docker_host) as engine:
        versions = engine.versions()
        image, problem = _image_in_use(engine, sandbox.spec)
        containers = [
            {
                "id": container_id[:12],
                "workspace": labels.get("codeagent.workspace", ""),
                "pid": labels.get("codeagent.pid", ""),
                "stray": is_stray(labels.get("codeagent.owner", "")),
            }
            for container_id, labels in engine.containers(LABEL).items()
        ]
    facts = {
        "socket": engine.socket_path,
        **asdict(versions),
        "image": None if image is None else image.reference,
        "image_origin": problem if image is None else image.origin,
        "repository_image": None if described is None else asdict(described),
        "packages": {"folder": str(cache.folder), "bytes": size, "limit": most},
        "warning": runtime_warning(versions.runc),
        "containers": containers,
    }
    if args.json:
        print_json(facts)
        return 0
    found = f"{versions.name} {versions.engine}, API {versions.api}, runc {versions.runc}"
    of_image = [] if described is None else summary_lines(described)
    print_facts(
        [
            ("engine", f"{found} at {engine.socket_path}"),
            (
                "image",
                f"none: {problem}" if image is None else f"{image.reference} ({image.origin})",
            ),
            *((line[:_LABEL].rstrip(), line[_LABEL:]) for line in of_image),
            ("containers", f"{len(containers)} running"),
            *(("", _of_container(item)) for item in containers),
            ("packages", f"{_megabytes(size)} of {_megabytes(most)}"),
            *([("warning", str(facts["warning"]))] if facts["warning"] else []),
        ],
        _LABEL,
    )
    return 0


def _of_container(item: Mapping[str, Any]) -> str:
    gone = ", which has ended" if item["stray"] else ""
    return f"{item['id']} for {item['workspace']}, process {item['pid']}{gone}"


def _image_in_use(engine: "Engine", spec: "SandboxSpec") -> tuple["ImageChoice | None", str]:
    """Return the image of the next container, or None and why there is none."""
    from codeagent.sandbox.image import choose_image

    try:
        return choose_image(
            engine, replace(spec, image=replace(spec.image, pull=False)), lambda _: None
        ), ""
    except SandboxUnavailable as error:
        return None, f"{error}; {error.remedy}"


def _build(args: argparse.Namespace, app: "App") -> int | Coroutine[Any, Any, int]:
    from codeagent.sandbox.engine import local_engine
    from codeagent.sandbox.image import DEFAULT, OFFLINE, build_offline, pull_default, require_image

    spec = _sandbox(args, app).spec
    if args.packages:
        return _packages(args, spec)
    if not args.offline:
        require_image(spec)
        if spec.image.described is not None:
            network = args.build_network or spec.image.build_network
            return _build_described(spec, spec.image.described, network=network)
    if args.build_network:
        raise ConfigError(
            "--network is for an image that this repository describes and you trust; nothing was built"
        )
    with local_engine(os.environ.get("DOCKER_HOST") or None) as engine:
        if args.offline:
            build_offline(engine, state_dir() / "sandbox", say)
            print(f"built {OFFLINE}; it will be used from now on")
            return 0
        problem = pull_default(engine, say)
    if problem is not None:
        remedy = "build one from packages with codeagent sandbox build --offline"
        raise SandboxUnavailable(f"the default image cannot be pulled: {problem}", remedy)
    print(f"pulled {DEFAULT}")
    return 0


def _build_described(spec: "SandboxSpec", image: DescribedImage, *, network: bool) -> int:
    """Build the image that the workspace describes, which is trusted. Raises
    SandboxUnavailable."""
    from codeagent.sandbox.engine import local_engine

    with local_engine(spec.docker_host) as engine:
        image.build(engine, BuildLimits(network, spec.limits.memory_bytes), say, again=True)
    print(f"built {image.tag} from {image.file}; commands run in it from now on")
    return 0


async def _packages(args: argparse.Namespace, spec: "SandboxSpec") -> int:
    hosts = settings_of(args, workspace_of(args.cwd)).network.private_hosts
    private = tuple(map(HostRule.parse, hosts))
    try:
        return await build_packages(args, spec, private)
    except SandboxUnavailable as error:
        return _unavailable(error)


def _prune(args: argparse.Namespace) -> int:
    from codeagent.sandbox.engine import IMAGES, local_engine, reap

    with local_engine(os.environ.get("DOCKER_HOST") or None) as engine:
        removed = reap(engine)
        print(f"{count(removed, 'container')} removed")
        if args.images:
            images = engine.images(IMAGES)
            for image in images:
                engine.remove_image(image)
            print(f"{count(len(images), 'image')} removed")
    _prune_packages(everywhere=args.packages)
    return 0


def _prune_packages(*, everywhere: bool) -> None:
    caches = [cache for cache in package_caches(state_dir()) if everywhere or cache.is_orphan]
    freed = sum(cache.size() for cache in caches)
    for cache in caches:
        if cache.is_orphan:
            cache.forget()
        else:
            cache.clear()  # a running container may have it
    if caches:
        print(f"{count(len(caches), 'package cache')} removed, {_megabytes(freed)}")


def _cache(args: argparse.Namespace) -> int:
    cache, most = _package_cache(args)
    size = cache.size()
    if args.clear:
        cache.clear()
        print(f"{_megabytes(size)} removed")
    else:
        print(visible(f"{_megabytes(size)} of {_megabytes(most)}, in {cache.folder}"))
    return 0


def _package_cache(args: argparse.Namespace) -> tuple[PackageCache, int]:
    """Return the workspace's package cache, and the bytes that it may take."""
    workspace = workspace_of(args.cwd)
    return package_cache(state_dir(), workspace), settings_of(args, workspace).sandbox.package_bytes


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _git(args: argparse.Namespace) -> int:
    found = git_elsewhere(workspace_of(args.cwd), config_dir())
    if found is None:
        print("git needs nothing from outside this workspace")
        return 0
    if args.answer is not None:
        found.keep(args.answer)
    refusal = "commands may not read it and commits may not go to it"
    answers = {
        True: "commands may read it and commits may go to it",
        False: refusal,
        None: f"{refusal}, until you allow it",
    }
    print(visible(f"{found.git.pointer} leads to {found.git.directory}: {answers[found.answer]}"))
    return 0


async def _test(args: argparse.Namespace, app: "App") -> int:
    sandbox = _sandbox(args, app)
    try:
        info = await sandbox.start(say)
    except SandboxUnavailable as error:
        _show_test(sandbox)
        return _unavailable(error)
    finally:
        await sandbox.close()
    _show_test(sandbox)
    print(f"image {info.image} ({info.image_origin}), user {info.user}, network {info.network}")
    for warning in info.warnings:
        print(f"note: {warning}")
    return 0


def _show_test(sandbox: DockerSandbox) -> None:
    for what in sandbox.tested.passed:
        print_line(f"✓ {what}", sys.stdout)
    for what in sandbox.tested.failed:
        print_line(f"✗ {what}", sys.stdout)


async def _shell(args: argparse.Namespace, app: "App") -> int:
    from codeagent.sandbox.terminal import interact

    sandbox = _sandbox(args, app)
    try:
        info = await sandbox.start(say)
        say(f"{info.image_origin}; user {info.user}; network {info.network}; type exit to leave")
        return await interact(*await sandbox.entrance())
    except SandboxUnavailable as error:
        return _unavailable(error)
    finally:
        await sandbox.close()


def _sandbox(args: argparse.Namespace, app: "App") -> DockerSandbox:
    workspace = workspace_of(args.cwd)
    local = LocalEnvironment.of_user(workspace)
    return app.docker_sandbox(settings_of(args, workspace), local, workspace, "command")


def _unavailable(error: SandboxError) -> int:
    say(f"codeagent: {error}; {getattr(error, 'remedy', '')}")
    return 1
