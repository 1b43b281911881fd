"""A walk through the screen at every size and colour depth: a session, then each page that a slash
command opens. What is on screen can be read, and the keys that it names do something."""

import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial

import pytest

from codeagent.config.extensions import BUILT_IN
from codeagent.core.extension import resolved
from codeagent.llm.demo import DEMO_PROMPT
from codeagent.tui.commands import table_with
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
ELSEWHERE = {
    "exit",
    "feedback",
    "redo",
    "undo",
    "new",
    "stop",
    "print",
    "copy",
    "export",
    "fork",
    "find",
    "suspend",
    "detach",
}
"""Commands that leave the screen, or that do something at once and open nothing."""
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


def pages() -> Iterator[str]:
    table = table_with(resolved(f"codeagent.extensions.{name}:EXTENSION") for name in BUILT_IN)
    for row in table.commands:
        if row.name not in ELSEWHERE and not row.arguments.startswith("<"):
            yield row.name


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
        """Note phrases that the house style rejects, rows that are cut where they are chosen, and a
        page whose last row does not name a key."""
        rows = self.screen.screen()
        for row in rows:
            if stumble := STUMBLES.search(row):
                self.wrong.append(f"{where}: says {stumble[0]!r}")
            if row.lstrip().startswith("▸") and row.rstrip(" │▁▂▃▄▅▆▇█").endswith("…"):
                self.wrong.append(f"{where}: is cut: {row.strip()}")

    def open(self, command: str) -> bool:
        """Open what a slash command opens; False if it only says something."""
        self.screen.send(f"/{command} ", "enter")
        at_rest(self.screen)
        with suppress(AssertionError):  # some pages read files before they open
            self.screen.wait_for(lambda: not is_composing(self.screen), timeout=1)
        at_rest(self.screen)
        self.look(f"/{command}")
        return not is_composing(self.screen)

    def close(self, command: str) -> None:
        for _ in range(4):
            if is_composing(self.screen):
                return
            self.screen.send("esc")
            with suppress(AssertionError):
                self.screen.wait_for(partial(is_composing, self.screen), timeout=2)
        raise AssertionError(f"/{command} does not close:\n{self.screen.text()}")

    def _has_effect(self, key: str) -> bool:
        written = len(self.screen.raw)
        self.screen.send(key)
        with suppress(AssertionError):
            self.screen.wait_for(lambda: len(self.screen.raw) > written, timeout=5)
        return len(self.screen.raw) > written

    def press(self, command: str) -> None:
        """Press each key that the page names, on a page that was just opened."""
        named = [found["key"] for found in _KEY.finditer(self.screen.screen()[-1])]
        for key in dict.fromkeys(named):
            if not self._has_effect(SENT.get(key, key)):
                self.wrong.append(f"/{command}: {key} does nothing")
            at_rest(self.screen)
            self.look(f"/{command}, {key}")
            self.close(command)
            if not self.open(command):
                return


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
        for command in pages():
            if walk.open(command):
                walk.press(command)
            walk.close(command)
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
        assert screen.modes_restored()
    assert walk.wrong == []
