"""The folders on this machine in which views of the workspace keep their changes."""

import os
import secrets
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from codeagent.changes.layer_copy import make_like
from codeagent.changes.layer_landing import LayerLanding
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SandboxUnavailable
from codeagent.disk.locks import locked
from codeagent.disk.opens import closing_fd, open_folder, remove_tree
from codeagent.disk.private import make_private_folder
from codeagent.sandbox.mounts import PinnedRoot
from codeagent.sandbox.thaw import is_stray, owner

_OWNER = "owner"
"""The file with the process that a layer belongs to."""


@dataclass(frozen=True)
class Layer:
    """The folder of one layer: `upper` has the changes, `work` is the kernel's."""

    folder: Path

    def upper(self) -> AbstractContextManager[int]:
        """Open the folder with the changes for the block."""
        return closing_fd(open_folder(self.folder / "upper"))

    def now(self) -> int:
        """Return the present time by the file system's clock, in nanoseconds since the epoch."""
        marker = self.folder / "began"
        marker.write_bytes(b"")
        return marker.stat().st_ctime_ns


def new_layer(state_dir: Path, root: PinnedRoot) -> Layer:
    """Make an empty layer for the workspace, with its root's owner, mode and attributes. Raises
    SandboxUnavailable."""
    folder = _layers(state_dir) / secrets.token_hex(8)
    upper = folder / "upper"
    try:
        make_private_folder(folder)
        (folder / _OWNER).write_text(owner(os.getpid()) or "", encoding="ascii")
        upper.mkdir()
        with closing_fd(open_folder(upper)) as made, root.listed() as shown:
            make_like(made, shown)
        # The kernel makes its folder in it as root, and the owner of this one has to remove that.
        (folder / "work").mkdir()
        (folder / "work").chmod(0o777)
    except OSError as error:
        raise SandboxUnavailable(
            f"a view of the workspace cannot be kept in {folder.parent} ({error.strerror})",
            "make it writable, or set XDG_STATE_HOME to a folder that is",
        ) from error
    return Layer(folder)


def remove_layer(layer: Layer) -> None:
    """Remove a layer whose container has ended; what belongs to the engine is moved aside, see
    `spent`. Raises OSError."""
    with closing_fd(open_folder(layer.folder.parent)) as layers:
        remove_tree(layer.folder.name, layers)
    if layer.folder.exists():
        aside = spent(layer.folder.parent.parent.parent)
        make_private_folder(aside)
        layer.folder.rename(aside / layer.folder.name)


def finish_landings(state_dir: Path, root: Path) -> tuple[str, ...]:
    """Finish landings in this workspace that processes had begun which have ended, and remove what
    they left; return a line about each."""
    said: list[str] = []
    if not (left := _left(state_dir)):
        return ()
    with locked(_layers(state_dir).with_suffix(".lock")):
        for layer in left:
            said += _finished(layer, root)
    return tuple(said)


def _finished(layer: Layer, root: Path) -> list[str]:
    try:
        with closing_fd(open_folder(root)) as fd:
            landing = LayerLanding(layer.folder, fd)
            said = [*(landing.finish() or ())]
            elsewhere = landing.begun_elsewhere
        if not elsewhere:
            remove_layer(layer)
    except FileNotFoundError:
        return []  # another process has just done it
    except OSError as error:
        return [f"{layer.folder} could not be removed: {os.strerror(error.errno or 0)}"]
    return said


def _left(state_dir: Path) -> list[Layer]:
    """Return the layers whose processes have ended."""
    found = []
    for folder in sorted(_layers(state_dir).glob("*")):
        with suppress(OSError):
            if is_stray((folder / _OWNER).read_text(encoding="ascii")):
                found.append(Layer(folder))
    return found


def spent(state_dir: Path) -> Path:
    """Return the folder of what is left of layers and only the engine can remove."""
    return state_dir / "sandbox" / "spent-layers"


def _layers(state_dir: Path) -> Path:
    return state_dir / "sandbox" / "layers"
