"""Every end that can be caught is orderly: calls are answered, hooks told, nothing stays alive on
the machine."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from codeagent.tui.terminal import RESET
from tests.e2e.product import Product, Turn, bash, calls, of, results, running, say
from tests.e2e.screens import ask, open_screen
from tests.effort import part
from tests.pty_screen import PtyScreen


def hung_up_twice(screen: PtyScreen) -> None:
    """As the kernel and the shell tell of a window that was closed."""
    screen.signal(signal.SIGHUP)
    screen.wait_for(lambda: RESET in screen.raw)
    screen.signal(signal.SIGHUP)


ENDS: dict[str, tuple[Callable[[PtyScreen], None], int]] = {
    "SIGTERM": (lambda screen: screen.signal(signal.SIGTERM), 143),
    "SIGHUP, twice": (hung_up_twice, 129),
    "a closed window": (lambda screen: screen.hang_up(), 129),
    "Ctrl+D": (lambda screen: screen.send("ctrl+d"), 0),
    "SIGQUIT": (lambda screen: screen.signal(signal.SIGQUIT), 131),
}


def is_alive(seconds: str) -> bool:
    return any(line == f"sleep\0{seconds}\0".encode() for line in running())


def with_hook(product: Product) -> Path:
    """Commands that sleep need no answer; a hook leaves the file that is returned when the session
    ends."""
    told = product.home / "told"
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f'[rules]\nallow = ["bash(sleep *)"]\n\n[[hooks]]\nevent = "session_end"\ncommand = ["touch", "{told}"]\n'
    )
    return told


@pytest.mark.soak(tried=1, row="terminal restore")
@pytest.mark.parametrize("how", part(list(ENDS), 4))
def test_an_end_while_a_command_and_a_job_run_is_orderly(product: Product, how: str) -> None:
    leave, code = ENDS[how]
    number = list(ENDS).index(how)
    job, command = f"7{number}1{os.getpid()}", f"7{number}2{os.getpid()}"
    told = with_hook(product)
    turns: list[Turn] = [
        calls(("bash", {"command": f"sleep {job}", "run_in_background": True})),
        calls(bash(f"sleep {command}")),
    ]
    with open_screen(product, "--model", product.script(*turns)) as screen:
        ask(screen)
        screen.wait_for(lambda: is_alive(job) and is_alive(command))
        seen = len(screen.raw)
        leave(screen)
        assert screen.exit_code() == code
        after = screen.raw[seen:]
    assert not is_alive(job) and not is_alive(command)
    events = product.log()
    assert [event["is_error"] for event in of(events, "tool.finished")] == [False, True]
    assert [result["error"] and result["error"]["kind"] for result in results(events)] == [
        None,
        "cancelled",
    ]
    assert of(events, "run.finished")[-1]["reason"] == "interrupted"
    assert [job["status"] for job in of(events, "job.finished")] == ["stopped"]
    assert told.exists()
    assert product.call("sessions", "check", "--last").code == 0
    if code and how != "a closed window":
        assert after.endswith(RESET)  # nothing is written on the terminal once it was given back


def test_what_is_sent_while_it_starts_survives_kill_9(product: Product) -> None:
    while_we_live = ["sh", "-c", "while kill -0 $PPID; do sleep 0.1; done"]
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f'[[hooks]]\nevent = "session_start"\ncommand = {json.dumps(while_we_live)}\n'
    )
    model = product.script(say("unused"))
    with open_screen(product, "--model", model) as screen:
        ask(screen, "the first thing")
        ask(screen, "and the second")
        screen.wait_for("when the agent is done")
        screen.wait_for("“and the second”")
        screen.signal(signal.SIGKILL)
        screen.exit_code()
    with open_screen(product, "--model", model, shows="“the first thing” +1 line") as screen:
        screen.send("up")
        screen.wait_for("❯ the first thing")
        screen.wait_for("and the second")
