"""What a command changed is taken whole or not at all, never outside of the workspace, and never
over what somebody else wrote, whatever happens to the workspace meanwhile."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from codeagent.core.errors import WorkspaceError
from codeagent.disk import locks
from codeagent.sandbox.layers import new_layer
from codeagent.sandbox.mounts import PinnedRoot
from tests.effort import SEED, times
from tests.layers import Layered
from tests.security.race import CANARY, INSIDE, make_arena, swapping

ROUNDS = times(20)
LANDINGS = times(50)


@pytest.mark.soak(row="landing races")
def test_agents_and_users_that_change_the_same_files_at_once_lose_nothing(
    tmp_path: Path, tried: Callable[[int], None]
) -> None:
    command = [sys.executable, "-m", "tests.security.landing_races", str(tmp_path)]
    done = subprocess.run(
        [*command, str(SEED), str(ROUNDS)], capture_output=True, text=True, check=False
    )
    sys.stdout.write(f"\nseed {SEED}: {done.stdout}\n")
    assert done.returncode == 0, f"seed {SEED}: {done.stderr}"
    tried(ROUNDS)


@pytest.mark.soak(row="landing races")
@pytest.mark.parametrize("apart", [False, True], ids=["renamed", "copied"])
def test_nothing_is_read_or_lands_outside_while_a_folder_becomes_a_link(
    tmp_path: Path, tried: Callable[[int], None], *, apart: bool
) -> None:
    arena = make_arena(tmp_path)
    outside, landed = arena.outside_state(), 0
    with swapping(arena.root), tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        for _ in range(LANDINGS):
            view = Layered.over(arena.root, tmp_path, Path(elsewhere) if apart else None)
            (view.upper / "d" / "new").mkdir(parents=True)
            (view.upper / "d" / "new" / "file").write_text("new")
            (view.upper / "d" / "f.txt").write_text(f"{INSIDE} again")
            view.whiteout(f"d/{CANARY}.txt")
            try:
                effects = view.effects()
                changes = view.changes(effects)
                assert CANARY.encode() not in b"".join(
                    each.before.data for each in changes if each.before is not None
                )
                view.land(effects=effects)
                landed += 1
            except (WorkspaceError, OSError):
                pass
            shutil.rmtree(view.layer)
    assert arena.outside_state() == outside
    sys.stdout.write(f"\n{landed} of {LANDINGS} landed\n")
    tried(LANDINGS)


def test_one_process_at_a_time_lands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_PATIENCE", 0.0)
    (tmp_path / "project").mkdir()
    with closing(PinnedRoot(tmp_path / "project")) as root, root.listed() as fd:
        layers = [new_layer(tmp_path / "state", root) for _ in range(2)]
        with layers[0].landing(fd), pytest.raises(TimeoutError), layers[1].landing(fd):
            pass
