"""Which Python commands get: `python` and `python3` are the same one, the activated environment's if there is one.

Only names that belong to Python come before the image's own programs: a file in the workspace must not stand in for
`ls` or `git`, which run unasked.
"""

import os
import re
import shlex
from hashlib import sha256
from pathlib import Path

from codeagent.sandbox.profile import Bind

FOLDER = "/run/codeagent-python"
"""Where the scripts are seen inside, each of which starts one program."""
_NAMES = re.compile(
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
    """Names, and what each leads to inside. `python`: where python3 is inside.

    Empty where the image's own programs are right as they are.
    """
    if virtual_env is not None and (virtual_env / "pyvenv.cfg").is_file():
        folder = virtual_env / "bin"
        names = sorted(name for name in _listed(folder) if _NAMES.fullmatch(name))
        return {name: str(folder / name) for name in names}
    if python is None:
        return {}
    pip = {name: str(python.with_name(name)) for name in ("pip", "pip3") if python.with_name(name).exists()}
    return dict.fromkeys(_OF_PYTHON, str(python)) | pip


def start_scripts(state_dir: Path, links: dict[str, str]) -> Bind:
    """A folder of scripts, made where missing; an environment's Python must be started by its own path to be that one.

    Raises OSError.
    """
    texts = {name: _SCRIPT.format(target=shlex.quote(target)) for name, target in links.items()}
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
    """PATH inside: Python's names, the image's own folders, then whatever else the environment has."""
    if not links:
        return path
    return f"{FOLDER}:{path}" + (f":{virtual_env}/bin" if virtual_env is not None else "")


def host_python(prefix: str | None, python: Path | None) -> Path | None:
    """Which of the two that may be inside is `python3` for the user: this program's own, or the distribution's.

    `prefix`: where this program's own is installed, None where that is below /usr.
    """
    real = None if python is None else Path(os.path.realpath(python))
    usual = Path("/usr/bin/python3")
    if prefix is not None and ((real is not None and Path(prefix) in real.parents) or not usual.exists()):
        return Path(prefix) / "bin" / "python3"
    return usual if usual.exists() else None


def _listed(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []
