"""Kills a process that makes a layer, lands and removes it, again and again, between any two of its
calls: run by its test.

A process of its own, so that it may fork without the threads of the test run. Arguments: a folder,
another one for half of the layers, seed, kills.
"""

import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from codeagent.sandbox.layers import finish_landings, new_layer, remove_layer
from codeagent.sandbox.mounts import PinnedRoot
from tests.layers import Layered, Tree, make_tree, tree_of

_NAMES = ("a", "b/c", "b", "d/e/f", "d/e", "d", "g", "h", "i/j", "i/k", "l\nm", "n\udcff")
_TEXTS = ("", "one\n", "two\n" * 500, "-> a", "-> ../elsewhere", None)


class Kept(Layered):
    """A layer where the sandbox keeps it."""

    @property
    def layer(self) -> Path:
        return self.folder


def some_tree(dice: random.Random) -> Tree:
    """Names that are files in one and folders in the other are likely."""
    kept: dict[str, str | None] = {}
    for name in dice.sample(_NAMES, 7):
        if not any(other.startswith(f"{name}/") or name.startswith(f"{other}/") for other in kept):
            kept[name] = dice.choice(_TEXTS)
    return kept


def killed_at(number: int, work: Callable[[], object]) -> bool:
    """Whether it was killed before it was done: at that call or return of any function."""
    if (child := os.fork()) == 0:
        left = [number]

        def count(*event: Any) -> None:
            left[0] -= 1
            if not left[0]:
                os._exit(9)

        status = 1
        try:
            sys.setprofile(count)
            work()
            status = 0
        finally:
            sys.setprofile(None)
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9), "the work itself failed"
    return status == 9


def tried_out(work: Path, state: Path, after: Tree) -> None:
    """What happens to the layer of one command whose effects are taken."""
    with closing(PinnedRoot(work)) as root:
        layer = new_layer(state, root)
        view = Kept(layer.folder, root.path)
        profiled = sys.getprofile()
        sys.setprofile(None)
        view.becomes(after)
        effects = view.effects()
        sys.setprofile(profiled)
        with root.listed() as fd, layer.landing(fd) as landing:
            landing.land(view.planned(effects))
        remove_layer(layer)


def seen(base: Path, tree: Tree) -> dict[str, str | None]:
    make_tree(base, tree)
    found = tree_of(base)
    shutil.rmtree(base)
    return found


def one(base: Path, elsewhere: Path, dice: random.Random, span: int) -> dict[str, bool]:
    """Kill it once, and once more the process that finishes it; what was found."""
    state = dice.choice((base, elsewhere)) / "state"
    before, after = some_tree(dice), some_tree(dice)
    (work := base / "work").mkdir(parents=True)
    make_tree(work, before)
    killed = killed_at(dice.randrange(1, span), lambda: tried_out(work, state, after))
    now = tree_of(work)
    journals = (state / "sandbox/layers").glob("*/landing.json")
    begun = any('"forward"' in journal.read_text() for journal in journals)

    def finish() -> tuple[str, ...]:
        return finish_landings(state, work)

    again = killed_at(dice.randrange(1, span), finish)
    finish()
    was, wanted, found = seen(base / "was", before), seen(base / "wanted", after), tree_of(work)
    assert found in (was, wanted), f"neither as before nor as after: {found}, from {now}"
    assert found == wanted or not begun, "what had begun was not finished"
    left = [*(state / "sandbox").glob("layers/*"), *(state / "sandbox").glob("spent*")]
    assert left == [], "a layer was left behind"
    shutil.rmtree(base)
    shutil.rmtree(elsewhere, ignore_errors=True)
    return {
        "kills": killed,
        "kills while finishing": again,
        "half": now not in (was, wanted),
        "begun": begun,
        "on another file system": state.parent == elsewhere,
        "landed": found == wanted,
    }


def main(base: Path, elsewhere: Path, seed: int, kills: int) -> None:
    dice, span = random.Random(seed), 2_000
    count: dict[str, int] = {}
    while count.get("kills", 0) < kills:
        found = one(base / "case", elsewhere / "case", dice, span)
        span = max(100, int(span * (1.05 if found["kills"] else 0.9)))
        for name, happened in found.items():
            count[name] = count.get(name, 0) + happened
    sys.stdout.write(json.dumps(count))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
