import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from codeagent.core.sanitize import visible
from tests.pty_screen import PtyScreen, environment
from tests.security.terminal_bytes import sequences, text_of
from tests.security.terminal_payloads import CONTROL, END, HIDDEN, MARKUP, PAYLOADS

PROGRAM = [sys.executable, str(Path(__file__).with_name("recorded_screen.py"))]
CHUNK = 40
AT_A_TIME = 4
SIZE = (160, 500)
"""Tall enough that the whole recording is on screen at once."""
BENIGN = ["pasted words", "and others"]
EMPTY_COMPOSER = "hat shall we do?"
"""Its first letter may be under the cursor."""
_FRAMES = {"CSI position", "CSI colours", "CSI ?2026h", "CSI ?2026l", "'\\r'", "'\\n'"}
"""What there is more of the more is drawn."""


def start(folder: Path, first: int, last: int) -> PtyScreen:
    env = environment(folder, PYTHONPATH=str(Path(__file__).parents[2]))
    return PtyScreen([*PROGRAM, str(folder), str(first), str(last)], env=env, size=SIZE, emulate=False)


def everything_shown(screen: PtyScreen, pasted: list[str]) -> None:
    """The recording with the usual detail and with all of it, the lists a person opens, pastes, and what is left."""
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
    with start(tmp_path_factory.mktemp("benign"), 0, 0) as screen:
        everything_shown(screen, BENIGN)
        return sequences(screen.raw)


def test_there_are_at_least_500_payloads_of_every_family() -> None:
    assert len(set(PAYLOADS)) >= 500
    assert len(CONTROL) > 400
    assert len(HIDDEN) > 40
    assert len(MARKUP) > 40


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> dict[int, bytes]:
    """What the screen writes for the payloads from each number on; it mostly waits, so several are shown at a time."""

    def show(first: int) -> bytes:
        with start(tmp_path_factory.mktemp(f"from{first}"), first, first + CHUNK) as screen:
            everything_shown(screen, PAYLOADS[first : first + CHUNK])
            return screen.raw

    numbers = range(0, len(PAYLOADS), CHUNK)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return dict(zip(numbers, pool.map(show, numbers), strict=True))


@pytest.mark.parametrize("first", range(0, len(PAYLOADS), CHUNK))
def test_no_payload_acts_on_the_terminal_wherever_it_is_shown(
    raw: dict[int, bytes], allowed: Counter[str], first: int
) -> None:
    foreign = sequences(raw[first]) - allowed
    assert {name for name in foreign if name not in _FRAMES} == set()
    shown = text_of(raw[first])
    for number, payload in enumerate(PAYLOADS[first : first + CHUNK]):
        assert f"n{number}:{visible(payload)}".rstrip() in shown
