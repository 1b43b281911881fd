import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from codeagent.core.sanitize import visible
from tests.effort import part
from tests.pty_screen import PtyScreen, environment
from tests.security.terminal_bytes import sequences, text_of
from tests.security.terminal_payloads import CONTROL, END, HIDDEN, MARKUP, PAYLOADS

PROGRAM = [sys.executable, str(Path(__file__).with_name("recorded_screen.py"))]
CHUNK = 40
SHOWN = part(range(len(PAYLOADS)), CHUNK)
"""Numbers of payloads; they are shown so many at a time."""
SIZE = (160, 500)
"""Tall enough that the whole recording is on screen at once."""
PLACES = 11
"""Prompts, thoughts, answers, notices, cards, live output, results, approvals, lists, the composer
and the title: at least."""
BENIGN = ["pasted words", "and others"]
EMPTY_COMPOSER = "hat would you like to do?"
"""Its first letter may be under the cursor."""
_FRAMES = {"CSI position", "CSI colours", "CSI ?2026h", "CSI ?2026l", "'\\r'", "'\\n'", "title"}
"""What there is more of the more is drawn."""


def start(folder: Path, shown: list[int]) -> PtyScreen:
    env = environment(folder, PYTHONPATH=str(Path(__file__).parents[2]))
    return PtyScreen([*PROGRAM, str(folder), *map(str, shown)], env=env, size=SIZE, emulate=False)


def everything_shown(screen: PtyScreen, pasted: list[str]) -> None:
    """The recording with the usual detail and with all of it, the lists a user opens, pastes, and
    what is left."""
    screen.wait_for(lambda: END.encode() in screen.raw)
    press(screen, ["ctrl+o"], "detail: full")
    screen.resize(160, 60)
    for command in ("/resume", "/model", "/status"):
        press(screen, [command], "▸")
        press(screen, ["enter"], "Esc")
        press(screen, ["esc"], EMPTY_COMPOSER)
    for number in range(0, len(pasted), 5):
        end = f"end{number}."
        screen.paste(" ".join([*pasted[number : number + 5], end]))
        screen.wait_for(lambda end=end: end.encode() in screen.raw)  # type: ignore[misc]  # bound per loop
    press(screen, ["ctrl+c"], "cleared")
    screen.send("ctrl+d")
    assert screen.exit_code(timeout=100) == 0
    assert screen.modes_left_on() == []


def press(screen: PtyScreen, keys: list[str], expected: str) -> None:
    """Send the keys and wait for a text that is drawn after them."""
    before = len(screen.raw)
    screen.send(*keys)
    screen.wait_for(lambda: expected.encode() in screen.raw[before:])


@pytest.fixture(scope="module")
def allowed(tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    """What the screen writes for harmless words."""
    with start(tmp_path_factory.mktemp("benign"), []) as screen:
        everything_shown(screen, BENIGN)
        return sequences(screen.raw)


def test_there_are_at_least_500_payloads_of_every_family() -> None:
    assert len(set(PAYLOADS)) >= 500
    assert len(CONTROL) > 400
    assert len(HIDDEN) > 40
    assert len(MARKUP) > 40


@pytest.mark.soak(row="terminal payloads")
@pytest.mark.xdist_group("terminal payloads")
@pytest.mark.parametrize("first", range(0, len(SHOWN), CHUNK))
def test_no_payload_acts_on_the_terminal_wherever_it_is_shown(
    tmp_path: Path, allowed: Counter[str], first: int, tried: Callable[[int], None]
) -> None:
    shown = SHOWN[first : first + CHUNK]
    tried(PLACES * len(shown))
    with start(tmp_path, shown) as screen:
        everything_shown(screen, [PAYLOADS[number] for number in shown])
    foreign = sequences(screen.raw) - allowed
    assert {name for name in foreign if name not in _FRAMES} == set()
    text = text_of(screen.raw)
    for place, number in enumerate(shown):
        assert f"n{place}:{visible(PAYLOADS[number])}".rstrip() in text
