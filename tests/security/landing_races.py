"""Lands layers while somebody else changes the same workspace, again and again: run by its test.

A process of its own, so that it may fork without the threads of the test run. Arguments: folder,
seed, rounds.
"""

import json
import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from codeagent.core.errors import ContentChanged
from codeagent.sandbox.layers import new_layer, remove_layer
from codeagent.sandbox.mounts import PinnedRoot
from tests.faults.layer_kills import Kept
from tests.layers import Tree, make_tree, tree_of

_PATHS = [f"{folder}f{number}" for folder in ("", "d/", "d/e/", "h/") for number in range(6)]
TAKEN, REFUSED = 0, 9


def beside(start: int, work: Callable[[], bool]) -> int:
    """Do the work in another process, once something can be read from `start`; return its id."""
    if child := os.fork():
        return child
    status = 1
    try:
        os.read(start, 1)
        status = TAKEN if work() else REFUSED
    finally:
        os._exit(status)


def at_once(*work: Callable[[], bool]) -> list[bool]:
    """Do all of it at the same time; return whether each was done."""
    start, go = os.pipe()
    children = [beside(start, each) for each in work]
    os.write(go, b"!" * len(children))
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    os.close(start)
    os.close(go)
    assert {*ended} <= {TAKEN, REFUSED}, "the work itself failed"
    return [status == TAKEN for status in ended]


def changed(dice: random.Random, before: Tree, word: str, paths: list[str]) -> Tree:
    """The tree after some of these files were changed or removed, and others made."""
    after = dict(before)
    for path in dice.sample(paths, len(paths) // 2):
        if path in after and dice.random() < 0.2:
            del after[path]
        else:
            after[path] = f"{word}\n"
    return after


def landing(work: Path, state: Path, after: Tree) -> Callable[[], bool]:
    """Read what a layer changes now; what is returned lands it and says whether that was
    possible."""
    with closing(PinnedRoot(work)) as root:
        layer = new_layer(state, root)
        view = Kept(layer.folder, work)
        view.becomes(after)
        steps = view.planned(view.effects())

    def land() -> bool:
        with closing(PinnedRoot(work)) as root, root.listed() as fd:
            try:
                with layer.landing(fd) as landing:
                    landing.land(steps)
            except ContentChanged:
                return False
            finally:
                remove_layer(layer)
        return True

    return land


def edit(path: Path, text: str, seconds: float, *, whole: bool) -> Callable[[], bool]:
    """What a user does: write the file in place, or a new one that is given its name."""

    def write() -> bool:
        time.sleep(seconds)
        place = path.with_name(".new") if whole else path
        place.write_text(text)
        if whole:
            place.replace(path)
        return True

    return write


def merged(before: Tree, *afters: Tree) -> Tree:
    found = dict(before)
    for after in afters:
        for path in before.keys() - after.keys():
            found.pop(path, None)
        found |= {path: text for path, text in after.items() if before.get(path) != text}
    return found


def two_agents(base: Path, dice: random.Random, before: Tree) -> str:
    """Both land at once, in files that are the same in part or not at all."""
    middle = len(_PATHS) // 2
    overlapping = dice.random() < 0.5
    first, second = (_PATHS, _PATHS) if overlapping else (_PATHS[:middle], _PATHS[middle:])
    afters = [changed(dice, before, "one", first), changed(dice, before, "two", second)]
    done = at_once(*(landing(base / "work", base / "state", after) for after in afters))
    taken = [after for after, each in zip(afters, done, strict=True) if each]
    found = tree_of(base / "work")
    assert found == merged(before, *taken), f"a mixture: {found}, of {afters}, taken {done}"
    assert overlapping or all(done), "disjoint changes keep each other out"
    assert any(done), "neither was taken"
    return "both taken" if all(done) else "one of two taken"


def an_editor(base: Path, dice: random.Random, before: Tree) -> str:
    """A user writes a file that is being landed."""
    path = dice.choice([*before])
    after = dict(before) | dict.fromkeys(_PATHS, "one\n")
    work = base / "work"
    write = edit(work / path, "theirs\n", dice.uniform(0, 0.02), whole=dice.random() < 0.5)
    taken, _ = at_once(landing(work, base / "state", after), write)
    wanted = (after if taken else before) | {path: "theirs\n"}
    found = tree_of(work)
    assert found == wanted, f"what the user wrote to {path} is lost, or a mixture: {found}"
    return "taken before the user wrote" if taken else "refused as the user wrote"


def main(base: Path, seed: int, rounds: int) -> None:
    dice, count = random.Random(seed), Counter[str]()
    for number in range(rounds):
        before = {path: "old\n" for path in _PATHS if dice.random() < 0.8}
        make_tree(base / "work", before)
        count[(two_agents if number % 2 else an_editor)(base, dice, before)] += 1
        left = [*(base / "state/sandbox/layers").glob("*")]
        assert left == [], f"layers are left: {left}"
        shutil.rmtree(base / "work")
    sys.stdout.write(json.dumps(count))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
