"""Jobs on a real terminal with the real agent: moved to the background, read, stopped, and lost
with their process."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Product
from tests.e2e.screens import open_screen
from tests.pty_screen import PtyScreen

COUNTS = "for i in $(seq 1 300); do echo line $i; sleep 0.2; done"
SIZE = (90, 26)


@pytest.fixture
def product(tmp_path: Path) -> Product:
    workspace, home = tmp_path / "work", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    return Product(workspace, home)


def begun(product: Product, **arguments: Any) -> PtyScreen:
    """A screen on which the agent's command was allowed."""
    turns = (
        {"calls": [["bash", {"command": COUNTS, **arguments}]]},
        {"text": "I go on."},
        {"text": "It ended."},
    )
    screen = open_screen(product, "--model", product.script(*turns), sandbox="off", size=SIZE)
    screen.send("go", "enter")
    screen.wait_for("Run this command?")
    screen.send("tab")
    screen.wait_for("Tab to type here")
    screen.send("y")
    return screen


def test_a_call_goes_to_the_background_is_read_there_and_stopped(product: Product) -> None:
    with begun(product) as screen:
        screen.wait_for("line 2")
        screen.send("ctrl+b")
        screen.wait_for("in the background as job-1")
        screen.wait_for("I go on.")
        screen.wait_for("ready · 1 job")
        screen.send("ctrl+t")
        screen.wait_for("1 running · 1 in all")
        screen.wait_for("line 6")
        screen.send("s", "s")
        screen.wait_for("0 running · 1 in all")
        screen.send("esc")
        screen.wait_for("job-1 stopped after")
        screen.send("ctrl+d")
        assert screen.exit_code() == 0


def test_a_job_of_a_process_that_was_killed_is_lost_in_the_session_that_goes_on(
    product: Product,
) -> None:
    with begun(product, run_in_background=True) as screen:
        screen.wait_for("in the background as job-1")
        screen.wait_for("I go on.")
        screen.signal(9)
        screen.exit_code()
    with open_screen(
        product, "--model", "demo", "--resume", "last", sandbox="off", size=SIZE
    ) as screen:
        screen.wait_for("job-1 lost")
        screen.send("ctrl+t")
        screen.wait_for("0 running · 1 in all")
        screen.wait_for("job-1   lost")
