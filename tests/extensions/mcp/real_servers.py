"""Servers that other people wrote, and a client, from npm and PyPI, installed once beside the cache
of this user.

`python -m tests.extensions.mcp.real_servers` installs them, or says why that fails; tests that need
them are skipped then.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from codeagent.disk.locks import locked

NPM = {
    "@modelcontextprotocol/inspector": "2.12.0",
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
}
PYPI = {"mcp-server-git": "2026.10.19", "mcp-server-time": "2026.10.19"}
"""In an environment of their own, so that what they need does not decide what codeagent is tested
with."""


class NotInstalled(Exception):
    """Says why."""


@lru_cache(maxsize=1)
def installed() -> Path:
    """The folder with `node_modules` and `python`. Raises NotInstalled."""
    digest = hashlib.sha256(json.dumps([NPM, PYPI]).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "codeagent-tests" / f"mcp-servers-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        if not (folder / "ready").exists():
            _install(folder)
            (folder / "ready").touch()
    return folder


def servers_or_skip() -> Path:
    """The same for a test."""
    try:
        return installed()
    except NotInstalled as error:
        pytest.skip(str(error))


def _install(folder: Path) -> None:
    npm, uv = shutil.which("npm"), Path(sys.executable).with_name("uv")
    if npm is None:
        raise NotInstalled("npm is not on PATH; install nodejs and npm")
    (folder / "package.json").write_text("{}")
    wanted = [f"{name}@{version}" for name, version in NPM.items()]
    _run(
        npm,
        "install",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--save-exact",
        *wanted,
        folder=folder,
    )
    _run(str(uv), "venv", "--clear", "--quiet", "--python", sys.executable, "python", folder=folder)
    wanted = [f"{name}=={version}" for name, version in PYPI.items()]
    _run(
        str(uv),
        "pip",
        "install",
        "--quiet",
        "--python",
        "python/bin/python",
        *wanted,
        folder=folder,
    )


def _run(*command: str, folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise NotInstalled(
            f"{' '.join(command[:2])} failed: {said[-1] if said else error}"
        ) from error


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{installed()}\n")
    except NotInstalled as error:
        sys.exit(str(error))
