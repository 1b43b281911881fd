"""`codeagent replay`: a recorded session on the real screen; it is shown, and nothing of it happens
again."""

import html
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pyte
import pytest
from PIL import Image

from codeagent.extensions.replay import pictures, player
from codeagent.tui.transcript import sheet_view
from tests.e2e.product import Product, bash, calls, read, say
from tests.e2e.screens import READY, ask, open_screen
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


def test_the_conversation_on_screen_is_replayed_on_its_terminal(product: Product) -> None:
    model = product.script(calls(read("a.txt")), say("It is read."), say("Again."))
    with open_screen(product, "--model", model) as screen:
        ask(screen, "read it")
        screen.wait_for("It is read.")
        screen.wait_for(READY)
        ask(screen, "/replay")
        screen.wait_for("a replay of")
        screen.wait_for("It is read.")
        screen.send("ctrl+d")
        screen.wait_for(lambda: "a replay of" not in screen.text() and READY in screen.text())
        ask(screen, "and now")
        screen.wait_for("Again.")


def test_it_pauses_before_each_batch_and_goes_on_with_enter(product: Product) -> None:
    recorded(product)
    with replayed(product, "--step", "--speed", "1000") as screen:
        for waits in ("a.txt", "echo x"):
            screen.wait_for(
                lambda waits=waits: "before this batch" in screen.text() and waits in screen.text()
            )  # type: ignore[misc]  # bound per loop
            assert "It is counted." not in screen.text()
            screen.send("\x1bc")
        screen.wait_for("It is counted.")


def test_a_picture_shows_the_end_of_the_conversation_above_a_card(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if drawing takes so long that resizes are put off."""
    monkeypatch.setattr(sheet_view, "_SLOW", -1.0)
    rows = "\n\n".join(f"row {number}" for number in range(30))
    script = product.script({**calls(read("a.txt")), "text": rows}, say("The plan."))
    assert product.run(script, "--mode", "plan").code == 0
    drawn = product.call("replay", "--svg", "-", "--size", "80x24").out.replace("&#160;", " ")
    assert drawn.count(">The plan.<") == 1, "in the conversation; the card does not repeat it"
    assert "Plan ready" in drawn


def test_a_session_becomes_a_cast_a_picture_and_a_gif_without_a_terminal(product: Product) -> None:
    secret, hostile = "correct-horse-battery-staple", "echo '\x1b]0;owned\x07' done"
    script = product.script(
        calls(read("a.txt")), calls(bash(hostile)), say(f"Counted with {secret} <b>✓</b>.")
    )
    assert product.run(script, "--yes", prompt="count it").code == 0
    log = (product.sessions[0] / "events.jsonl").read_bytes()
    environment = product.environment | {"MY_API_KEY": secret, "TERM": "dumb"}
    done = product.call(
        "replay", "--speed", "1000", "--cast", "--svg", "s.svg", "--gif", "s.gif", env=environment
    )
    assert (done.code, done.err) == (0, "")
    cast, svg, gif = (product.workspace / name for name in done.out.split())
    assert cast.name == f"{product.sessions[0].name}.cast"

    head, *rows = map(json.loads, cast.read_text().splitlines())
    assert (head["version"], head["width"], head["height"], head["title"]) == (
        2,
        100,
        30,
        "count it",
    )
    times = [row[0] for row in rows]
    assert times == sorted(times) and all(row[1] == "o" for row in rows)
    written = "".join(row[2] for row in rows)
    screen = pyte.Screen(100, 30)
    pyte.Stream(screen).feed(written)
    shown = "\n".join(screen.display)
    assert all(
        word in shown
        for word in (
            "count it",
            "a.txt",
            "Counted with [secret MY_API_KEY]",
            product.workspace.name,
        )
    )
    assert "38;2;" in written, "it is in colour, whatever the terminal"
    assert "\x1b]0;owned" not in written and secret not in written

    drawn = html.unescape(svg.read_text()).replace("\xa0", " ")
    assert "[secret MY_API_KEY]" in drawn and secret not in drawn
    assert "@font-face" not in drawn and "<b>" not in svg.read_text()
    ElementTree.fromstring(svg.read_text())
    with Image.open(gif) as image:
        assert (image.format, image.size) == ("GIF", (900, 630))
    assert (product.sessions[0] / "events.jsonl").read_bytes() == log and len(product.sessions) == 1


def test_the_examples_of_the_page_about_sessions_make_pictures(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(product)
    for wait in ("_LONGEST", "_READING", "_TYPING"):
        monkeypatch.setattr(player, wait, 0.0)
    page = (Path(ROOT) / "docs/how-to/sessions.md").read_text()
    block = page.split("## Make a picture of a session")[1].split("```")[1]
    examples = [line.partition("  ")[0].split() for line in block.strip().splitlines()]
    assert len(examples) == 4
    for example in examples:
        done = product.call(
            *(product.sessions[0].name if word == "ID" else word for word in example[1:])
        )
        assert done.code == 0, (example, done)
    made = {
        path.name
        for path in product.workspace.iterdir()
        if path.suffix in (".svg", ".cast", ".gif")
    }
    assert made == {f"{product.sessions[0].name}.svg", "demo.cast", "demo.gif"}


def test_pictures_are_refused_before_anything_is_drawn(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(product)
    (product.workspace / "mine.svg").write_text("mine")
    for arguments, why in (
        (("--svg", "mine.svg"), "--overwrite"),
        (("--svg", "-", "--cast", "-"), "standard output takes one"),
        (("--cast", "--step"), "--step"),
        (("--cast", "--size", "100"), "20x5 to 400x200"),
    ):
        done = product.call("replay", *arguments)
        assert done.code == 2 and why in done.err
    monkeypatch.setattr(pictures, "find_spec", lambda name: None if name == "PIL" else name)
    done = product.call("replay", "--gif")
    assert done.code == 2 and "pip install pillow" in done.err
    assert (product.workspace / "mine.svg").read_text() == "mine"
    assert sorted(path.name for path in product.workspace.iterdir()) == [
        "a.txt",
        "b.txt",
        "c.txt",
        "count",
        "mine.svg",
    ]

    elsewhere = Product(product.home / "elsewhere", product.home)
    elsewhere.workspace.mkdir()
    moved = product.workspace.rename(product.home / "moved")
    done = elsewhere.call("replay", "--svg", "-", "--size", "60x12")
    moved.rename(product.workspace)
    assert done.code == 0 and done.out.startswith("<svg"), "the recorded folder need not be there"
    assert product.workspace.name in done.out and "elsewhere" not in done.out
    assert product.call("replay", "--svg", "mine.svg", "--overwrite").code == 0
    assert (product.workspace / "mine.svg").read_text().startswith("<svg")


def test_what_cannot_be_replayed_is_refused(product: Product) -> None:
    assert product.call("replay", "nosuch").code == 2
    assert product.call("replay").code == 2
    recorded(product)
    done = product.call("replay", "--speed", "0")
    assert done.code == 2 and "0.01 to 1000" in done.err
    done = product.call("replay")
    assert done.code == 2 and "sessions export" in done.err, "there is no terminal"
