"""Source distributions and test tools: from pip, checked against recorded hashes, kept in the
user's cache folder."""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from platformdirs import user_cache_path
from pydantic import BaseModel, ConfigDict

CACHE = user_cache_path("codeagent") / "bugfixes"
TEST_TOOLS = (
    "pytest==7.4.4",
    "pluggy==1.5.0",
    "iniconfig==2.0.0",
    "packaging==24.2",
    "six==1.16.0",
)
"""The pytest of the packages' own time, and what it and they need; pure Python, so the container's
Python runs it."""


class Release(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    sha256: str
    """Of the source distribution."""


class Fix(BaseModel):
    """One bug of one package."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    package: str
    bug: str
    old: Release
    new: Release
    tests: str
    """Folder of the tests in the newer release; it takes the place of the older one's, where that
    has any."""
    failing: tuple[str, ...]
    """Test ids that fail with the old code and pass with the new."""
    hunks: dict[str, tuple[int, ...]]
    """Per file the changes that make the fix, counted from 0 among all changes between the
    releases."""


class Trouble(Exception):
    """A fix cannot be tried at all; the text says why."""


def unpacked(package: str, release: Release, folder: Path) -> Path:
    """The folder of the release's sources, below `folder`. Raises Trouble."""
    with tarfile.open(source_distribution(package, release)) as archive:
        archive.extractall(folder, filter="data")
    return next(folder.iterdir())


def source_distribution(package: str, release: Release) -> Path:
    """Raises Trouble where pip cannot get it, or gets another one."""
    kept = CACHE / f"{package}-{release.version}"
    if not kept.exists():
        with tempfile.TemporaryDirectory(prefix="codeagent-bugfix-") as folder:
            wanted = Path(folder, "wanted.txt")
            wanted.write_text(f"{package}=={release.version} --hash=sha256:{release.sha256}\n")
            got = Path(folder, "got")
            _pip(
                "download",
                "--no-deps",
                "--no-binary",
                ":all:",
                "--require-hashes",
                "-d",
                str(got),
                "-r",
                str(wanted),
            )
            _keep(got, kept)
    archive = next(kept.glob("*.tar.gz"))
    if hashlib.sha256(archive.read_bytes()).hexdigest() != release.sha256:
        raise Trouble(f"{archive} is not the recorded file; remove {kept} to get it again")
    return archive


def test_tools() -> Path:
    kept = CACHE / "-".join(["tools", *(tool.partition("==")[2] for tool in TEST_TOOLS)])
    if not kept.exists():
        with tempfile.TemporaryDirectory(prefix="codeagent-bugfix-") as folder:
            got = Path(folder, "got")
            _pip(
                "install",
                "--no-deps",
                "--only-binary",
                ":all:",
                "--no-compile",
                "--target",
                str(got),
                *TEST_TOOLS,
            )
            _keep(got, kept)
    return kept


def _keep(got: Path, kept: Path) -> None:
    """Into the cache in one step, so that an interruption leaves nothing half made there."""
    half = kept.with_name(f"{kept.name}.{os.getpid()}")
    half.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(got, half)
    half.rename(kept)


def _pip(*arguments: str) -> None:
    output_of(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments],
        dict(os.environ),
    )


def output_of(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        raise Trouble(f"{shlex.join(command[:6])} … failed: {done.stderr.strip()[-400:]}")
    return done.stdout
