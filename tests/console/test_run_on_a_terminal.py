"""`codeagent run` on a real terminal: what is there in the end, and that it acts on nothing."""

import re
import sys
from pathlib import Path

import pytest

from tests.e2e.product import Product, Turn, calls, say
from tests.pty_screen import PtyScreen, environment

TURNS: tuple[Turn, ...] = (
    calls(("read", {"path": "a.py"}), text="I'll **look**.\n\nFirst the file."),
    say("# Found\n\nIt is `x`:\n\n```python\nx = 1\n```\n\n- one\n- two\n"),
)
SHOWN = """\
I'll look.

First the file.

✓ read   a.py

Found

It is x:

  x = 1

 • one
 • two

done"""
SIZES = [(80, 24), (120, 40), (60, 20), (200, 60)]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_answers_are_drawn_and_the_live_line_leaves_nothing_behind(
    size: tuple[int, int], tmp_path: Path
) -> None:
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    product = Product(tmp_path / "work", tmp_path / "home")
    (product.workspace / "a.py").write_text("x = 1\n")
    slow = [turn | {"delay_ms": 5} for turn in TURNS]
    model = product.script(*slow)
    argv = [sys.executable, "-m", "codeagent", "run", "go", "--sandbox", "off", "--model", model]
    env = environment(product.home, TERM="xterm-256color", LANG="C.UTF-8")
    with PtyScreen(argv, env, product.workspace, size) as terminal:
        assert terminal.exit_code() == 0
        text = re.sub(r"(✓ read   a\.py).*", r"\1", terminal.text())
        assert b"waiting for" in terminal.raw and b"\x1b[1mlook\x1b[0m" in terminal.raw, (
            "the control"
        )
    assert text.partition(" · ")[0] == SHOWN
    assert "waiting" not in text and "answering" not in text
