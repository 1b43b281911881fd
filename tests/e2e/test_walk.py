"""A walk through the screen at every size and colour depth: a session, then each page that a slash
command opens. What is on screen can be read, and the keys that it names do something."""

import itertools
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

import pytest

from codeagent.llm.demo import DEMO_PROMPT
from tests.e2e.product import Product
from tests.e2e.screens import open_screen
from tests.e2e.test_screen_tour import make_project
from tests.effort import part
from tests.pty_screen import PtyScreen

SIZES = ((80, 24), (120, 40), (60, 20), (200, 60))
DEPTHS: Mapping[str, Mapping[str, str]] = {
    "true": {"TERM": "xterm-256color", "COLORTERM": "truecolor"},
    "256": {"TERM": "xterm-256color"},
    "16": {"TERM": "xterm"},
}
COMPOSING = ("What would you like to do?", "Type to steer")
PAGES = {
    "agents": "Agents",
    "board": "Sessions",
    "config": "Settings",
    "context": "Context",
    "cost": "Cost of this session",
    "diff": "What changed in this session",
    "effort": "How much",
    "extensions": "Extensions",
    "help": "Help",
    "keys": "Keys",
    "model": "Choose the model",
    "permissions": "Permissions",
    "recipes": "Recipes",
    "rewind": "Rewind to before",
    "sandbox": "Sandbox",
    "skills": "Skills",
    "stats": "Calls of this session",
    "status": "Status",
    "theme": "Themes",
    "tools": "Tools",
    "usage": "Usage",
}
"""What each page begins with, by the command that opens it."""
STUMBLES = re.compile(
    r"""What shall we do|There are these ways on|no model is set|it is shown as dots|bash is absent
    |all of them\?|too soon: press|this has no hunks|asked because:|What you write now|no call is waited
    |a question waits for you|taken back:|takes the hunk back|the answer broke off here|rows more:
    |the plan is ready|go on with it|is it sound|is asked about|takes nothing behind|waits to be read
    |does not wait any more|a bug of its own|what is above since|\banew\b|\bpersons?\b|\bis no\b
    |no more calls|There (?:is|are) no\b""",
    re.VERBOSE,
)
"""What the house style says in other words."""
_KEY = re.compile(r"(?:^|· | {2,})(?P<key>Enter|Tab|Del|[a-zA-Z?/]) (?=[a-z])")
"""A key in the line of keys, which separates them with dots."""
SENT = {"Enter": "enter", "Tab": "tab", "Del": "\x1b[3~"}


def is_composing(screen: PtyScreen) -> bool:
    return any(text in screen.text() for text in COMPOSING)


def at_rest(screen: PtyScreen) -> None:
    with suppress(AssertionError):  # a clock may tick
        screen.wait_until_silent(timeout=2)


class Walk:
    """Goes through the screen, and notes what is wrong on each."""

    def __init__(self, screen: PtyScreen) -> None:
        self.screen = screen
        self.wrong: list[str] = []

    def look(self, where: str) -> None:
        """Note phrases that the house style rejects, and a marked row that is cut and not shown in
        full elsewhere."""
        rows = self.screen.screen()
        for place, row in enumerate(rows):
            if stumble := STUMBLES.search(row):
                self.wrong.append(f"{where}: says {stumble[0]!r}")
            # Words may be broken where a row ends.
            others = "".join("".join([*rows[:place], *rows[place + 1 :]]).split())
            cut = "".join(row.partition("…")[0].split())[-10:]
            if row.lstrip().startswith("▸") and "…" in row and cut not in others:
                self.wrong.append(f"{where}: is cut: {row.strip()}")

    def open(self, command: str) -> None:
        self.screen.send(f"/{command} ", "enter")
        self.screen.wait_for(f"── {PAGES[command]}")
        at_rest(self.screen)
        self.look(f"/{command}")

    def close(self) -> None:
        """Press Esc until it is possible to write again."""
        while not is_composing(self.screen):
            before = self.screen.text()
            self.screen.send("esc")
            self.screen.wait_for(partial(self._is_other, before))
            at_rest(self.screen)

    def _is_other(self, before: str) -> bool:
        return self.screen.text() != before

    def press(self, command: str) -> None:
        """Press each key that a page names, and see that something happens."""
        self.open(command)
        named = [found["key"] for found in _KEY.finditer(self.screen.screen()[-1])]
        for key in dict.fromkeys(named):
            written = len(self.screen.raw)
            self.screen.send(SENT.get(key, key))
            with suppress(AssertionError):
                self.screen.wait_for(partial(self._has_written, written), timeout=5)
            if not self._has_written(written):
                self.wrong.append(f"/{command}: {key} does nothing")
            at_rest(self.screen)
            self.look(f"/{command}, {key}")
            self.close()
            self.open(command)
        self.close()

    def _has_written(self, before: int) -> bool:
        return len(self.screen.raw) > before


@pytest.mark.docker
@pytest.mark.soak(tried=1)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("size", "depth"), part([*itertools.product(SIZES, DEPTHS)], 1), ids=str)
def test_every_page_can_be_read_and_its_keys_do_something(
    product: Product, size: tuple[int, int], depth: str
) -> None:
    make_project(product)
    words = ("--model", "demo", "--mode", "auto")
    with open_screen(product, *words, sandbox="docker", size=size, env=DEPTHS[depth]) as screen:
        walk = Walk(screen)
        screen.send(DEMO_PROMPT, "enter")
        screen.wait_for("Nothing else uses the rule")
        screen.wait_for(lambda: " ready" in screen.screen()[-1])
        walk.look("the session")
        for command in PAGES:
            walk.press(command)
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
        assert screen.modes_restored()
    assert "\n".join(walk.wrong) == ""
