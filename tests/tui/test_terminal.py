import json
import os
import signal
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from codeagent.tui.terminal import RESET, usable
from tests.pty_screen import PtyScreen, state_of

SAMPLE = [sys.executable, str(Path(__file__).with_name("sample_app.py"))]
IGNORING_HANGUPS = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh"]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def screen(state: Path) -> Iterator[PtyScreen]:
    with start(state) as running:
        yield running


def start(state: Path, *before: str) -> PtyScreen:
    running = PtyScreen([*before, *SAMPLE, str(state)], env={"SAMPLE_API_KEY": "sk-a-secret"})
    running.wait_for("ready")
    return running


def stream(screen: PtyScreen) -> None:
    screen.send("stream", "enter")
    screen.wait_for("line ")


def markers(state: Path) -> list[Path]:
    return list((state / "terminals").iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_in_the_middle_of_a_stream_restores_the_terminal_and_ends_with_128_plus_n(
    screen: PtyScreen, state: Path, number: signal.Signals
) -> None:
    stream(screen)
    screen.signal(number)
    assert screen.exit_code() == 128 + number
    assert screen.modes_left_on() == []
    assert markers(state) == []


@pytest.mark.parametrize(
    ("typed", "code"), [("code", 5), ("exit", 7), ("raise", 1), ("worker", 1), ("thread", 1)]
)
def test_every_other_end_restores_the_terminal_and_has_its_own_exit_code(
    screen: PtyScreen, typed: str, code: int
) -> None:
    screen.send(typed, "enter")
    assert screen.exit_code() == code
    assert screen.modes_left_on() == []


def test_an_app_that_hangs_has_its_terminal_restored_at_once_and_ends_at_the_second_signal(
    screen: PtyScreen, state: Path
) -> None:
    screen.send("hang", "enter")
    screen.wait_for("hanging")
    screen.signal(signal.SIGTERM)
    screen.wait_for(screen.modes_restored)
    screen.signal(signal.SIGHUP)
    assert screen.exit_code() == 128 + signal.SIGTERM
    assert markers(state) == []


def test_nothing_is_drawn_once_the_terminal_was_given_back(screen: PtyScreen) -> None:
    stream(screen)
    screen.signal(signal.SIGTERM)
    screen.exit_code()
    assert screen.raw.endswith(RESET)


@pytest.mark.parametrize("before", [(), IGNORING_HANGUPS], ids=["", "SIGHUP is ignored"])
def test_a_terminal_that_is_gone_ends_the_app(state: Path, before: tuple[str, ...]) -> None:
    with start(state, *before) as screen:
        stream(screen)
        screen.hang_up()
        assert screen.exit_code() == 128 + signal.SIGHUP
        assert markers(state) == []


def test_a_hangup_that_was_ignored_before_stays_ignored(state: Path) -> None:
    with start(state, *IGNORING_HANGUPS) as screen:
        screen.signal(signal.SIGHUP)
        screen.send("still here", "enter")
        screen.wait_for("said 'still here'")


@pytest.mark.parametrize("how", ["ctrl+z", "kill -TSTP"])
def test_stopping_restores_the_terminal_and_going_on_draws_everything_again(
    screen: PtyScreen, how: str
) -> None:
    for _ in range(2):
        if how == "ctrl+z":
            screen.send("ctrl+z")
        else:
            screen.signal(signal.SIGTSTP)
        screen.wait_for(lambda: state_of(screen.pid) == "T")
        screen.wait_for(screen.modes_restored)
        screen.signal(signal.SIGCONT)
        screen.wait_for("resumed")
        screen.wait_for("▔▔▔")
    screen.send("ctrl+d")
    assert screen.exit_code() == 0
    assert screen.modes_left_on() == []


def test_going_on_after_a_stop_nobody_can_catch_takes_the_terminal_once(screen: PtyScreen) -> None:
    screen.signal(signal.SIGSTOP)
    screen.wait_for(lambda: state_of(screen.pid) == "T")
    screen.signal(signal.SIGCONT)
    screen.wait_for("resumed")
    screen.send("each letter once", "enter")
    screen.wait_for("said 'each letter once'")
    screen.send("ctrl+d")
    assert screen.exit_code() == 0
    assert screen.modes_left_on() == []


def test_ctrl_c_in_a_program_that_borrowed_the_terminal_does_not_end_the_app(
    screen: PtyScreen,
) -> None:
    screen.send("lend", "enter")
    screen.wait_for("lent to a shell")
    screen.signal(signal.SIGINT)
    screen.send("yes", "enter")
    screen.wait_for("▔▔▔")
    screen.send("back", "enter")
    screen.wait_for("said 'back'")


def test_bytes_that_are_no_text_are_shown_as_such(screen: PtyScreen) -> None:
    screen.write(b"caf\xe9 \xc3")
    screen.write(b"\xa9\r")
    screen.wait_for("said 'caf\ufffd é'")


def test_what_is_typed_while_the_app_starts_is_not_lost(state: Path) -> None:
    with PtyScreen([*SAMPLE, str(state)], env={"SAMPLE_API_KEY": "sk-a-secret"}) as screen:
        screen.wait_for(lambda: b"\x1b[>25u" in screen.raw)
        screen.send("early", "enter")
        screen.wait_for("said 'early'")


def test_nothing_in_a_paste_is_taken_for_a_key(screen: PtyScreen) -> None:
    screen.paste("pasted \x1b[D\x1b\x1b\x04text")
    screen.send("enter")
    screen.wait_for("said 'pasted \\x1b[D\\x1b\\x1b\\x04text'")


def test_the_escape_key_alone_is_told_without_a_further_key(screen: PtyScreen) -> None:
    screen.send("esc")
    screen.wait_for("escaped")


def test_keys_with_alt_that_arrive_in_one_read_type_nothing(screen: PtyScreen) -> None:
    screen.write(b"\x1by\x1by" + b"words" + b"\x1by\x1by\r")
    screen.wait_for("said 'words'")


def test_a_terminal_whose_owner_was_killed_is_reset_at_the_next_start(state: Path) -> None:
    with start(state, "sh", "-c", '"$@"; "$@"', "sh") as screen:
        [marker] = markers(state)
        assert marker.stat().st_mode & 0o777 == 0o600
        os.kill(int(marker.suffix[1:]), signal.SIGKILL)
        screen.wait_for(lambda: RESET in screen.raw)
        screen.wait_for("ready")
        assert len(markers(state)) == 1
        assert not marker.exists()
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
        assert screen.modes_left_on() == []


def test_a_marker_names_the_process_not_only_its_number(screen: PtyScreen, state: Path) -> None:
    [marker] = markers(state)
    assert json.loads(marker.read_text())["born"]


@pytest.mark.parametrize(
    ("environ", "said"),
    [({"TERM": "dumb"}, "TERM=dumb"), ({}, "TERM is not set"), ({"TERM": "xterm"}, None)],
)
def test_a_terminal_that_cannot_move_its_cursor_has_no_screen(
    environ: dict[str, str], said: str | None
) -> None:
    first, second = os.openpty()
    with os.fdopen(second, "w") as terminal:
        problem = usable(terminal, terminal, environ)
    os.close(first)
    assert problem is None if said is None else said in (problem or "")


@pytest.mark.parametrize("stream", [None, StringIO()])
def test_without_a_terminal_there_is_no_screen_and_the_other_way_is_named(
    stream: StringIO | None,
) -> None:
    problem = usable(stream, stream, {"TERM": "xterm"})
    assert problem is not None
    assert "codeagent run" in problem
