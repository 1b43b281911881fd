"""Whatever a folder holds and becomes, each of its snapshots brings back exactly what was there."""

import asyncio
import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.core.checkpoints import Node, NodeKind
from codeagent.workspace.checkpoints import GitCheckpoints
from tests.effort import times
from tests.workspace.trees import empty, look

NAMES = st.one_of(
    st.sampled_from(["a", "b", "c", "-x", "a b", "a.log"]),
    st.binary(min_size=1, max_size=12).map(
        lambda raw: os.fsdecode(raw.translate(None, b"/\0")) or "x"
    ),
).filter(
    lambda name: name not in (".", "..") and not name.startswith((".", "git~")) and "\\" not in name
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
DATA = st.one_of(st.binary(max_size=40), st.sampled_from([b"", b"one\r\n", b"$Id$", b"\0" * 5000]))
TARGETS = st.binary(min_size=1, max_size=20).map(lambda raw: raw.replace(b"\0", b"0"))
KINDS: tuple[NodeKind, ...] = ("file", "executable")
NODES = st.one_of(
    st.builds(Node, st.sampled_from(KINDS), DATA), st.builds(Node, st.just("link"), TARGETS)
)
TREES = st.dictionaries(PATHS, NODES, max_size=8)
Tree = dict[str, Node]


def plant(root: Path, tree: Tree) -> None:
    """What can be of the tree: a path below a file is passed over."""
    empty(root)
    for path, node in tree.items():
        place = root / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(place):
                continue
            if node.kind == "link":
                place.symlink_to(os.fsdecode(node.data))
                continue
            place.write_bytes(node.data)
        except OSError:
            continue
        place.chmod(0o755 if node.kind == "executable" else 0o644)


async def round_trip(base: Path, trees: list[Tree], way: list[int]) -> None:
    root = base / "work"
    root.mkdir()
    checkpoints = GitCheckpoints(base / "state", root, environment={})
    ids, looks = [], []
    for tree in trees:
        plant(root, tree)
        ids.append((await checkpoints.take()).id)
        looks.append(look(root))
    assert [ids[0] == other for other in ids] == [looks[0] == other for other in looks]
    present = ids[-1]
    for step in way:
        target = step % len(ids)
        changes = await checkpoints.changes(present, ids[target])
        assert await checkpoints.restore(ids[target], present=present) == changes
        assert look(root) == looks[target]
        present = ids[target]
    assert (await checkpoints.take()).id == present
    checkpoints.close()


@settings(max_examples=times(15), deadline=None)
@given(st.lists(TREES, min_size=2, max_size=4), st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_any_way_through_any_trees_gives_back_each_of_them(
    trees: list[Tree], way: list[int]
) -> None:
    with tempfile.TemporaryDirectory(prefix="codeagent-test-") as folder:
        asyncio.run(round_trip(Path(folder), trees, way))
