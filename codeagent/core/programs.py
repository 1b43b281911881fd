"""Finds programs to run, never one that lies in the workspace."""

import os
import shutil
from pathlib import Path


def find_program(name: str, workspace: Path) -> str | None:
    """The first on PATH, by an absolute folder, that is not in the workspace, links followed."""
    outside = [
        folder
        for folder in os.environ.get("PATH", "").split(os.pathsep)
        if Path(folder).is_absolute() and not Path(folder).resolve().is_relative_to(workspace)
    ]
    found = shutil.which(name, path=os.pathsep.join(outside))
    return found if found is None or not Path(found).resolve().is_relative_to(workspace) else None
