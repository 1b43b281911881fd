"""The workspace is deleted, renamed, replaced, unmounted or closed to the user while the agent
works in it."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.product import Done, Product, bash, calls, of, results, say, text_of
from tests.e2e.screens import READY, ask, open_screen
from tests.e2e.test_screen_tour import EFFECTS, answer

LATER = (
    bash("touch later.txt"),
    ("write", {"path": "new/x.txt", "content": "x"}),
    ("read", {"path": "a.txt"}),
)
FILES = ["a.txt", "b.txt", "c.txt"]


def losing(product: Product, command: str) -> str:
    """A model whose first command loses the workspace `$it` and never ends, with further calls
    behind it."""
    return product.script(calls(bash(f"it=$PWD; {command}; sleep 600"), *LATER), say("never said"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def resume_line(text: str) -> list[str]:
    """What the user is told to type, without the program."""
    (line,) = [line for line in text.splitlines() if "continue with: " in line]
    words = shlex.split(line.partition("continue with: ")[2])
    return words[words.index("run") :]


def check_end(product: Product, done: Done) -> None:
    """Every call has its result, the model was not asked again, the session is sound, and the exit
    code is 1."""
    log = product.log()
    assert done.code == 1, done.err
    assert len(results(log)) == 1 + len(LATER)
    assert all("the folder" in text_of(result) for result in results(log)), done.err
    assert len(of(log, "turn.started")) == 1
    assert of(log, "run.finished")[0]["error"].endswith("; the session is kept")
    assert Product(product.home, product.home).call("sessions", "check", "--last").code == 0


@pytest.mark.parametrize(
    ("command", "said", "left"),
    [
        ('rm -rf "$it"', "was removed", {}),
        ('mv "$it" "$it-moved"', "was moved to", {"work-moved": FILES}),
        ('mv "$it" "$it-moved"; mkdir "$it"', "was moved to", {"work": [], "work-moved": FILES}),
    ],
    ids=["deleted", "renamed", "replaced"],
)
def test_a_run_whose_workspace_is_lost_ends_and_makes_nothing_anywhere(
    product: Product, command: str, said: str, left: dict[str, list[str]]
) -> None:
    done = product.run(losing(product, command), "--yes")
    check_end(product, done)
    assert f"the folder {product.workspace} {said}" in done.err
    assert {path.name: names(path) for path in product.home.parent.glob("work*")} == left


@pytest.fixture
def mounted(product: Product) -> Iterator[Product]:
    """The product in a file system of its own."""
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "codeagent-test", str(product.workspace)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    yield product
    subprocess.run(["umount", "-l", str(product.workspace)], capture_output=True, check=False)


def test_a_run_whose_workspace_is_unmounted_ends(mounted: Product) -> None:
    done = mounted.run(losing(mounted, 'umount -l "$it"'), "--yes")
    check_end(mounted, done)
    assert "was unmounted or replaced" in done.err
    assert names(mounted.workspace) == FILES, "what was below the file system is as it was"


def test_a_run_whose_user_may_no_longer_enter_the_workspace_ends(product: Product) -> None:
    """Without capabilities, even root may not enter every folder."""
    without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.getuid() == 0 else []
    command = [
        *without,
        sys.executable,
        "-m",
        "codeagent",
        "run",
        "go",
        "--yes",
        "--sandbox",
        "off",
        "--model",
    ]
    command.append(losing(product, 'chmod 0 "$it"'))
    env = product.environment | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        command,
        cwd=product.workspace,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    product.workspace.chmod(0o700)
    check_end(product, Done(done.returncode, done.stdout, done.stderr))
    assert "was closed to this user (Permission denied)" in done.stderr
    assert names(product.workspace) == FILES


def test_the_printed_line_continues_a_session_whose_folder_was_renamed(product: Product) -> None:
    done = product.run(losing(product, 'mv "$it" "$it moved"'), "--yes")
    there = Product(product.workspace.with_name("work moved"), product.home)
    unnamed = Product(product.home, product.home).call(
        "--resume", product.sessions[0].name, "--model", "demo"
    )
    assert unnamed.code == 2, "only a folder that is named takes the place of the one that is gone"
    again = product.script(calls(("read", {"path": "a.txt"})), say("read it"))
    done = Product(product.home, product.home).call(
        *resume_line(done.err), "--model", again, "--sandbox", "off"
    )
    assert (done.code, done.out) == (0, "read it\n"), done.err
    assert "this is a.txt" in text_of(results(there.log())[-1])


@pytest.mark.docker
@pytest.mark.parametrize(
    ("allowed", "written", "left"),
    [
        ("--yes", "work/beat.txt", [*FILES[:2], "beat.txt", FILES[2]]),
        ("--allow=effects(**)", "home/state/codeagent/sandbox/layers/*/upper/beat.txt", FILES),
    ],
)
def test_a_command_in_the_container_writes_nothing_into_a_workspace_that_was_renamed(
    product: Product, allowed: str, written: str, left: list[str]
) -> None:
    """The container still sees the folder, wherever it is now."""
    writing = bash("while :; do date > beat.txt; sleep 0.05; done")
    model = product.script(calls(writing, bash("touch later.txt")), say("never said"))
    process = product.start("run", "go", "--model", model, allowed, "--strategy", "sequential")
    product.wait_for(
        lambda log: bool(of(log, "tool.started")) and any(product.home.parent.glob(written))
    )
    moved = product.workspace.rename(product.workspace.with_name("work-moved"))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, ""), err
    assert [result["error"]["kind"] for result in results(product.log())] == [
        "cancelled",
        "cancelled",
    ]
    assert all("work was moved to " in text_of(result) for result in results(product.log()))
    assert names(moved) == left
    (moved / "beat.txt").unlink(missing_ok=True)
    assert not (moved / "beat.txt").exists(), "nobody writes it again"
    assert not any(product.home.parent.glob(written))


@pytest.mark.docker
def test_nothing_lands_in_a_workspace_that_was_renamed_while_its_effects_were_asked_about(
    product: Product,
) -> None:
    model = product.script(calls(bash("echo x > new.txt")), say("never said"))
    with open_screen(product, "--model", model, sandbox="docker", size=(80, 24)) as screen:
        ask(screen)
        screen.wait_for(EFFECTS)
        moved = product.workspace.rename(product.workspace.with_name("elsewhere"))
        screen.wait_for("the session is kept")
        screen.wait_for(READY)
        assert EFFECTS not in screen.text()
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
    assert "new.txt" not in names(moved)
    [result] = results(product.log())
    assert result["error"]["kind"] == "cancelled"
    assert "work was moved to " in text_of(result)
    assert not [*product.home.glob("state/codeagent/sandbox/layers/*/upper/*")]


def test_the_screen_stays_usable_without_its_folder_and_works_again_with_it(
    product: Product,
) -> None:
    """Lost while an approval is open and while idle; then the folder comes back."""
    write = ("write", {"path": "new.txt", "content": "x\n"})
    model = product.script(calls(write), calls(write), say("It is written."))
    with open_screen(product, "--model", model, size=(80, 24)) as screen:
        ask(screen)
        screen.wait_for("Write this file?")
        moved = product.workspace.rename(product.workspace.with_name("elsewhere"))
        screen.wait_for("the session is kept")
        screen.wait_for(READY)
        assert "Write this file?" not in screen.text()
        ask(screen, "is it there?")
        screen.wait_for(lambda: len(of(product.log(), "run.finished")) == 2)
        moved.rename(product.workspace)
        screen.wait_for(READY)
        ask(screen, "and now?")
        answer(screen, "y", "Write this file?")
        screen.wait_for("It is written.")
        screen.wait_for(READY)
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
        assert screen.modes_left_on() == []
    assert [end["reason"] for end in of(product.log(), "run.finished")] == [
        "failed",
        "failed",
        "done",
    ]
