"""Whenever a run is killed, what it had acknowledged is there, no file is half written, and it
continues."""

import shutil
import signal
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from tests.e2e.product import Done
from tests.e2e.screens import ask, open_screen
from tests.effort import FACTOR, chance, up_to
from tests.faults.injected import END, TURNS, Point, command, make, points, run, what_broke

CHANGES = (
    "write,pwrite64,openat,fsync,fdatasync,ftruncate,unlink,unlinkat,link,linkat,rename,renameat,renameat2,mkdir,"
    "mkdirat,flock,sendto,vfork,clone3,close,read,lseek,fchmod,exit_group"
)
GROUPS = 8
"""So that several workers share the work."""
USUAL = [Point("fdatasync", 1), Point("write", 20)]


def chosen(folder: Path, group: int) -> list[Point]:
    """A share of all points, other ones with another seed."""
    if not FACTOR:
        return USUAL
    every = points(make(folder), CHANGES)
    chance("kill points").shuffle(every)
    return every[group : up_to(0, 600) : GROUPS]


@pytest.mark.strace
@pytest.mark.soak(row="kills at system calls")
@pytest.mark.parametrize("group", range(GROUPS if FACTOR else 1))
def test_a_run_that_is_killed_at_a_system_call_loses_nothing_acknowledged(
    tmp_path: Path, group: int, tried: Callable[[int], None]
) -> None:
    wanted = chosen(tmp_path / "counted", group)
    killed, broken = 0, {}
    for number, point in enumerate(wanted):
        product = make(tmp_path / str(number))
        done = run(product, point, "signal=KILL")
        killed += done.code == -9
        if found := what_broke(product, done):
            broken[point] = found
        shutil.rmtree(tmp_path / str(number))
    tried(killed)
    assert broken == {}
    assert killed >= len(wanted) * 0.7, (
        "the last calls are not made in every run, and some are made by programs"
    )


@pytest.mark.soak(row="kills at random")
@pytest.mark.parametrize("group", range(GROUPS if FACTOR else 1))
def test_a_run_that_is_killed_at_any_moment_loses_nothing_acknowledged(
    tmp_path: Path, group: int, tried: Callable[[int], None]
) -> None:
    dice, span, killed, broken = chance(group), 0.3, 0, {}
    folders = (tmp_path / str(number) for number in count())
    while killed < up_to(GROUPS, 1_000) // GROUPS:
        product = make(folder := next(folders))
        process = product.start(*command(product))
        time.sleep(dice.uniform(0, span))
        process.kill()
        out, err = process.communicate(60)
        span *= 1.03 if process.returncode else 0.8
        killed += process.returncode == -9
        if found := what_broke(product, Done(process.returncode, out, err)):
            broken[killed] = found
        # What the run had started may outlive it by a moment.
        shutil.rmtree(folder, ignore_errors=True)
    tried(killed)
    assert broken == {}


@pytest.mark.soak(row="kills of the screen")
@pytest.mark.parametrize("group", range(GROUPS if FACTOR else 1))
def test_a_screen_that_is_killed_at_any_moment_loses_nothing_that_was_shown(
    tmp_path: Path, group: int, tried: Callable[[int], None]
) -> None:
    dice, number, broken = chance(group), up_to(GROUPS, 200) // GROUPS, {}
    for turn in range(number):
        product = make(tmp_path / "killed")
        config = product.home / "config/codeagent/config.toml"
        config.parent.mkdir(parents=True)
        config.write_text('[rules]\nallow = ["bash(echo *)", "write", "edit"]\n')
        with open_screen(product, "--model", product.script(*TURNS)) as screen:
            ask(screen)
            time.sleep(dice.uniform(0, 1))
            screen.signal(signal.SIGKILL)
            screen.exit_code()
            shown = END in screen.text()
        found = what_broke(product, Done(-9, "", ""))
        if shown and END not in repr(product.log()):
            found.append("the answer was shown and is lost")
        if found:
            broken[turn] = found
        shutil.rmtree(tmp_path / "killed")
    tried(number)
    assert broken == {}
