"""`codeagent sandbox build --packages`: an image with the packages of the repository's lock
files."""

import argparse
import os
import sys
from functools import partial

from codeagent.commands.arguments import add_flag, say
from codeagent.core.errors import ConfigError
from codeagent.core.hosts import HostRule
from codeagent.core.sanitize import one_line
from codeagent.sandbox.egress.internet import Internet, any_address, internet_of
from codeagent.sandbox.engine import local_engine
from codeagent.sandbox.image import base_image, require_image
from codeagent.sandbox.lock_files import Lock, read_locks
from codeagent.sandbox.package_image import PackageBuild
from codeagent.sandbox.spec import SandboxSpec
from codeagent.sandbox.tasks import in_thread


def add_package_arguments(
    parser: argparse.ArgumentParser, how: "argparse._MutuallyExclusiveGroup"
) -> None:
    add_flag(
        how, "--packages", "add the packages of uv.lock, requirements.txt or package-lock.json"
    )
    parser.add_argument(
        "--index", metavar="URL", help="the index of Python packages, in place of the lock's own"
    )
    parser.add_argument(
        "--registry", metavar="URL", help="the registry of npm packages, in place of npm's own"
    )
    add_flag(parser, "--yes", "fetch the packages without asking")


async def build_packages(
    args: argparse.Namespace, spec: SandboxSpec, private: tuple[HostRule, ...]
) -> int:
    """`private`: hosts that the user named, which may have private addresses.

    Raises ConfigError, SandboxUnavailable.
    """
    locks = _locks(args, spec)
    require_image(spec)
    with local_engine(spec.docker_host) as engine:
        base = await in_thread(lambda: base_image(engine, spec, say))
        for lock in locks:
            many = "1 package" if lock.count == 1 else f"{lock.count} packages"
            print(f"{lock.file}: {many}, from {one_line(', '.join(lock.indexes), 300)}")
            print(
                f"  reached for it: {one_line(', '.join(lock.hosts), 600)}; what is installed may run code there"
            )
            if lock.left_out:
                print(
                    f"  left out, since they have no hash: {one_line(', '.join(lock.left_out), 300)}"
                )
        print(f"  on top of {base.reference} ({base.origin})")
        _confirm(agreed=args.yes)
        tag = await PackageBuild(spec, base, locks, say).run(engine, partial(_internet, private))
    print(f"built {tag}; commands in this folder use it until a lock file changes")
    return 0


def _locks(args: argparse.Namespace, spec: SandboxSpec) -> tuple[Lock, ...]:
    given = {"python": args.index, "node": args.registry}
    locks = tuple(
        lock.at(given[lock.kind]) if given[lock.kind] else lock for lock in read_locks(spec.root)
    )
    if not locks:
        raise ConfigError(
            "nothing to install: found neither a uv.lock, a requirements.txt with hashes nor a package-lock.json here"
        )
    return locks


def _internet(private: tuple[HostRule, ...], lock: Lock) -> Internet:
    """Return the network for the build: only hosts that the user named may have addresses that are
    not public."""
    return (
        internet_of(os.environ, any_address)
        if lock.is_own
        else internet_of(os.environ, private=private)
    )


def _confirm(*, agreed: bool) -> None:
    """Ask on the terminal unless the user has agreed. Raises ConfigError if the answer is not
    yes."""
    if agreed:
        return
    if not sys.stdin.isatty():
        raise ConfigError(
            "nothing was fetched: nobody is there to ask; --yes agrees to these hosts"
        )
    if input("Fetch and install them? [y/N] ").strip().lower() not in ("y", "yes"):
        raise ConfigError("nothing was fetched")
