"""A small image that tests build on: bash and a few programs of this machine, in ten megabytes."""

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager

from codeagent.sandbox.engine import IMAGES, local_engine
from codeagent.sandbox.profile import DEFAULT_PATH

_PROGRAMS = ("bash", "sh", "cat", "id", "stat", "ls", "mkdir", "rm", "sleep", "env", "kill")
_FOLDERS = ("tmp", "proc", "sys", "dev", "etc", "run", "home", "usr", "var")


@contextmanager
def small_image() -> Iterator[str]:
    """An image of its own in each process; it goes at the end, with every image that was built
    meanwhile."""
    tag = f"{IMAGES}:tests-{os.getpid()}"
    with local_engine(os.environ.get("DOCKER_HOST")) as engine:
        before = {*engine.images(IMAGES)}
        engine.import_image(_root(), tag, [f"ENV PATH={DEFAULT_PATH}"])
        try:
            yield tag
        finally:
            mine = f"{IMAGES}:repository-"
            for made in {*engine.images(IMAGES)} - before:
                if made == tag or made.startswith(mine):
                    engine.remove_image(made)


def _root() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", dereference=True) as tar:
        found = {
            path: f"bin/{name}" for name in _PROGRAMS if (path := shutil.which(name)) is not None
        }
        for path in tuple(found):
            linked = subprocess.run(
                ["ldd", path], capture_output=True, text=True, check=False
            ).stdout.split()
            found |= {library: library[1:] for library in linked if library.startswith("/")}
        for path, name in found.items():
            tar.add(path, name)
        for name in _FOLDERS:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
    return buffer.getvalue()
