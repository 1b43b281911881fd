"""A user who looks elsewhere is notified once of what the agent wants, in the way that their
terminal understands."""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from codeagent.app import LocalApp
from codeagent.config.checking import checked
from codeagent.config.settings import Settings
from codeagent.core.attention import Attention, Follower
from codeagent.extensions.board.sessions import SIGNS
from codeagent.extensions.notify.follower import channel, follow, sequence
from codeagent.extensions.notify.settings import NotifySettings
from codeagent.extensions.replay.command import ReplayLauncher
from codeagent.tui.pages.attention import attention
from codeagent.tui.reduce import Reducer
from codeagent.tui.state import UiState
from tests.e2e.product import Product, bash, calls, say
from tests.e2e.screens import open_screen
from tests.e2e.test_screen_tour import answer
from tests.security.terminal_payloads import PAYLOADS
from tests.table import for_each
from tests.tui.scenes import asks_to_run, thinking
from tests.tui.scripts import Recording

WAITING = Attention("waiting", "acme-api", "bash rm -rf build/", ("q1",))
WORKING = Attention("working", "acme-api")
DONE = Attention("done", "acme-api")


class FakeTerminal:
    """Keeps what it was told to show."""

    def __init__(self, *, in_front: bool = False) -> None:
        self.in_front = in_front
        self.titles: list[str] = []
        self.sent: list[str] = []
        self.told: asyncio.Queue[str] = asyncio.Queue()

    def title(self, text: str) -> None:
        self.titles.append(text)

    def send(self, sequence: str) -> None:
        self.sent.append(sequence)

    def tell(self, problem: str) -> None:
        self.told.put_nowait(problem)


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMUX", "TERM_PROGRAM", "KITTY_WINDOW_ID", "VTE_VERSION", "WEZTERM_PANE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def following(terminal: FakeTerminal, workspace: Path = Path("/work"), **chosen: Any) -> Follower:
    settings = checked(Settings, {"sections": {"notify": NotifySettings(**chosen)}})
    return follow(settings, workspace, terminal)


@for_each(
    ("environment", "expected"),
    [
        ({"TERM": "xterm-256color"}, "osc9"),
        ({"TERM": "xterm-kitty"}, "osc99"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "osc99"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "ghostty"}, "osc777"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "osc777"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "osc9"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, "bell"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7600"}, "osc777"),
        ({"TERM": "foot"}, "osc777"),
        ({"TERM": "foot-direct"}, "osc777"),
        ({"TERM": "footloose"}, "osc9"),
        ({"TERM": "rxvt-unicode-256color"}, "osc777"),
        ({"TERM": "linux"}, "bell"),
        ({"TERM": "screen-256color"}, "bell"),
        ({"TERM": "screen-256color", "TMUX": "/tmp/x", "TERM_PROGRAM": "tmux"}, "osc9"),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/x", "KITTY_WINDOW_ID": "1"}, "osc99"),
        ({}, "osc9"),
    ],
)
def test_a_terminal_is_asked_in_its_own_way(environment: Mapping[str, str], expected: str) -> None:
    assert channel(environment) == expected


@for_each(
    ("by", "tmux", "expected"),
    [
        ("osc9", False, "\x1b]9;a;b: c;d\x07"),
        ("osc777", False, "\x1b]777;notify;a,b;c;d\x07"),
        ("osc9", True, "\x1bPtmux;\x1b\x1b]9;a;b: c;d\x07\x1b\\"),
        ("bell", True, "\x07"),
    ],
)
def test_a_sequence_has_title_and_text(by: Any, tmux: bool, expected: str) -> None:
    assert sequence(by, "a;b", "c;d", tmux=tmux) == expected


def test_kitty_gets_both_parts_under_one_id_of_this_process() -> None:
    own = f"i=codeagent-{os.getpid()}"
    assert sequence("osc99", "a", "b", tmux=False) == (
        f"\x1b]99;{own}:d=0;a\x1b\\\x1b]99;{own}:p=body;b\x1b\\"
    )


def test_a_user_who_looks_elsewhere_is_notified_of_a_question_and_of_the_end() -> None:
    terminal = FakeTerminal()
    told = following(terminal)
    for now in (WORKING, WAITING, WORKING, DONE):
        told(now)
    assert terminal.sent == [
        "\x1b]9;codeagent · acme-api: Waiting for you: bash rm -rf build/\x07",
        "\x1b]9;codeagent · acme-api: Done\x07",
    ]
    assert terminal.titles == [
        "working · acme-api · codeagent",
        "waiting for you · acme-api · codeagent",
        "working · acme-api · codeagent",
        "done · acme-api · codeagent",
    ]


def test_the_title_says_how_a_run_ended_in_the_words_of_the_board() -> None:
    terminal = FakeTerminal()
    told = following(terminal)
    ends: tuple[Literal["done", "stopped", "failed"], ...] = ("done", "stopped", "failed")
    for state in ends:
        told(Attention(state, "acme-api"))
    assert terminal.titles == [f"{state} · acme-api · codeagent" for state in ends]
    assert {*ends, "waiting for you", "working"} <= SIGNS.keys()
    assert terminal.sent[-1] == "\x1b]9;codeagent · acme-api: Failed\x07"


def test_another_question_is_notified_and_an_answered_one_is_not() -> None:
    terminal = FakeTerminal()
    told = following(terminal, by="bell")
    told(WAITING)
    told(replace(WAITING, questions=("q1", "q2")))
    told(replace(WAITING, questions=("q2",)))
    assert terminal.sent == ["\x07"] * 2


@for_each(
    ("in_front", "chosen", "then"),
    [
        (True, {}, WAITING),
        (True, {"command": ("notify-send", "{title}", "{text}")}, WAITING),
        (False, {"by": "off"}, WAITING),
        (False, {"by": "off", "command": ("notify-send",)}, WAITING),
        (False, {}, Attention("stopped", "acme-api")),
        (False, {}, Attention("idle", "acme-api")),
    ],
)
def test_the_user_is_notified_only_if_needed(
    in_front: bool, chosen: dict[str, Any], then: Attention
) -> None:
    terminal = FakeTerminal(in_front=in_front)
    told = following(terminal, **chosen)
    told(WORKING)
    told(then)
    assert terminal.sent == []


def test_the_title_is_left_alone_if_the_user_says_so() -> None:
    terminal = FakeTerminal()
    following(terminal, title=False)(WAITING)
    assert terminal.titles == []


def test_what_the_model_wrote_does_not_act_in_a_notification() -> None:
    """Whatever the payload: one sequence, which ends where it should, and is short."""
    for payload in PAYLOADS:
        terminal = FakeTerminal()
        following(terminal)(replace(WAITING, about=f"bash {payload}"))
        (sent,) = terminal.sent
        inside = sent.removeprefix("\x1b]9;").removesuffix("\x07")
        assert inside.isprintable() and len(inside) < 250, payload


@pytest.fixture
def notifier(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A program that writes down its arguments, and the file that it writes."""
    seen = tmp_path / "seen"
    program = tmp_path / "notifier"
    program.write_text(
        f'#!{shutil.which("sh")}\nprintf "%s|" "$@" > {seen}.new\nmv {seen}.new {seen}\n'
    )
    program.chmod(0o755)
    yield str(program), seen


async def test_a_command_gets_each_text_as_one_argument(notifier: tuple[str, Path]) -> None:
    program, seen = notifier
    command = (program, "{title}", "-x", "{text}", "in {text}", "$(id)")
    following(FakeTerminal(), command=command)(replace(WAITING, about='bash "; touch x'))
    async with asyncio.timeout(30):
        while not seen.exists():  # noqa: ASYNC110  # another process makes it
            await asyncio.sleep(0.01)
    assert seen.read_text() == (  # one small file
        'codeagent · acme-api|-x|Waiting for you: bash "; touch x|in {text}|$(id)|'
    )


@for_each(
    ("command", "said"),
    [
        ("no-such-program-here", "is not a program on PATH"),
        ("./notifier", "is not a program on PATH"),
        (shutil.which("false"), "ended with an error"),
    ],
)
async def test_a_command_that_fails_is_reported(command: str, said: str) -> None:
    terminal = FakeTerminal()
    following(terminal, command=(command,))(WAITING)
    async with asyncio.timeout(30):
        assert said in await terminal.told.get()


async def test_a_command_of_the_workspace_is_not_run(notifier: tuple[str, Path]) -> None:
    program, seen = notifier
    terminal = FakeTerminal()
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{seen.parent}{os.pathsep}{path}"
    try:
        following(terminal, seen.parent, command=(Path(program).name,))(WAITING)
        async with asyncio.timeout(30):
            assert "is not a program on PATH" in await terminal.told.get()
    finally:
        os.environ["PATH"] = path
    assert not seen.exists()  # one small file


async def test_a_command_that_hangs_is_ended_with_the_screen() -> None:
    program = sys.executable
    terminal = FakeTerminal()
    following(terminal, command=(program, "-c", "import time; time.sleep(1000)"))(WAITING)
    (running,) = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_replaying_a_recording_notifies_nobody(tmp_path: Path) -> None:
    def play() -> Any:
        raise AssertionError

    launcher = ReplayLauncher(tmp_path, LocalApp(), play, tmp_path)
    on = launcher.extensions(checked(Settings, {})).on
    assert "notify" in {each.name for each in on}
    assert {each.screen.follower for each in on} == {""}


def seen(recording: Recording) -> Attention:
    state = UiState()
    state.status.set(workspace="acme-api")
    reducer = Reducer(state, live=True)
    for event in recording.events:
        reducer.apply(event)
    return attention(state)


@for_each(
    ("recorded", "state", "about"),
    [
        (Recording(), "idle", ""),
        (thinking(), "working", ""),
        (asks_to_run(), "waiting", "bash git diff --stat && rm -rf build/ && python3 -m pytest -q"),
        (thinking().answer("It was the century.").finish(), "done", ""),
        (thinking().finish("failed"), "failed", ""),
        (thinking().finish("interrupted"), "stopped", ""),
    ],
)
def test_the_events_say_what_the_agent_is_doing(
    recorded: Recording, state: str, about: str
) -> None:
    now = seen(recorded)
    assert (now.state, now.about, now.place) == (state, about, "acme-api")


def test_on_a_terminal_title_and_notification_come_and_the_title_returns(tmp_path: Path) -> None:
    product = Product(tmp_path / "work", tmp_path)
    product.workspace.mkdir()
    waits = bash("until [ -e go ]; do sleep 0.02; done")
    writes = ("write", {"path": "a.txt", "content": "x"})
    model = product.script(calls(waits), calls(writes), say("Written."))
    with open_screen(product, "--model", model, sandbox="off", size=(90, 26)) as screen:
        screen.wait_for(lambda: b"\x1b[22;2t\x1b]2;work" in screen.raw)
        screen.send("go", "enter")
        answer(screen, "y", "Run this command?")
        screen.wait_for(lambda: screen.raw.rfind(b"]2;working") > screen.raw.rfind(b"]2;waiting"))
        screen.write(b"\x1b[O")
        (product.workspace / "go").touch()
        screen.wait_for("a.txt")
        screen.wait_for(lambda: b"\x1b]2;waiting for you" in screen.raw)
        told = b"\x1b]9;codeagent \xc2\xb7 work: Waiting for you: write a.txt\x07"
        screen.wait_for(lambda: told in screen.raw)
        assert screen.raw.count(b"\x1b]9;") == 1, "who answers is not told"
        screen.write(b"\x1b[I")
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
        assert screen.raw.rindex(b"\x1b]2;\x07\x1b[23;2t") > screen.raw.rindex(b"\x1b]2;waiting")
