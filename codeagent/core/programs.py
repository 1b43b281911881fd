"""Finds programs to run, never one in the workspace, and the command that runs this program
again."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

Version = tuple[int, int, int]
_SEARCH_VARIABLES_AS_TEXT = """
BASH_ENV BUNDLE_GEMFILE CLASSPATH ENV GEM_HOME GEM_PATH LD_LIBRARY_PATH LD_PRELOAD NODE_OPTIONS NODE_PATH
PERL5LIB PERL5OPT PYTHONHOME PYTHONPATH PYTHONSTARTUP RUBYLIB RUBYOPT VIRTUAL_ENV
"""
SEARCH_VARIABLES = frozenset(_SEARCH_VARIABLES_AS_TEXT.split())
"""Variables that say where a program finds code to load."""


def find_program(name: str, workspace: Path) -> str | None:
    """Find the first on PATH, in an absolute folder, that is not in the workspace after following
    links.

    A name with a slash is a path that somebody chose: it is used unchanged if a program is there.
    """
    if "/" in name:
        return shutil.which(name)
    root = workspace.resolve()
    for folder in path_outside(os.environ.get("PATH", ""), workspace).split(os.pathsep):
        found = shutil.which(name, path=folder) if folder else None
        if found is not None and not Path(found).resolve().is_relative_to(root):
            return found
    return None


def path_outside(path: str, workspace: Path) -> str:
    """Return a PATH without its folders that are relative, or in the workspace after following
    links."""
    root = Path(os.path.realpath(workspace))
    folders = (folder for folder in path.split(os.pathsep) if Path(folder).is_absolute())
    return os.pathsep.join(
        each for each in folders if not Path(os.path.realpath(each)).is_relative_to(root)
    )


def why_not_found(name: str, workspace: Path) -> tuple[str, str]:
    """Say why `find_program` returned None, as a clause, and what to do about it."""
    found = shutil.which(name)
    if found is None:
        return f"{name} is not on PATH", f"install {name}"
    return (
        f"{found} lies in the workspace {workspace}, where it may have been changed, so it is not run",
        "start codeagent in a project",
    )


def needed_version(text: str, fixed: Sequence[Version]) -> str | None:
    """Return the version to upgrade to if the one in `text` is older than a fix; None if it has the
    fix.

    `fixed`: the first version of each line with the fix, ascending; lines before them never got it,
    and lines after them always had it. Raises ValueError if there is no version in `text`.
    """
    numbers = re.search(r"(\d+)\.(\d+)\.(\d+)", text)
    if numbers is None:
        raise ValueError(f"no version in {text!r}")
    version = tuple(map(int, numbers.groups()))
    needed = next((fix for fix in fixed if fix[:2] >= version[:2]), None)
    if needed is None or version >= needed:
        return None
    return ".".join(map(str, needed))


def this_system() -> str:
    """Name this system, its release and machine; the module `platform` would run whatever `uname`
    is first on PATH."""
    found = os.uname()
    return f"{found.sysname} {found.release} {found.machine}"


def this_program() -> str:
    """Return what to type in a shell to run codeagent as it was run now: by name only if PATH finds
    this very file.

    With `-P`, Python looks for no module in the current folder, which can be a stranger's
    repository.
    """
    path = Path(sys.argv[0])
    try:
        path = path.absolute()
    except FileNotFoundError:
        pass  # the current folder was removed
    if path.name == "__main__.py":
        name = __package__.partition(".")[0]
        found = shutil.which(name)
        # A detached session runs as a module; its program is the one beside its interpreter.
        if found and Path(found).resolve().parent == Path(sys.executable).parent:
            return name
        return f"{shlex.quote(sys.executable)} -P -m {name}"
    if shutil.which(path.name) == str(path):
        return path.name
    return shlex.quote(str(path))
