"""Detached sessions, which run without a terminal, and the board that lists them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.product import Product, calls, say
from tests.e2e.screens import READY, ask, open_screen
from tests.pty_screen import PtyScreen, state_of

WRITES = (calls(("write", {"path": "new.txt", "content": "new\n"})), say("all written"))


def program(product: Product, *arguments: str, size: tuple[int, int] = (80, 24)) -> PtyScreen:
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-m", "codeagent", *arguments]
    environment = product.environment | {"PYTHONPATH": root}
    return PtyScreen(command, env=environment, cwd=product.workspace, size=size)


def held(product: Product) -> list[int]:
    """The screens that run without a terminal."""
    return [int(path.name) for path in (product.home / "state/codeagent/held").glob("*")]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@contextmanager
def detached(product: Product, model: str, *options: str) -> Iterator[int]:
    """A detached session that works on a prompt; yields the process of its screen."""
    subprocess.run(["git", "init", "-q", product.workspace], check=True)
    own = ("--model", model, "--sandbox", "off")
    with program(product, *own, *options, "--detach", "write a file") as screen:
        assert screen.exit_code() == 0, screen.text()
        assert "codeagent attach shows it" in " ".join(screen.screen())
    (pid,) = held(product)
    try:
        yield pid
    finally:
        for left in held(product):
            os.kill(left, signal.SIGKILL)


def board(product: Product) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(product.call("sessions", "board", "--json").out)
    return rows


def test_a_detached_session_waits_with_its_question_until_a_user_attaches(product: Product) -> None:
    with detached(product, product.script(*WRITES)) as pid:
        with program(product, "attach", size=(60, 20)) as screen:
            screen.wait_for("new.txt")
            screen.wait_for("Tab to answer")
            (row,) = board(product)
            assert row["state"] == "waiting for you"
            assert row["last"] == "asks about write new.txt"
            with program(product, "attach", str(row["id"])) as second:
                assert second.exit_code() == 2
                assert "another terminal shows this session" in " ".join(second.screen())
            ask(screen, "/detach")
            assert screen.exit_code() == 0
            assert "the session works on without a terminal" in " ".join(screen.screen())
            assert screen.modes_left_on() == []
        assert held(product) == [pid]
        with program(product, "attach", str(row["id"])) as screen:
            screen.wait_for("Tab to answer")
            screen.wait_until_silent(0.6)
            screen.send("tab")
            screen.wait_for("once")
            screen.send("y")
            screen.wait_for("all written")
            assert (product.workspace / "new.txt").read_text() == "new\n"
            (row,) = board(product)
            assert (row["state"], row["in_use"]) == ("done", True)
            screen.hang_up()
        assert held(product) == [pid]
        with program(product, "attach") as screen:
            screen.wait_for("all written")
            screen.send("ctrl+d")
            assert screen.exit_code() == 0
            assert "works on" not in screen.text()
        assert held(product) == []


def test_ctrl_z_and_a_signal_give_the_terminal_back_while_the_session_keeps_working(
    product: Product,
) -> None:
    with detached(product, product.script(*WRITES)) as pid:
        for leave in (
            lambda screen: screen.send("ctrl+z"),
            lambda screen: screen.signal(signal.SIGTERM),
        ):
            with program(product, "attach") as screen:
                screen.wait_for("Tab to answer")
                leave(screen)
                screen.exit_code()
                assert screen.modes_left_on() == []
        assert held(product) == [pid] and state_of(pid) in "SR"
        assert (product.home / f"state/codeagent/held/{pid}").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("killed", ["screen", "holder"])
def test_a_detached_session_whose_process_was_killed_can_be_resumed(
    product: Product, killed: str
) -> None:
    model = product.script(*WRITES)
    with detached(product, model) as pid, program(product, "attach") as screen:
        screen.wait_for("Tab to answer")
        os.kill(pid if killed == "screen" else parent_of(pid), signal.SIGKILL)
        assert screen.exit_code() == 2
        assert "was killed; its log is kept" in " ".join(screen.screen())
        assert screen.modes_left_on() == []
    again = product.script(say("here again"))
    with open_screen(product, "--continue", "--model", again, shows="write a file") as screen:
        screen.wait_for(READY)
        ask(screen, "go on")
        screen.wait_for("here again")
    (row,) = board(product)
    assert row["state"] == "done"


def test_what_the_user_wrote_is_in_no_list_of_processes(product: Product) -> None:
    with detached(product, product.script(*WRITES), "--prompt=not this one") as pid:
        for each in (pid, parent_of(pid)):
            words = Path(f"/proc/{each}/cmdline").read_bytes()
            assert b"--model" in words
            assert b"write a file" not in words and b"not this one" not in words
        with program(product, "attach") as screen:
            screen.wait_for("write a file")
            screen.wait_for("Tab to answer")


def test_the_folder_and_the_session_that_were_typed_are_those_that_are_detached(
    product: Product,
) -> None:
    (product.workspace / "below").mkdir()
    with detached(product, product.script(*WRITES), "below"):
        with program(product, "attach") as screen:
            screen.wait_for("Tab to answer")
        with program(product, "below", "--continue", "--detach", "go on") as screen:
            assert screen.exit_code() == 2
            assert "is in use by process" in " ".join(screen.screen())
        (row,) = board(product)
        assert row["folder"] == str(product.workspace / "below")


@pytest.mark.parametrize("number", ["-1", "0", "2", "63", "99999999999"])
def test_a_number_that_is_no_open_file_holds_no_prompt(product: Product, number: str) -> None:
    with program(product, f"--prompt-fd={number}") as screen:
        assert screen.exit_code() == 2
        assert "the prompt cannot be read" in " ".join(screen.screen())


def test_a_session_that_cannot_start_says_why(product: Product) -> None:
    with program(product, "--step", "--detach", "go", "--nonsense") as screen:
        assert screen.exit_code() == 2
        assert "--nonsense" in " ".join(screen.screen())
    with program(product, "--worktree", "../x", "--detach", "go") as screen:
        assert screen.exit_code() == 2
        assert "a name is made of letters" in " ".join(screen.screen())
    with program(product, "attach", "20260101") as screen:
        assert screen.exit_code() == 2
        assert "unknown session" in " ".join(screen.screen())


def test_a_holder_that_cannot_listen_says_why(product: Product) -> None:
    state = product.home / "state/codeagent"
    state.mkdir(parents=True)
    (state / "held").write_text("in the way")
    model = product.script(*WRITES)
    subprocess.run(["git", "init", "-q", product.workspace], check=True)
    with program(product, "--model", model, "--sandbox", "off", "--detach", "go") as screen:
        assert screen.exit_code() == 2
        assert "held: File exists" in "".join(screen.screen())


def test_a_state_folder_may_have_a_path_of_200_characters(product: Product) -> None:
    folder = product.home / "/".join("s" * 49 for _ in range(4))
    folder.mkdir(parents=True)
    deep = Product(product.workspace, folder)
    with detached(deep, deep.script(*WRITES)) as pid:
        with program(deep, "attach") as screen:
            screen.wait_for("Tab to answer")
            ask(screen, "/detach")
            assert screen.exit_code() == 0
        assert held(deep) == [pid]


def test_a_window_that_is_closed_while_its_holder_is_busy_leaves_the_session(
    product: Product,
) -> None:
    """The holder then hears of the terminal and of the program on it at the same time."""
    with detached(product, product.script(*WRITES)) as pid:
        with program(product, "attach") as screen:
            screen.wait_for("Tab to answer")
            os.kill(parent_of(pid), signal.SIGSTOP)
            screen.send("x")
            screen.hang_up()
        os.kill(parent_of(pid), signal.SIGCONT)
        with program(product, "attach") as screen:
            screen.wait_for("Tab to answer")
        assert held(product) == [pid]


def test_the_board_shows_which_session_waits_opens_it_and_ends_it(product: Product) -> None:
    with detached(product, product.script(*WRITES)):
        with program(product, "attach") as screen:
            screen.wait_for("Tab to answer")
            ask(screen, "/detach")
            screen.exit_code()
        with program(product, "sessions", "board") as screen:
            screen.wait_for("waiting for you")
            screen.wait_for("last: asks about write new.txt")
            screen.send("enter")
            screen.wait_for("Tab to answer")
            ask(screen, "/detach")
            assert screen.exit_code() == 0
        other = product.script(say("another one"))
        with open_screen(product, "--model", other, size=(60, 20)) as screen:
            ask(screen, "/board")
            screen.wait_for("1 waiting for you")
            screen.send("enter")
            screen.wait_for("Tab to answer")
            ask(screen, "/detach")
            screen.wait_for(READY)
            ask(screen, "/board")
            screen.wait_for("1 waiting for you")
            screen.send("x")
            screen.wait_for("end the process of")
            screen.wait_until_silent(0.6)
            screen.send("y")
            screen.wait_for("■ write a file")
        assert held(product) == []
    table = product.call("sessions", "board").out.splitlines()
    assert table[0].startswith("STATE") and table[1].startswith("■ stopped")
    assert product.call("worktrees", "list").err.startswith(f"no worktree of {product.workspace}")


def test_the_board_of_a_shell_resumes_a_session_that_no_process_works_on(product: Product) -> None:
    model = product.script(say("all written"))
    with open_screen(product, "--model", model) as screen:
        ask(screen, "write a file")
        screen.wait_for("all written")
        screen.send("ctrl+d")
        screen.exit_code()
    with program(product, "sessions", "board") as screen:
        screen.wait_for("✓ write a file")
        screen.send("enter")
        screen.wait_for(READY)
        screen.wait_for("all written")
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
        assert screen.modes_left_on() == []
        assert "all written" in screen.text()


def test_a_session_on_screen_moves_to_the_background_at_the_next_boundary(product: Product) -> None:
    model = product.script(
        calls(("write", {"path": "a.txt", "content": "a\n"})) | {"delay_ms": 200}, say("continued")
    )
    own = ("--model", model, "--mode", "accept-edits")
    with open_screen(product, *own) as screen:
        ask(screen, "write a file")
        screen.wait_for("write a file")
        ask(screen, "/detach")
        assert screen.exit_code() == 0
        assert "codeagent attach shows it" in " ".join(screen.screen())
    try:
        with program(product, "attach") as screen:
            screen.wait_for("continued")
            assert (product.workspace / "a.txt").exists()
            screen.send("ctrl+d")
            screen.exit_code()
    finally:
        for left in held(product):
            os.kill(left, signal.SIGKILL)
    (row,) = board(product)
    assert row["in_use"] is False


def test_a_detached_session_makes_one_worktree(product: Product) -> None:
    (product.workspace / "a.txt").write_text("a")
    with detached(product, product.script(*WRITES), "--worktree"):
        with program(product, "attach") as screen:
            screen.wait_for("worktree 1")
            screen.wait_for("Tab to answer")
        kept = product.call("worktrees", "remove", "1", "--discard")
        assert kept.code == 1 and "a session is working in it" in kept.err
    listed = json.loads(product.call("worktrees", "list", "--json").out)
    assert [(row["name"], row["unmerged"]) for row in listed] == [("1", 0)]
