"""Decides as which user commands run, and keeps the files that they make usable for the workspace's owner.

Commands run as the owner of the workspace. If that is root, they run as an ordinary user whom the workspace is shown
as its own, by mounts with mapped ids: to be root means more than capabilities, as much of a container is root's.
"""

import os
import select
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.host_programs import ID_MAPPING, open_program
from codeagent.sandbox.mounts import PinnedRoot
from codeagent.sandbox.profile import Bind

ORDINARY = 65532
"""Uid and gid of commands in a workspace that belongs to root; nobody else's on this machine."""
_RUN = Path("/run")
"""In memory, and only root can write there: nothing of a mount that a crash leaves is there after a restart."""
_SECONDS = 5.0
_GIT_VARIABLES = (("GIT_CONFIG_COUNT", "2"), ("GIT_CONFIG_KEY_1", "core.checkStat"), ("GIT_CONFIG_VALUE_1", "minimal"))
"""Behind the one that all commands have, see `profile.ENVIRONMENT`."""
_PROGRAM = Path(__file__).with_name("id_mapping.py")


@dataclass(frozen=True)
class WorkUser:
    """As whom commands run in one container."""

    uid: int
    gid: int
    why_root: str = ""
    """Why they run as root, as a phrase; empty if they do not."""
    mapped: bool = False
    """The workspace belongs to root, and is shown as this user's."""

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """The environment that commands need for this, as names and values.

        An index of git has its files' owner, as it is on the disk: git would take each file for changed, and read it.
        """
        return _GIT_VARIABLES if self.mapped else ()

    def describe(self) -> str:
        if self.uid == 0:
            return f"root, no capabilities ({self.why_root})"
        ids = f"{self.uid}:{self.gid}"
        return f"{ids}, as whose the files of root are shown (mapped ids)" if self.mapped else ids


class WorkUserChoice:
    """The user of one container that is being made, and the mounts that it needs."""

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
        """Return the mounts with those folders, and what is in them, as they are shown."""
        return tuple(replace(bind, source=self._shown(bind.source)) for bind in binds)

    def _shown(self, path: str) -> str:
        for folder, place in self._mounts.items():
            if path == folder or path.startswith(f"{folder}/"):
                return place + path.removeprefix(folder)
        return path


@contextmanager
def choose_user(root: PinnedRoot, why_root: str) -> Iterator[WorkUserChoice]:
    """Yield the user of commands; the mounts end with the context, and those that a container made of them stay.

    `why_root`: why commands have to run as root if that is the workspace's owner; empty if that is not known yet.
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
        yield WorkUserChoice(replace(owner, why_root=f"the program that maps ids does not start: {error}"), None)
        return
    with mapping:
        yield WorkUserChoice(owner, mapping)


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


def _outermost(folders: Iterable[str]) -> list[str]:
    """Return the folders that are in none of the others."""
    kept: list[str] = []
    for folder in sorted({*folders}):
        if not any(folder.startswith(f"{other}/") for other in kept):
            kept.append(folder)
    return kept
