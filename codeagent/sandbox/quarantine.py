"""What a command must not leave behind: a `.git` or `.codeagent` that was not there before."""

import os
import secrets
from pathlib import Path

from codeagent.sandbox.pinned import Found, PinnedRoot


def move_away(root: PinnedRoot, planted: Found, state_dir: Path) -> str:
    """Take it out of the workspace, unread; returns the sentence for the person and the model.

    It goes below the state directory, or, where that is another file system, stays in the
    workspace under a name that no tool looks for. Raises OSError.
    """
    plain = planted.name.lstrip(".") or "unnamed"
    folder = state_dir / "sandbox" / "quarantine"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = folder / f"{plain}-{secrets.token_hex(4)}"
    try:
        os.rename(planted.name, place, src_dir_fd=root.fd)
    except OSError:
        place = root.path / f"quarantined-{plain}-{secrets.token_hex(4)}"
        os.rename(planted.name, place.name, src_dir_fd=root.fd, dst_dir_fd=root.fd)
    return (
        f"the command created {planted.name}, which could run code outside the sandbox: it was moved to {place}; "
        "a person can create it themselves"
    )
