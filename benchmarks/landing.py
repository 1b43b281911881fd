"""Landing a change of 5,000 files and taking it back, against `cp -a` of the same files, flushed."""

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import Figure, ms

FILES = 5_000


def figures() -> Iterator[Figure]:
    from codeagent.changes.change_set import ChangeSet
    from codeagent.core.changes import Change
    from codeagent.core.checkpoints import Node
    from codeagent.workspace.files import LocalWorkspace

    old = {
        f"d{n % 50}/e{n % 5}/f{n}.py": Node("file", b"line %d\n" % n * 200) for n in range(FILES)
    }
    new = {path: Node("file", node.data + b"one more\n") for path, node in old.items()}
    made = ChangeSet(tuple(Change(path, None, node) for path, node in old.items()))
    edited = ChangeSet(tuple(Change(path, node, new[path]) for path, node in old.items()))
    with tempfile.TemporaryDirectory(prefix="codeagent-bench-") as folder:
        root = Path(folder, "work")
        root.mkdir()
        workspace = LocalWorkspace(root)
        steps: dict[str, Callable[[], object]] = {
            "made": lambda: made.land(workspace),
            "edited": lambda: edited.land(workspace),
            "edits taken back": lambda: edited.undo(workspace),
        }
        for what, step in steps.items():
            ours = _timed(step)
            floor = _timed(lambda: _copy(root, Path(folder, "copy")))
            yield Figure(
                f"landing: {FILES:,} files {what}",
                ms(ours),
                f"cp -a, sync -f {ms(floor)}",
                ours / floor,
                "",
            )
        workspace.close()


def _copy(root: Path, copy: Path) -> None:
    subprocess.run(["cp", "-a", "--remove-destination", "-T", root, copy], check=True)
    subprocess.run(["sync", "-f", copy], check=True)


def _timed(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started
