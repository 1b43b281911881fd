"""With --inline the screen is below the shell's lines, and what has ended stays in the terminal."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from codeagent.tui.launcher import LaunchOptions
from codeagent.tui.transcript.inline_view import InlineView
from tests.e2e.product import Product, calls, say
from tests.e2e.screens import READY
from tests.e2e.test_screen_tour import answer
from tests.pty_screen import PtyScreen
from tests.security.terminal_payloads import PAYLOADS
from tests.tui.replay import ReplayApp, settled
from tests.tui.scripts import Recording

SHELL = 'echo "a line of the shell"; python=$0; "$python" -m codeagent "$@"; echo "ended with $?"'


@pytest.fixture
def product(tmp_path: Path) -> Product:
    product = Product(tmp_path / "work", tmp_path)
    product.workspace.mkdir()
    subprocess.run(["git", "init", "-q", product.workspace], check=True)
    return product


def open_inline(
    product: Product, *turns: object, size: tuple[int, int] = (90, 26), **more: str
) -> PtyScreen:
    """codeagent started by a shell."""
    options = ("--inline", "--sandbox", "off", "--model", product.script(*turns))  # type: ignore[arg-type]  # turns
    screen = PtyScreen(
        ["sh", "-c", SHELL, sys.executable, *options],
        env=product.environment
        | {"PYTHONPATH": str(Path(__file__).parents[2]), "COLORTERM": "truecolor", **more},
        cwd=product.workspace,
        size=size,
    )
    screen.wait_for(READY)
    return screen


def row(screen: PtyScreen, text: str) -> int:
    return next(number for number, line in enumerate(screen.screen()) if text in line)


def test_a_turn_that_ended_is_above_the_screen_and_below_the_shell(product: Product) -> None:
    with open_inline(product, say("An answer.")) as screen:
        screen.send("a question", "enter")
        screen.wait_for(lambda: "An answer." in screen.text() and READY in screen.text())
        places = [row(screen, text) for text in ("of the shell", "a question", "An answer.", READY)]
        assert places == sorted(places) and len(set(places)) == 4
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
        shown = screen.text()
        assert shown.count("An answer.") == 1 and READY not in shown
        assert "resume with:" in shown and "ended with 0" in shown
        assert b"\x1b[?1049h" not in screen.raw and b"\x1b[?1003h" not in screen.raw
        assert screen.modes_restored(), screen.modes_left_on()


def test_a_card_a_list_and_a_page_are_shown_whole_and_leave_nothing(product: Product) -> None:
    turns = (calls(("write", {"path": "a.txt", "content": "x"})), say("Refused."))
    with open_inline(product, *turns) as screen:
        screen.send("/the")
        screen.wait_for("/theme")
        screen.send("backspace", "backspace", "backspace", "backspace")
        screen.wait_for(READY)
        screen.send("/status", "enter")
        screen.wait_for("Esc closes")
        screen.send("esc")
        screen.wait_for(lambda: READY in screen.text() and "Esc closes" not in screen.text())
        screen.send("go", "enter")
        answer(screen, "n", "Write this file?")
        screen.wait_for("Refused.")
        screen.wait_for(lambda: READY in screen.text())
        assert "Write this file?" not in screen.text()


def test_lines_are_printed_and_the_screen_drawn_below_them_in_one_frame(product: Product) -> None:
    printing = re.compile(rb"(?s)(.*)\r(?:\x1b\[\d+A)?\x1b\[K\x1b\[C\x1b\[J(.*?)\x1b\[\?2026l")
    with open_inline(product, say("An answer.")) as screen:
        screen.send("a question", "enter")
        screen.wait_for(lambda: printing.match(screen.raw) is not None)
        found = printing.match(screen.raw)
        assert found is not None
        before, frame = found.groups()
        assert before.endswith(b"\x1b[?2026h")
        assert b"An answer." in frame and b"ready" in frame


def test_the_screen_is_not_erased_from_its_first_cell(product: Product) -> None:
    """If that is the terminal's first, tmux keeps all that is erased, as lines that were printed."""
    with open_inline(product, say("An answer.")) as screen:
        screen.send("a question", "enter")
        screen.wait_for(lambda: "An answer." in screen.text() and READY in screen.text())
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
        assert re.search(rb"(?:\x1b\[\d+[AD]|\r)\x1b\[J", screen.raw) is None


def test_a_place_in_a_file_is_a_link_in_what_was_printed(product: Product) -> None:
    (product.workspace / "a.txt").write_text("one\n")
    printed = re.compile(
        rb"(?s)\r(?:\x1b\[\d+A)?\x1b\[K\x1b\[C\x1b\[J.*\x1b\]8;[^;]*;file://[^\x1b]*/a\.txt#1\x1b\\"
    )
    with open_inline(product, say("See a.txt:1 and b.txt:1.")) as screen:
        screen.send("go", "enter")
        screen.wait_for(lambda: printed.search(screen.raw) is not None)
        screen.wait_for(lambda: screen.text().count("See a.txt:1") == 1)
        assert b"b.txt#1" not in screen.raw


def test_a_resize_keeps_what_was_printed_and_one_screen(product: Product) -> None:
    with open_inline(product, say("An answer.")) as screen:
        screen.send("a question", "enter")
        screen.wait_for(lambda: "An answer." in screen.text() and READY in screen.text())
        screen.resize(110, 26)
        screen.wait_for(lambda: any(len(line) > 100 for line in screen.screen()))
        screen.send("typed")
        screen.wait_for("typed")
        assert screen.text().count("An answer.") == screen.text().count("ready ·") == 1
        assert "a line of the shell" in screen.text()


def test_a_signal_leaves_the_terminal_usable(product: Product) -> None:
    with open_inline(product, say("An answer.")) as screen:
        found = subprocess.run(
            ["pgrep", "-P", str(screen.pid)], capture_output=True, text=True, check=True
        )
        os.kill(int(found.stdout.split()[0]), signal.SIGTERM)
        screen.wait_for("ended with 143")
        assert screen.modes_restored(), screen.modes_left_on()
        assert "a line of the shell" in screen.text()


def test_an_older_page_is_read_above_the_composer_and_left_again(product: Product) -> None:
    answer = "\n\n".join(f"paragraph {number}" for number in range(40))
    with open_inline(product, say(answer)) as screen:
        screen.send("go", "enter")
        screen.wait_for(lambda: "paragraph 39" in screen.text() and READY in screen.text())
        screen.send("pageup", "pageup", "pageup")
        screen.wait_for("paragraph 16")
        screen.send("\x1b[1;5F")
        screen.wait_for(lambda: screen.text().count("paragraph 39") == 1)


async def test_printed_text_does_not_act_on_the_terminal(tmp_path: Path) -> None:
    recording = Recording().run("|".join(PAYLOADS[:40])).answer("|".join(PAYLOADS[40:]))
    options = LaunchOptions(inline=True)
    app = ReplayApp(recording.finish().events, tmp_path, now=recording.now, options=options)
    async with app.run_test(size=(90, 26)) as pilot:
        await settled(pilot)
        view = app.chat.view
        assert isinstance(view, InlineView)
        rows: list[str] = []
        view._print_above = lambda lines: rows.extend(lines) is None
        view.flush()
        assert len(rows) > 10
        for each in rows:
            assert re.sub(r"\x1b\[[0-9;]*m", "", each).isprintable(), each


def test_a_turn_that_ends_while_the_editor_has_the_terminal_is_printed_afterwards(
    product: Product,
) -> None:
    editor = product.home / "editor"
    editor.write_text("#!/bin/sh\necho EDITING\nuntil [ -e left ]; do sleep 0.02; done\n")
    editor.chmod(0o755)
    waits = calls(("bash", {"command": "until [ -e go ]; do sleep 0.02; done"}))
    with open_inline(product, waits, say("An answer."), EDITOR=str(editor)) as screen:
        screen.send("go", "enter")
        answer(screen, "y", "Run this command?")
        screen.send("ctrl+g")
        screen.wait_for("EDITING")
        (product.workspace / "go").touch()
        screen.wait_for(lambda: any("An answer." in log for log in logs(product)))
        assert "An answer." not in screen.text()
        (product.workspace / "left").touch()
        screen.wait_for(lambda: "An answer." in screen.text() and READY in screen.text())
        assert row(screen, "EDITING") < row(screen, "An answer.") < row(screen, READY)


def logs(product: Product) -> list[str]:
    return [path.read_text() for path in product.home.rglob("*.jsonl")]
