"""`--worktree`: makes the copy of the folder that a session works in, or returns to it."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from zlib import crc32

from codeagent.changes.diff import count
from codeagent.commands.arguments import say
from codeagent.config.local_environment import (
    ORIGIN,
    agrees_to,
    config_dir,
    git_elsewhere,
    kept_worktrees,
    origin_of,
    state_dir,
    worktrees_of,
)
from codeagent.core.errors import CheckpointError, ConfigError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import visible
from codeagent.disk.locks import open_lock_file, wait_for_lock
from codeagent.disk.opens import closing_fd
from codeagent.disk.private import make_private_folder
from codeagent.extensions.worktrees.merging import merge_of
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.worktrees import discard, make_worktree

_NAME = lazy_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


@contextmanager
def in_worktree(folder: Path, name: str) -> Iterator[Path]:
    """Yield the worktree of that name, made from the folder as it is now if it does not exist yet;
    then say what could be merged. Raises ConfigError, CheckpointError."""
    origin = origin_of(folder) or folder.resolve()
    if name and not _NAME.fullmatch(name):
        raise ConfigError(
            "--worktree: a name is made of letters, digits, - _ and . and has at most 40 characters"
        )
    kept = kept_worktrees()
    try:
        make_private_folder(kept)
        with closing_fd(open_lock_file(kept / "making")) as fd:
            wait_for_lock(fd)  # another start may choose the same name
            root, name = _opened(origin, name)
    except OSError as error:
        raise CheckpointError(f"the worktree cannot be made ({error.strerror})") from error
    yield root
    asyncio.run(_tell(root, name))


def _opened(origin: Path, name: str) -> tuple[Path, str]:
    """Return the worktree and its name, made if it does not exist. Raises CheckpointError,
    ConfigError, OSError."""
    known = worktrees_of(origin)
    suffix = f"-{crc32(bytes(origin)):08x}"
    if not name:
        taken = {key.removesuffix(suffix) for key in known}
        name = next(each for number in range(1, 10_000) if (each := str(number)) not in taken)
    key = f"{name}{suffix}"
    root = kept_worktrees() / key / origin.name
    if key not in known or not root.is_dir():
        asyncio.run(_make(origin, key))
    return root, name


async def _make(origin: Path, key: str) -> None:
    """Raises CheckpointError, ConfigError, OSError."""
    beside = kept_worktrees() / key
    if not ((beside / ORIGIN).exists() and (beside / origin.name).exists()):
        discard(beside)  # left behind by a start that was killed, or removed by hand
    own = config_dir()
    agreed = partial(agrees_to, workspace=origin, config_dir=own)
    with closing(GitCheckpoints(state_dir(), origin)) as store:
        worktree = await make_worktree(
            kept_worktrees(), origin, key, store, agreed, files=origin.name
        )
        worktree.keep(origin)
    if worktree.git and (elsewhere := git_elsewhere(worktree.root, own)) is not None:
        elsewhere.keep(True)  # the user agreed to it for the folder, or it is in the folder


async def _tell(root: Path, name: str) -> None:
    with suppress(CheckpointError):
        async with merge_of(root) as merge:
            offers = await merge.offers()
        if offers:
            say(
                f"{count(len(offers), 'file')} of the worktree {name} can be merged into {visible(str(merge.origin))}: "
                f"codeagent --worktree {name} --continue, then /merge"
            )
