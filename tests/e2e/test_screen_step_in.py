"""Stepping in with keys on a terminal: skip one call, edit another, go on; take it back and bring
it again."""

import json

import pytest

from tests.e2e.product import Product, Turn, of, results
from tests.e2e.screens import READY, open_screen
from tests.e2e.test_screen_tour import EFFECTS, SIZES, answer
from tests.effort import part

pytestmark = pytest.mark.docker

CALLS = [
    ["write", {"path": "first.txt", "content": "1\n"}],
    ["bash", {"command": "echo wrong > second.txt"}],
    ["write", {"path": "third.txt", "content": "3\n"}],
]
SCRIPT: list[Turn] = [
    {"text": "Three files.", "calls": CALLS},
    {"text": "I see what you did.", "expect": r"(?s)The user edited this call before it ran"},
]


@pytest.mark.soak(tried=1)
@pytest.mark.parametrize("size", part(SIZES, 1), ids=lambda size: f"{size[0]}x{size[1]}")
def test_one_of_three_is_skipped_another_edited_and_all_of_it_taken_back(
    product: Product, size: tuple[int, int]
) -> None:
    with open_screen(
        product, "--model", product.script(*SCRIPT), "--step", sandbox="docker", size=size
    ) as screen:
        screen.send("go", "enter")
        screen.wait_for("paused before batch 1")
        assert not (product.workspace / "third.txt").exists()
        screen.send("tab")
        screen.wait_for("Tab to type here")
        screen.send("x")
        screen.wait_for("skipped")
        screen.send("j", "e")
        screen.wait_for("run this command instead")
        screen.send("ctrl+u", "echo right > second.txt")
        screen.wait_for("echo right > second.txt")
        screen.send("enter")
        screen.wait_for("edited")
        screen.send("c")
        answer(screen, "y", EFFECTS)
        answer(screen, "y", "third.txt")
        screen.wait_for("I see what you did.")
        screen.wait_for(READY)
        _check_files(product, second="right\n", third="3\n")
        screen.send("/undo", "enter")
        screen.wait_for("undone")
        _check_files(product, second=None, third=None)
        screen.send("/redo", "enter")
        screen.wait_for("restored: ")
        _check_files(product, second="right\n", third="3\n")
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
    _check_log(product)


def _check_files(product: Product, *, second: str | None, third: str | None) -> None:
    assert not (product.workspace / "first.txt").exists()
    for name, text in (("second.txt", second), ("third.txt", third)):
        path = product.workspace / name
        assert (path.read_text() if path.exists() else None) == text


def _check_log(product: Product) -> None:
    events = product.log()
    skipped, edited, plain = results(events)
    assert (skipped["error"]["kind"], skipped["executed"]) == ("skipped", False)
    assert skipped["content"][0]["text"] == "skipped by user"
    assert json.loads(edited["details"]["edited_arguments"]) == {
        "command": "echo right > second.txt"
    }
    assert not plain["is_error"]
    assert [event["kind"] for event in of(events, "checkpoint.restored")] == ["undo", "redo"]
    assert of(events, "run.finished")[0]["reason"] == "done"
    assert product.call("sessions", "check", "--last").code == 0
