"""Decides which user commands run as, and keeps the files that they make usable for the workspace's
owner.

Commands run as the owner of the workspace. If that is root, they run as an ordinary user, who sees
the workspace as its own through mounts with mapped ids: even without capabilities, root owns much
of what is in a container.
"""

import os
import select
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.host_programs import ID_MAPPING, open_program
from codeagent.sandbox.mounts import PinnedRoot
from codeagent.sandbox.spec import Bind

ORDINARY = 65532
"""Uid and gid of commands in a workspace that belongs to root; no user of this machine has them."""
_RUN = Path("/run")
"""In memory, and only root can write there: what a crash leaves of a mount is gone after a
restart."""
_SECONDS = 5.0
"""How long to wait for the mounts, and for their end."""
_GIT_VARIABLES = (
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_1", "core.checkStat"),
    ("GIT_CONFIG_VALUE_1", "minimal"),
)
"""They follow the one that all commands have, see `profile.ENVIRONMENT`."""
_PROGRAM = Path(__file__).with_name("id_mapping.py")


@dataclass(frozen=True)
class WorkUser:
    """The user that commands run as in one container."""

    uid: int
    gid: int
    why_root: str = ""
    """Why they run as root, as a phrase; empty if they do not."""
    mapped: bool = False
    """Whether the workspace belongs to root and is shown as this user's."""

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """The environment that commands need for this, as names and values.

        Git's index has the owner that each file has on the disk: git would take every file for
        changed, and read it.
        """
        return _GIT_VARIABLES if self.mapped else ()

    def describe(self) -> str:
        if self.uid == 0:
            return f"root, no capabilities ({self.why_root})"
        ids = f"{self.uid}:{self.gid}"
        return f"{ids}, who sees the files of root as its own (mapped ids)" if self.mapped else ids


class WorkUserChoice:
    """The user of commands in a container that is being made, and the mounts that this user
    needs."""

    def __init__(self, user: WorkUser, mapping: subprocess.Popen[bytes] | None) -> None:
        """`mapping`: the program that can make such mounts; None if commands run as the owner."""
        self.user = user
        self._mapping = mapping
        self._mounts: dict[str, str] = {}

    def show(self, folders: Iterable[str]) -> None:
        """Mount these folders with mapped ids, or find out why commands have to run as root."""
        if self._mapping is None:
            return
        wanted = _outermost(folders)
        ordinary = replace(self.user, uid=ORDINARY, gid=self.user.gid or ORDINARY, mapped=True)
        place = f"{_RUN}/codeagent-{self._mapping.pid}"
        ids = (str(ordinary.uid), str(ordinary.gid if self.user.gid == 0 else 0))
        if problem := _asked(self._mapping, [place, *ids, *wanted]):
            self.user = replace(self.user, why_root=f"ids cannot be mapped here: {problem}")
            return
        self.user = ordinary
        self._mounts = {folder: f"{place}/{at}" for at, folder in enumerate(wanted)}

    def over(self, binds: tuple[Bind, ...]) -> tuple[Bind, ...]:
        """Return the mounts, with the mapped folders and what is in them in place of the
        originals."""
        return tuple(replace(bind, source=self.shown(bind.source)) for bind in binds)

    def shown(self, path: str) -> str:
        """Return where the engine finds what is at this path, as its user sees it."""
        for folder, place in self._mounts.items():
            if path == folder or path.startswith(f"{folder}/"):
                return place + path.removeprefix(folder)
        return path


@contextmanager
def choose_user(root: PinnedRoot, why_root: str) -> Iterator[WorkUserChoice]:
    """Yield the user of commands. The mounts end with the context; a container keeps its copies.

    `why_root`: why commands have to run as root in a workspace that belongs to root; empty if
    nothing says so yet.
    """
    owner = WorkUser(root.uid, root.gid)
    if root.uid != 0:
        yield WorkUserChoice(owner, None)
        return
    if why_root or os.geteuid() != 0:
        why = why_root or "only root can map ids"
        yield WorkUserChoice(replace(owner, why_root=why), None)
        return
    try:
        mapping = open_program(
            ID_MAPPING,
            [sys.executable, "-I", "-S", str(_PROGRAM)],
            folder="/",
            environment={},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        yield WorkUserChoice(
            replace(owner, why_root=f"the program that maps ids does not start: {error}"), None
        )
        return
    try:
        yield WorkUserChoice(owner, mapping)
    finally:
        _end(mapping)


def _asked(mapping: subprocess.Popen[bytes], words: list[str]) -> str:
    """Let the program make the mounts; return why it could not, as a phrase."""
    assert mapping.stdin is not None and mapping.stdout is not None
    try:
        mapping.stdin.write(b"".join(os.fsencode(word) + b"\0" for word in words) + b"\n")
        answers = select.poll()  # `select` knows only the first thousand descriptors
        answers.register(mapping.stdout, select.POLLIN)
        answered = answers.poll(_SECONDS * 1000)
        answer = mapping.stdout.readline().decode("utf-8", "replace").strip() if answered else ""
    except OSError as error:
        return error.strerror or str(error)
    return "" if answer == "ok" else answer or "the program for it did not answer"


def _end(mapping: subprocess.Popen[bytes]) -> None:
    """End the mounts, and wait for that; a program that hangs ends them once it can."""
    assert mapping.stdin is not None and mapping.stdout is not None
    mapping.stdin.close()
    mapping.stdout.close()
    with suppress(subprocess.TimeoutExpired):
        mapping.wait(_SECONDS)


def _outermost(folders: Iterable[str]) -> list[str]:
    """Return the folders that are not inside any other of them."""
    kept: list[str] = []
    for folder in sorted({*folders}):
        if not any(folder.startswith(f"{other}/") for other in kept):
            kept.append(folder)
    return kept
