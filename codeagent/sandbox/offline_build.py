"""An image from the distribution's packages, for machines that reach no registry."""

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from codeagent.core.errors import SandboxUnavailable
from codeagent.core.programs import find_program
from codeagent.sandbox.docker import Engine, EngineRefused
from codeagent.sandbox.image import OFFLINE
from codeagent.sandbox.profile import DEFAULT_PATH

PACKAGES = (
    "bash", "build-essential", "ca-certificates", "curl", "diffutils", "file", "findutils", "git", "jq", "less", "make",
    "patch", "perl", "procps", "python3", "python3-pip", "python3-venv", "ripgrep", "unzip", "xz-utils", "zip",
)  # fmt: skip
_SUITE_IN = Path("/etc/os-release")


def build_offline(engine: Engine, scratch: Path, on_progress: Callable[[str], None]) -> str:
    """Make `OFFLINE` with debootstrap; returns the image's id. Takes about a minute and 1 GB below `scratch`.

    Raises SandboxUnavailable, with nothing left behind.
    """
    if os.getuid() != 0:
        raise SandboxUnavailable("building from packages needs root", "sudo codeagent sandbox build --offline")
    debootstrap, packer = (find_program(name, Path.cwd()) for name in ("debootstrap", "tar"))
    if debootstrap is None or packer is None:
        raise SandboxUnavailable("debootstrap is missing", "apt-get install debootstrap (Debian, Ubuntu)")
    suite = _suite()
    try:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxUnavailable(
            f"there is no room to build in: {scratch} ({error.strerror})",
            "make it writable, or set XDG_STATE_HOME to a folder that is",
        ) from error
    with tempfile.TemporaryDirectory(dir=scratch, prefix="build-") as folder:
        root, tar = Path(folder) / "root", Path(folder) / "root.tar"
        command = [debootstrap, "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(root)]
        _watch(command, on_progress)
        on_progress("packing")
        excluded = ("./proc/*", "./sys/*", "./dev/*", "./var/cache/apt/archives/*.deb", "./var/lib/apt/lists/*")
        _watch(
            [packer, "-C", str(root), *(f"--exclude={name}" for name in excluded), "-cf", str(tar), "."], on_progress
        )
        on_progress("giving it to the engine")
        try:
            return engine.import_image(str(tar), OFFLINE, [f"ENV PATH={DEFAULT_PATH}"])
        except EngineRefused as refusal:
            raise SandboxUnavailable(f"the engine refused the image: {refusal}", "look at its free space") from refusal


def _suite() -> str:
    for line in _SUITE_IN.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name == "VERSION_CODENAME" and value:
            return value.strip('"')
    raise SandboxUnavailable("this distribution has no code name that debootstrap knows", "codeagent sandbox build")


def _watch(command: list[str], on_progress: Callable[[str], None]) -> None:
    """Run to the end, each line being progress. Raises SandboxUnavailable with the last one."""
    last = ""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last = line.strip() or last
            on_progress(last)
    if process.returncode != 0:
        raise SandboxUnavailable(f"{command[0]} failed: {last}", "check the network and the package sources")
