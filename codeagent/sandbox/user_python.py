"""The user's own Python in the container: its links, start scripts and search path."""

import os
import shlex
from hashlib import sha256
from pathlib import Path

from codeagent.core.lazy_regex import lazy_regex
from codeagent.sandbox.spec import Bind

FOLDER = "/run/codeagent-python"
"""Where the scripts that start Python's programs are mounted."""
_NAMES = lazy_regex(
    r"(?:python|pip)[\d.]*|pytest|py\.test|mypy|ruff|black|isort|flake8|pylint|tox|nox|coverage|ipython|sphinx-build"
    r"|uvicorn|gunicorn|flask|django-admin|celery|alembic|pre-commit|hatch|pdm|poetry"
)
_SCRIPT = """#!/bin/sh
[ -x {target} ] && exec {target} "$@"
printf '%s: its interpreter is not in the sandbox\\n' {target} >&2
exit 127
"""
_OF_PYTHON = ("python", "python3")


def python_links(virtual_env: Path | None, python: Path | None) -> dict[str, str]:
    """Return names and what each leads to inside; `python`: where python3 is inside.

    Empty if the image's own programs are right as they are.
    """
    if virtual_env is not None and (virtual_env / "pyvenv.cfg").is_file():
        folder = virtual_env / "bin"
        return {name: str(folder / name) for name in python_names(folder)}
    if python is None:
        return {}
    pip = {
        name: str(python.with_name(name))
        for name in ("pip", "pip3")
        if python.with_name(name).exists()
    }
    return dict.fromkeys(_OF_PYTHON, str(python)) | pip


def python_names(folder: Path) -> list[str]:
    """Return the programs in an environment's folder that belong to Python."""
    return sorted(name for name in _listed(folder) if _NAMES.fullmatch(name))


def start_script(target: str) -> str:
    """Return a script that starts a program of Python by its own path."""
    return _SCRIPT.format(target=shlex.quote(target))


def start_scripts(state_dir: Path, links: dict[str, str]) -> Bind:
    """Make a folder of scripts, since an environment's Python must be started by its own path.
    Raises OSError."""
    texts = {name: start_script(target) for name, target in links.items()}
    digest = sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]
    folder = state_dir / "sandbox" / f"python-{digest}"
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder.chmod(0o755)
    for name, text in texts.items():
        script = folder / name
        if not script.exists() or script.read_text(encoding="utf-8") != text:
            script.unlink(missing_ok=True)
            script.write_text(text, encoding="utf-8")
        script.chmod(0o755)
    return Bind(str(folder), FOLDER)


def search_path(path: str, links: dict[str, str], virtual_env: Path | None) -> str:
    """Return PATH inside: Python's names, the image's own folders, then the rest of the
    environment."""
    if not links:
        return path
    return f"{FOLDER}:{path}" + (f":{virtual_env}/bin" if virtual_env is not None else "")


def host_python(prefix: str | None, python: Path | None) -> Path | None:
    """Return which of two is the user's `python3`: this program's own, or the distribution's.

    `prefix`: where this program's own is installed, None if that is below /usr.
    """
    real = None if python is None else Path(os.path.realpath(python))
    usual = Path("/usr/bin/python3")
    if prefix is not None and (
        (real is not None and Path(prefix) in real.parents) or not usual.exists()
    ):
        return Path(prefix) / "bin" / "python3"
    return usual if usual.exists() else None


def _listed(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []
