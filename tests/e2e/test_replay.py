"""`codeagent replay`: a recorded session on the real screen; it is shown, and nothing of it happens again."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.product import Product, bash, calls, read, say
from tests.pty_screen import PtyScreen

ROOT = str(Path(__file__).parents[2])


@contextmanager
def replayed(product: Product, *arguments: str) -> Iterator[PtyScreen]:
    command = [sys.executable, "-m", "codeagent", "replay", *arguments]
    environment = product.environment | {"PYTHONPATH": ROOT}
    with PtyScreen(command, env=environment, cwd=product.workspace, size=(100, 30)) as screen:
        yield screen
        screen.send("ctrl+d")
        assert screen.exit_code() == 0


def recorded(product: Product) -> None:
    counted = bash("echo x >> count; echo counted")
    script = product.script(calls(read("a.txt")), calls(counted), say("It is counted."))
    assert product.run(script, "--yes", prompt="count it").code == 0


def test_everything_is_shown_again_and_nothing_is_run(product: Product) -> None:
    recorded(product)
    log = (product.sessions[0] / "events.jsonl").read_bytes()
    with replayed(product, "--speed", "1000") as screen:
        screen.wait_for("It is counted.")
        text = screen.text()
        assert all(word in text for word in ("count it", "a.txt", "counted", "a replay"))
        screen.send("and more", "enter")
        screen.wait_for("this is a replay")
        screen.send("ctrl+c")
        screen.wait_for("What would you like to do?")
    assert (product.workspace / "count").read_text() == "x\n"
    assert (product.sessions[0] / "events.jsonl").read_bytes() == log
    assert len(product.sessions) == 1


def test_it_pauses_before_each_batch_and_goes_on_with_enter(product: Product) -> None:
    recorded(product)
    with replayed(product, "--step", "--speed", "1000") as screen:
        for waits in ("a.txt", "echo x"):
            screen.wait_for(lambda waits=waits: "before this batch" in screen.text() and waits in screen.text())  # type: ignore[misc]  # bound per loop
            assert "It is counted." not in screen.text()
            screen.send("\x1bc")
        screen.wait_for("It is counted.")


def test_what_cannot_be_replayed_is_refused(product: Product) -> None:
    assert product.call("replay", "nosuch").code == 2
    assert product.call("replay").code == 2
    recorded(product)
    done = product.call("replay", "--speed", "0")
    assert done.code == 2 and "0.01 to 1000" in done.err
    done = product.call("replay")
    assert done.code == 2 and "sessions export" in done.err, "there is no terminal"
