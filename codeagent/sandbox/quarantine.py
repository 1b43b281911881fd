"""What a command must not leave behind is moved out of the workspace, unread."""

import os
import secrets
from collections.abc import Collection
from pathlib import Path

from codeagent.sandbox.pinned import PinnedRoot, folder_of


def move_planted(root: PinnedRoot, known: Collection[str], state_dir: Path) -> tuple[str, ...]:
    """Move away what is protected by name at the root and not known; a sentence on each, for user and model."""
    return tuple(_moved(root, found.name, state_dir) for found in root.protected() if found.name not in known)


def _moved(root: PinnedRoot, name: str, state_dir: Path) -> str:
    try:
        place = set_aside(root, name, state_dir)
    except OSError as error:
        return f"{name} appeared and could not be moved away ({error.strerror}): look at it before using git"
    return (
        f"a command created {name}, which could run code outside the sandbox: it was moved to {place}; "
        "the user can create it themselves"
    )


def set_aside(root: PinnedRoot, name: str, state_dir: Path) -> Path:
    """Move what is at `name` (relative to the root) below the state directory; returns where it is. Raises OSError.

    Where that is another file system, it stays in the workspace under a name that no tool looks for.
    """
    plain = name.rpartition("/")[2].lstrip(".") or "unnamed"
    new_name = f"{plain}-{secrets.token_hex(4)}"
    folder = state_dir / "sandbox" / "quarantine"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    parent, last = folder_of(root.fd, name)
    try:
        try:
            os.rename(last, folder / new_name, src_dir_fd=parent)
            return folder / new_name
        except OSError:
            os.rename(last, f"quarantined-{new_name}", src_dir_fd=parent, dst_dir_fd=parent)
        _behead(parent, f"quarantined-{new_name}")
    finally:
        os.close(parent)
    return (root.path / name).with_name(f"quarantined-{new_name}")


def _behead(parent: int, name: str) -> None:
    """Git takes a folder for a repository by what is in it, whatever it is called: not without its HEAD."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except NotADirectoryError:
        return
    try:
        os.rename("HEAD", "quarantined-HEAD", src_dir_fd=fd, dst_dir_fd=fd)
    except FileNotFoundError:
        return
    finally:
        os.close(fd)
