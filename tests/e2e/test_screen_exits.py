"""Every way out of the screen leaves the terminal as it was, and the session whole."""

import os
import pty
import signal
from collections.abc import Callable

import pytest

from tests.e2e.product import Product, say
from tests.e2e.screens import READY, ask, long_answer, open_screen, prompts
from tests.effort import part
from tests.pty_screen import PtyScreen, state_of

IGNORING_HANGUPS = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
WAYS: dict[str, tuple[Callable[[PtyScreen], None], int]] = {
    "ctrl+d": (lambda screen: screen.send("ctrl+d"), 0),
    "/exit": (lambda screen: screen.send("/exit", "enter"), 0),
    "ctrl+c twice": (lambda screen: screen.send("ctrl+c", "ctrl+c"), 0),
    **{
        number.name: (lambda screen, number=number: screen.signal(number), 128 + number)  # type: ignore[misc]  # bound
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    },
}

AT_THE_PROMPT = ["ctrl+d", "ctrl+c twice", "/exit", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"]
IN_A_STREAM = ["ctrl+c twice", "SIGINT", "SIGTERM", "SIGQUIT", "SIGHUP"]
"""SIGTERM, SIGHUP and a closed window are tried while a command and a job run, in
`test_screen_ends.py`."""


def sound(product: Product) -> bool:
    return product.call("sessions", "check", "--last").code == 0


@pytest.mark.soak(tried=1, row="terminal restore")
@pytest.mark.parametrize("way", part(AT_THE_PROMPT, 3))
def test_a_way_out_at_the_prompt(product: Product, way: str) -> None:
    leave, code = WAYS[way]
    with open_screen(product, "--model", product.script(say("An answer."))) as screen:
        ask(screen)
        screen.wait_for("An answer.")
        screen.wait_for(READY)
        leave(screen)
        assert screen.exit_code() == code
        assert screen.modes_left_on() == []
    assert sound(product)


@pytest.mark.soak(tried=1, row="terminal restore")
@pytest.mark.parametrize("way", part(IN_A_STREAM, 3))
def test_a_way_out_in_the_middle_of_a_stream_keeps_the_session(product: Product, way: str) -> None:
    leave, code = WAYS[way]
    with open_screen(product, "--model", product.script(long_answer())) as screen:
        ask(screen, "tell me a lot")
        screen.wait_for("paragraph 3 ")
        leave(screen)
        assert screen.exit_code() == code
        assert screen.modes_left_on() == []
    assert sound(product)
    assert prompts(product.log()) == ["tell me a lot"]


def test_a_terminal_closed_during_a_stream_ends_even_a_process_that_ignores_hangups(
    product: Product,
) -> None:
    with open_screen(
        product, "--model", product.script(long_answer()), before=IGNORING_HANGUPS
    ) as screen:
        ask(screen)
        screen.wait_for("paragraph 3 ")
        screen.hang_up()
        assert screen.exit_code() == 128 + signal.SIGHUP
    assert sound(product)
    assert prompts(product.log()) == ["go"]


@pytest.mark.parametrize("how", ["ctrl+z", "kill -TSTP"])
def test_a_stop_in_the_middle_of_a_stream_gives_the_terminal_to_the_shell_and_comes_back(
    product: Product, how: str
) -> None:
    with open_screen(product, "--model", product.script(long_answer(paragraphs=20))) as screen:
        ask(screen)
        screen.wait_for("paragraph 3 ")
        if how == "ctrl+z":
            screen.send("ctrl+z")
        else:
            screen.signal(signal.SIGTSTP)
        screen.wait_for(lambda: state_of(screen.pid) == "T")
        screen.wait_for(screen.modes_restored)
        screen.signal(signal.SIGCONT)
        screen.wait_for("the very last word")
        screen.wait_for(READY)
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
        assert screen.modes_left_on() == []


def test_after_kill_9_the_session_is_shown_again_and_the_terminal_reset(product: Product) -> None:
    with open_screen(
        product, "--model", product.script(say("Half of it."), long_answer())
    ) as screen:
        ask(screen, "begin")
        screen.wait_for("Half of it.")
        screen.wait_for(READY)
        ask(screen, "and go on")
        screen.wait_for("paragraph 3 ")
        screen.signal(signal.SIGKILL)
        screen.exit_code()
        assert not screen.modes_restored()
    session = product.sessions[0].name
    with open_screen(
        product, "--model", product.script(say("Again.")), "--resume", session
    ) as screen:
        for text in ("begin", "Half of it.", "and go on"):
            screen.wait_for(text)
        ask(screen, "once more")
        screen.wait_for("Again.")
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
    assert prompts(product.log()) == ["begin", "and go on", "once more"]


def test_a_terminal_that_cannot_draw_is_told_so(product: Product) -> None:
    first, second = pty.openpty()
    process = product.start(
        stdin=second, stdout=second, stderr=second, env=product.environment | {"TERM": "dumb"}
    )
    code = process.wait(30)
    output = os.read(first, 65536).decode()
    os.close(first)
    os.close(second)
    assert code == 2
    assert "dumb" in output
    assert "codeagent run" in output
    assert "\x1b" not in output


def test_without_a_terminal_there_is_a_line_instead_of_a_screen(product: Product) -> None:
    done = product.call_apart(env=product.environment | {"TERM": "xterm"})
    assert done.code == 2
    assert "terminal" in done.err
    assert "codeagent run" in done.err
    assert done.out == ""
