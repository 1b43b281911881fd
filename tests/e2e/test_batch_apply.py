"""The patches of a batch in the hunk review: what you take lands, what you deny does not, and /undo
takes the last one back."""

import sys
from pathlib import Path

from tests.e2e.product import bash, calls, say
from tests.e2e.test_batch import Batch, batch
from tests.pty_screen import PtyScreen

__all__ = ["batch"]


def changing(batch: Batch, *commands: str) -> Path:
    """Run a batch in which each task runs one of these commands on a file of forty lines; return the
    file."""
    folder = batch.product.home / "one"
    (file := folder / "a.txt").write_text("".join(f"line {number}.\n" for number in range(40)))
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    batch.product.call_in(folder, "git", *who, "commit", "-qam", "longer")
    tasks = [
        batch.task(0, calls(bash(command)), say("done"), name=f"task{number}")
        for number, command in enumerate(commands)
    ]
    batch.write(*tasks)
    assert batch.run("--slots", "1").code == 0
    return file


def opened(batch: Batch, *words: str) -> PtyScreen:
    root = str(Path(__file__).parents[2])
    apply = ("batch", "apply", str(batch.results), "--sandbox", "off", *words)
    screen = PtyScreen(
        [sys.executable, "-m", "codeagent", *apply],
        env=batch.product.environment | {"PYTHONPATH": root},
        cwd=batch.product.workspace,
        size=(110, 40),
    )
    screen.wait_for("Show me the patches")
    screen.send("enter")
    return screen


def test_each_patch_is_asked_about_and_undo_takes_one_back(batch: Batch) -> None:
    file = changing(batch, *(f"sed -i 's/line {n}[.]/changed {n}./' a.txt" for n in (3, 20, 30)))
    changed = file.read_text().replace("line 10.", "mine")
    file.write_text(changed)
    with opened(batch) as screen:
        for number, key in ((3, "\x1by"), (20, "\x1bn"), (30, "\x1by")):
            screen.wait_for(f"+ changed {number}.")
            screen.write(key.encode())
        screen.wait_for("These were the patches")
        taken = changed.replace("line 3.", "changed 3.")
        assert file.read_text() == taken.replace("line 30.", "changed 30.")
        screen.send("/undo", "enter")
        screen.wait_for("undone")
        assert file.read_text() == taken
        screen.send("ctrl+d")
        assert screen.exit_code() == 0


def test_a_repository_that_is_not_on_this_machine_is_named(batch: Batch) -> None:
    changing(batch, "echo more >> a.txt")
    (batch.product.home / "one").rename(batch.product.home / "elsewhere")
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-m", "codeagent", "batch", "apply", str(batch.results)]
    with PtyScreen(
        command,
        env=batch.product.environment | {"PYTHONPATH": root},
        cwd=batch.product.workspace,
        size=(200, 20),
    ) as screen:
        screen.wait_for("is not a repository on this machine; 1 patch left")
        assert screen.exit_code() == 0
