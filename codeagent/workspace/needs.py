"""What a repository needs from the image its commands run in, as its own files say: programs, and a
Python version."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.disk.opens import read_regular

_PROGRAMS = {
    "package.json": "node",
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "go.mod": "go",
    "Cargo.toml": "cargo",
    "Gemfile": "ruby",
    "composer.json": "php",
    "mix.exs": "mix",
    "pom.xml": "mvn",
    "build.gradle": "java",
    "build.gradle.kts": "java",
    "CMakeLists.txt": "cmake",
    "Makefile": "make",
    "justfile": "just",
}
"""Files at the top of a repository, and the program without which nothing of that kind can be built
or tested."""
_LARGEST = 1024 * 1024
_RELEASE = re.compile(r"(?:cpython-)?(\d+(?:\.\d+){1,2})")


@dataclass(frozen=True)
class Need:
    file: str
    """The file that says so, relative to the workspace."""
    program: str
    version: str = ""
    """Which versions will do, such as `>=3.12`; empty: any."""

    def met_by(self, version: str) -> bool:
        """Whether a version of the program will do; any will if what is needed cannot be read."""
        from packaging.specifiers import (
            InvalidSpecifier,
            SpecifierSet,
        )  # takes 20 ms, and few commands need it

        try:
            return SpecifierSet(self.version).contains(version, prereleases=True)
        except InvalidSpecifier:
            return True


def needs_of(root: Path) -> tuple[Need, ...]:
    """Return what the files at the top of a repository need; nothing of it is run."""
    programs = dict.fromkeys(
        Need(name, program) for name, program in _PROGRAMS.items() if (root / name).is_file()
    )
    return (*programs, *_python(root))


def _python(root: Path) -> Iterator[Need]:
    if (text := _read(root / ".python-version")) is not None:
        lines = [
            line.strip()
            for line in text.splitlines()
            if line.strip() and not line.lstrip().startswith("#")
        ]
        release = _RELEASE.fullmatch(lines[0]) if lines else None
        if release is not None:
            minor = ".".join(release[1].split(".")[:2])
            yield Need(".python-version", "python3", f"=={minor}.*")
    try:
        project = tomllib.loads(_read(root / "pyproject.toml") or "").get("project")
    except (tomllib.TOMLDecodeError, RecursionError):
        return
    wanted = project.get("requires-python") if isinstance(project, dict) else None
    if isinstance(wanted, str) and wanted:
        yield Need("pyproject.toml", "python3", wanted)


def _read(path: Path) -> str | None:
    try:
        return read_regular(path, largest=_LARGEST).decode()
    except (OSError, UnicodeDecodeError):
        return None
