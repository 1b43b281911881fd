"""The folders on this machine in which views of the workspace keep their changes."""

import os
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from codeagent.changes.layer_copy import make_like
from codeagent.changes.layer_landing import LayerLanding, landing_begun
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import SandboxUnavailable
from codeagent.disk.locks import locked
from codeagent.disk.opens import closing_fd, open_folder
from codeagent.disk.private import make_private_folder
from codeagent.disk.trees import remove_tree
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

    @contextmanager
    def landing(self, root: int) -> Iterator[LayerLanding]:
        """Be the only one that lands layers, for the block: two that take back the same file could
        lose it. Raises OSError."""
        with locked(self.folder.parent.with_name("landing.lock")):
            yield LayerLanding(self.folder, root)

    def now(self) -> int:
        """Return the current time by the file system's clock, in nanoseconds since the epoch: what
        changed before has no later time, and what changes from now on has."""
        marker = self.folder / "began"
        marker.write_bytes(b"")
        before = marker.stat().st_ctime_ns
        while (now := marker.stat().st_ctime_ns) == before:
            os.utime(marker)
        return now - 1


def new_layer(state_dir: Path, root: PinnedRoot) -> Layer:
    """Make an empty layer for the workspace, with its root's owner, mode and attributes. Raises
    SandboxUnavailable."""
    folder = _layers(state_dir) / secrets.token_hex(8)
    upper = folder / "upper"
    try:
        with _listing(state_dir):
            make_private_folder(folder)
            (folder / _OWNER).write_text(owner(os.getpid()) or "unknown", encoding="ascii")
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
    """Remove a layer whose container has ended, unless a landing of it has to be finished.

    What belongs to the engine is moved aside, see `spent`. Raises OSError.
    """
    if landing_begun(layer.folder):
        return
    with closing_fd(open_folder(layer.folder.parent)) as layers:
        remove_tree(layer.folder.name, layers)
    if layer.folder.exists():
        aside = spent(layer.folder.parent.parent.parent)
        make_private_folder(aside)
        layer.folder.rename(aside / layer.folder.name)


def finish_landings(state_dir: Path, root: Path) -> tuple[str, ...]:
    """Finish landings in this workspace that processes had begun which have ended, and remove what
    they left; return a line about each."""
    try:
        with _listing(state_dir):
            every = sorted(_layers(state_dir).glob("*"))
            left = [Layer(folder) for folder in every if _is_left(folder)]
    except OSError as error:
        return (f"{_layers(state_dir)} could not be looked through: {error.strerror}",)
    return tuple(line for layer in left for line in _finished(layer, root))


def _finished(layer: Layer, root: Path) -> list[str]:
    said: list[str] = []
    try:
        with closing_fd(open_folder(root)) as fd, layer.landing(fd) as landing:
            said += landing.finish() or ()
        remove_layer(layer)
    except FileNotFoundError:
        return said  # another process has just done it
    except OSError as error:
        said.append(f"{layer.folder} could not be removed: {os.strerror(error.errno or 0)}")
    except (ValueError, TypeError, KeyError) as error:
        said.append(f"{layer.folder} was kept, as its journal cannot be read: {error}")
    return said


def _is_left(folder: Path) -> bool:
    """Whether the process that a layer belongs to has ended."""
    try:
        written = (folder / _OWNER).read_text(encoding="ascii")
    except FileNotFoundError:
        written = ""
    except OSError:
        return False
    # Without one it was killed while it made or removed it.
    return not written or is_stray(written)


@contextmanager
def _listing(state_dir: Path) -> Iterator[None]:
    """Be the only one that makes layers or looks at whose they are, for the block. Raises
    OSError."""
    with locked(_layers(state_dir).with_suffix(".lock")):
        yield


def spent(state_dir: Path) -> Path:
    """Return the folder of what is left of layers and only the engine can remove."""
    return state_dir / "sandbox" / "spent-layers"


def _layers(state_dir: Path) -> Path:
    return state_dir / "sandbox" / "layers"
