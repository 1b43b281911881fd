"""Walks through the screen and notes what is wrong with what it shows: phrases that the house style
rejects, cut lines, and keys that do nothing."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from codeagent.tui.parts.guard import TOO_SOON
from tests.pty_screen import PtyScreen

SIZES = ((80, 24), (120, 40), (60, 20), (200, 60))
DEPTHS: Mapping[str, Mapping[str, str]] = {
    "true": {"TERM": "xterm-256color", "COLORTERM": "truecolor"},
    "256": {"TERM": "xterm-256color"},
    "16": {"TERM": "xterm"},
}
TERMINALS = [*itertools.product(SIZES, DEPTHS)]
COMPOSING = ("What would you like to do?", "Type to steer", "or type to steer")
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
_TICKS = re.compile(r"\d+ s\b|[⠀-⣿]")
"""What changes by itself: clocks, and the sign of work."""
_FRAME = re.compile(r"[│╭╮╰╯─▌\s]+")


def is_composing(screen: PtyScreen) -> bool:
    return any(text in screen.text() for text in COMPOSING)


def bare(text: str) -> str:
    """Return a text without blanks and frames."""
    return _FRAME.sub("", text)


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
        with suppress(AssertionError):  # a frame later
            self.screen.wait_for(lambda: not [*self._faults()], timeout=1)
        self.wrong += (f"{where}: {fault}" for fault in self._faults())

    def _faults(self) -> Iterator[str]:
        """Find them; a batch of calls that is cut is shown in full when it is opened."""
        rows = self.screen.screen()
        for place, row in enumerate(rows):
            if stumble := STUMBLES.search(row):
                yield f"says {stumble[0]!r}"
            # Words may be broken where a row ends.
            others = "".join("".join([*rows[:place], *rows[place + 1 :]]).split())
            cut = "".join(row.partition("…")[0].split())[-10:]
            marked = row.lstrip().startswith("▸") and "· batch " not in row
            if marked and "…" in row and cut not in others:
                yield f"is cut: {row.strip()}"

    def press(self, where: str, *keys: str) -> None:
        """Press keys that go together, and note if nothing happens."""
        moved = partial(self._has_moved, self._still())
        self._send(keys, moved)
        with suppress(AssertionError):  # a command was taken, and its page comes a frame later
            self.screen.wait_for(moved, timeout=5)
        if not moved():
            self.wrong.append(f"{where} does nothing")
        self.look(where)

    def look_into(self, where: str, key: str) -> None:
        """Press a key of a card that opens something, and note if it does not; while there is more
        to read, it turns a page instead."""
        turned = True
        while turned and is_composing(self.screen):
            before = self._still()
            self._send([key], lambda: not is_composing(self.screen))
            turned = self._has_moved(before)
        if is_composing(self.screen):
            self.wrong.append(f"{where} opens nothing")
        self.look(where)

    def _send(self, keys: Sequence[str], happened: Callable[[], bool]) -> None:
        """Press keys, again if they came before the card could be read, and wait for a while."""

        def was_too_soon() -> bool:
            return TOO_SOON.encode() in self.screen.raw[written:]

        again = True
        while again:
            written = len(self.screen.raw)
            self.screen.send(*keys)
            with suppress(AssertionError):
                self.screen.wait_for(lambda: happened() or was_too_soon(), timeout=5)
            at_rest(self.screen)
            self.screen.wait_for(lambda: TOO_SOON not in self.screen.text())
            again = was_too_soon() and not happened()

    def see(self, text: str) -> None:
        """Wait for a text, however it is broken into rows."""
        self.screen.wait_for(lambda: bare(text) in bare(self.screen.text()))

    def close(self) -> None:
        """Press Esc until it is possible to write again."""
        while not is_composing(self.screen):
            before = self.screen.text()
            self.screen.send("esc")
            self.screen.wait_for(partial(self._is_other, before))
            at_rest(self.screen)

    def _is_other(self, before: str) -> bool:
        return self.screen.text() != before

    def _still(self) -> str:
        """Return what is on screen without what changes by itself."""
        return _TICKS.sub("", self.screen.text())

    def _has_moved(self, before: str) -> bool:
        return self._still() != before
