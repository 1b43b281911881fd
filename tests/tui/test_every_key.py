"""Every key of the key sheet does something on the screen it belongs to: each is pressed, and an
effect is seen."""

import asyncio
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.actions import parse
from textual.binding import Binding
from textual.dom import DOMNode
from textual.pilot import Pilot
from textual.screen import ModalScreen, Screen

import codeagent
from codeagent.core.acts import Queued
from codeagent.core.display import DiffBlock
from codeagent.core.errors import CodeagentError
from codeagent.core.redact import Redactor
from codeagent.extensions.board import page as board_page
from codeagent.extensions.replay import again
from codeagent.extensions.review.findings import ReviewFinding
from codeagent.extensions.review.page import FindingsScreen
from codeagent.session.log import SessionLog
from codeagent.session.store import SessionStore
from codeagent.tui import keymap
from codeagent.tui.app import CodeagentApp
from codeagent.tui.launcher import LaunchOptions, Missing
from codeagent.tui.pages import chat as chat_screen
from codeagent.tui.pages import slash
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.hunk_review import HunkReview
from codeagent.tui.pages.info import OutputScreen
from codeagent.tui.pages.opening import FirstRun, FolderQuestion
from codeagent.tui.parts import guard
from codeagent.tui.parts.marked_list import PickerList
from codeagent.tui.parts.typed_input import CommandInput, parse_input
from codeagent.tui.state import AtBoundary, Paused, PlanReady, SummaryReady
from tests.tui.boundary_scenes import PLAN, paused
from tests.tui.fake_launcher import TABLE
from tests.tui.fake_rewind import FakeRewind
from tests.tui.fake_servers import CHANGED, THEIRS, Book
from tests.tui.job_scenes import TOOLBOX, every_state
from tests.tui.replay import ReplayApp, settled, until
from tests.tui.scripts import Recording, after_failing_tests, running_tests
from tests.tui.test_permissions_screen import RULES, decided

SYMBOLS = {**keymap._SYMBOLS, "space": " "}
FINDINGS = tuple(
    ReviewFinding(
        path=f"src/{name}.py", line=3, severity="high", what=f"{name} is lost", why="Why. " * 400
    )
    for name in ("a", "b")
)
DIFF = DiffBlock(
    path="a.py",
    before="\n".join(map(str, range(60))),
    after="\n".join(str(n * (1 + n % 20 // 19)) for n in range(60)),
    start_line=1,
)
TEXT = "one two\nthree four"

Step = str | Callable[["Walker"], Any]
Walk = tuple[Callable[[], Recording], Sequence[Step]]
"""What is on screen, and what is pressed there: `~key` and `'text` only prepare, `a>b` are keys
that go together."""


class Walker:
    """Presses keys on an app and looks whether anything became different."""

    def __init__(self, app: ReplayApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self.outside: list[str] = []
        """What left the app: the editor, the clipboard, the shell, the end."""
        self.logs: list[SessionLog] = []
        """Held open, as another process would."""

    def seen(self) -> tuple[object, ...]:
        app, composer = self.app, self.app.chat.composer
        strips = app.screen._compositor.render_strips()
        return (
            [[(segment.text, segment.style) for segment in strip] for strip in strips],
            id(app.screen),
            id(app.screen.focused),
            len(app.told),
            [len(client.past.told) for client in app.clients],
            len(self.outside),
            (composer.typed, composer.selection, composer._chord),
            app.chat.state.status.now,
        )

    async def press(self, key: str) -> None:
        plain = key.rpartition("+")[2]
        character = SYMBOLS.get(plain) or (plain if len(plain) == 1 and plain == key else None)
        self.app.post_message(events.Key(key, character))
        await self.pilot.pause()

    async def begin(self) -> None:
        """Back to where one writes, with nothing written."""
        while isinstance(self.app.screen, ModalScreen):
            self.app.screen.dismiss(None)
            await self.pilot.pause()
        self.app.chat.composer.clear()
        self.app.chat.composer.focus()
        await self.pilot.pause()

    async def has_effect(self, step: Step) -> bool:
        before = self.seen()
        if isinstance(step, str):
            for key in step.split(">"):
                await self.press(key)
        else:
            step(self)
        for _ in range(250):
            if self.seen() != before:
                return True
            await asyncio.sleep(0.02)
        return False

    async def go(self, step: Step) -> bool:
        """False where a key had no effect."""
        if not isinstance(step, str):
            result = step(self)
            if asyncio.iscoroutine(result):
                await result
            await self.pilot.pause()
            return True
        if step.startswith("'"):
            for letter in step[1:]:
                await self.press(keymap.spelled(letter) if letter != " " else "space")
            return True
        if step.startswith("~"):
            await self.press(step[1:])
            return True
        return await self.has_effect(step)


def every_node() -> list[type[DOMNode]]:
    for module in pkgutil.walk_packages(codeagent.__path__, "codeagent."):
        if module.name.startswith(("codeagent.tui.", "codeagent.extensions.")):
            importlib.import_module(module.name)
    found, rest = [], [DOMNode]
    while rest:
        below = rest.pop().__subclasses__()
        rest += below
        found += [
            kind
            for kind in below
            if kind.__module__.startswith(("codeagent.tui.", "codeagent.extensions."))
            and not kind.__subclasses__()
        ]
    return found


def words(text: str) -> list[str]:
    return text.split()


def write(text: str) -> Step:
    return lambda walker: walker.app.chat.composer.set_text(text)


def show(page: Callable[[], Screen[Any]]) -> Step:
    def push(walker: Walker) -> None:
        walker.app.push_screen(page())

    return push


def command(line: str) -> Step:
    said = parse_input(f"/{line}", TABLE.commands)
    assert isinstance(said, CommandInput)
    return lambda walker: slash.run(walker.app.chat, said.row, said.arguments)


async def until_page(walker: Walker) -> None:
    async with asyncio.timeout(5):
        while walker.app.screen is walker.app.chat:  # noqa: ASYNC110  # whatever it waits for, it shows here
            await asyncio.sleep(0.01)
    await walker.pilot.pause()


def queue_some(walker: Walker) -> None:
    for number in range(4):
        walker.app.chat.state.queue.add(Queued(f"q{number}", "follow_up", f"text {number}"))


def at_boundary(what: AtBoundary) -> Step:
    return lambda walker: walker.app.chat.state.boundary.set(what)


def asks_about_much() -> Recording:
    before, after = ("\n".join(f"{word} {n}" for n in range(60)) for word in ("old", "new"))
    recording = running_tests().plan(("c5", "edit", "a.py", "prompt"))
    return recording.ask(
        "c5", "edit", "a.py", DiffBlock(path="a.py", before=before, after=after), by_hunk=True
    )


def every_job() -> Recording:
    recording = every_state()
    for number in range(200):
        recording.job_output("job-1", f"line {number} " * 40 + "\n")
    return recording


def long_conversation() -> Recording:
    recording = running_tests()
    for _ in range(40):
        recording.stream("a line of the answer\n\n")
    return recording


def conversation() -> Recording:
    recording = Recording()
    for number in range(3):
        recording.run(f"prompt {number}")
        recording.plan((f"c{number}", "bash", "make", "auto")).start(f"c{number}", "bash", "make")
        recording.result(f"c{number}", "bash", "ok").end_batch(executed=1).answer(
            f"find me {number}"
        ).finish()
    return recording


def plan() -> Recording:
    return Recording().run("plan it", mode="plan").answer(PLAN).finish(text=PLAN)


def summarized() -> Recording:
    return Recording().run("go on").answer("so far").finish()


def with_tools(walker: Walker) -> None:
    walker.app.clients[-1].tools_in_use = TOOLBOX


def with_servers(walker: Walker) -> None:
    walker.app.clients[-1].agent.servers = Book(CHANGED, THEIRS)


def with_sessions(walker: Walker) -> None:
    """Two other sessions, which this process has open."""
    store = SessionStore(walker.app.folders.state, Redactor({}))
    for _ in range(2):
        log = store.create()
        walker.logs.append(log)
        for event in after_failing_tests().events:
            log.append(replace(event, session=log.session_id))


async def until_board(walker: Walker) -> None:
    await until(
        walker.pilot, lambda: any(each.count > 1 for each in walker.app.screen.query(PickerList))
    )


def with_rules(walker: Walker) -> None:
    walker.app.clients[-1].agent.rules = RULES


async def no_key(variable: str, value: str) -> str:
    raise CodeagentError("no key is kept here")


def users_edits(walker: Walker) -> None:
    walker.app.clients[-1].past = past = FakeRewind()
    past.edited = frozenset({"src/dates.py"})


WALKS: dict[str, Walk] = {
    "chat": (
        long_conversation,
        words(
            "pageup pagedown ctrl+home ctrl+end escape ctrl+c ctrl+d ctrl+z ctrl+l shift+tab ctrl+o ctrl+t ~escape"
            " ctrl+b ctrl+f ~escape ctrl+p ~escape f1 ~escape"
        ),
    ),
    "composer": (
        Recording,
        [
            write(TEXT),
            *words(
                "left right ctrl+left ctrl+right alt+left alt+right alt+b alt+f home end ctrl+a ctrl+e"
            ),
            *words(
                "shift+left shift+right shift+up shift+down shift+home ~end ~home shift+end ~end"
            ),
            *words(
                "ctrl+shift+left ctrl+shift+right f7 ctrl+c super+c super+x ctrl+v backspace ctrl+h"
            ),
            *words(
                "ctrl+underscore ctrl+shift+z ctrl+shift+minus shift+super+z ctrl+slash ~ctrl+shift+z super+z"
            ),
            write(TEXT),
            *words(
                "~home delete ctrl+d ~end ctrl+w ctrl+y ctrl+backspace ~ctrl+y alt+backspace ~ctrl+y"
            ),
            *words(
                "~home alt+d ~ctrl+y ~home alt+delete ~ctrl+y ctrl+u ~ctrl+y super+backspace ~ctrl+y ~home ctrl+k"
            ),
            write(TEXT),
            *words("shift+enter ctrl+j up down ctrl+x>ctrl+e ctrl+g ctrl+r ~escape ~ctrl+u"),
            write(""),
            *words("question_mark ~escape slash escape ~ctrl+u 'said enter 'later alt+enter"),
            *words("'/mo tab ~ctrl+u backslash>enter"),
            write(""),
            *words("at ~ctrl+u exclamation_mark ~ctrl+u"),
            "~a",
            "backslash>enter",
        ],
    ),
    "history": (
        Recording,
        [
            *words("'ab enter 'abc enter 'abd enter"),
            *words(
                "~ctrl+r up ctrl+r down ctrl+s 'ab backspace ctrl+h 'a ctrl+u 'a ctrl+w enter ~ctrl+u"
            ),
            *words("~ctrl+r tab ~ctrl+u ~ctrl+r escape ~ctrl+r ctrl+c ~ctrl+r ctrl+g"),
        ],
    ),
    "card": (
        asks_about_much,
        words(
            "~tab down up pagedown pageup t left right r ~escape e ~escape ~tab p down up ~escape h i v ~escape n y a"
            " A 1"
        ),
    ),
    "boundary": (
        paused,
        [
            *words("~tab down up j k 2 x X ~escape e ~escape"),
            *(
                step
                for key in ("s", "S", "c", "enter", "plus")
                for step in (
                    at_boundary(None),
                    at_boundary(Paused("budget", "used up", 0)),
                    "~tab",
                    key,
                )
            ),
        ],
    ),
    "plan": (
        plan,
        [
            step
            for key in "epPak"
            for step in (at_boundary(None), at_boundary(PlanReady(PLAN)), "~tab", key)
        ],
    ),
    "summary": (
        summarized,
        [
            step
            for key in ("e", "k", "c", "enter")
            for step in (
                at_boundary(None),
                at_boundary(SummaryReady("# Done\n- all", 4)),
                "~tab",
                key,
            )
        ],
    ),
    "find": (conversation, words("~ctrl+f 'find up down enter shift+enter escape")),
    "transcript": (
        conversation,
        words(
            "~tab p n left_square_bracket ~left_square_bracket right_square_bracket ~n enter o ~escape y c e escape"
        ),
    ),
    "picker": (
        Recording,
        [
            command("theme"),
            until_page,
            *words("down up ctrl+n ctrl+p pagedown pageup end home 'i ~backspace enter"),
            command("theme"),
            until_page,
            "escape",
            command("theme"),
            until_page,
            "ctrl+c",
            command("model"),
            until_page,
            "ctrl+f",
        ],
    ),
    "page": (
        Recording,
        [
            show(
                lambda: OutputScreen(
                    "Whole output", "\n".join(f"line {n} " * 40 for n in range(300))
                )
            ),
            *words(
                "down up j k pagedown pageup space b end home G g right left slash 'line ~enter n N ~escape c ctrl+c q"
            ),
            show(lambda: OutputScreen("Whole output", "text")),
            "escape",
        ],
    ),
    "queue": (
        running_tests,
        [
            queue_some,
            command("queue"),
            until_page,
            *words("down up j k e ~escape enter ~escape J K alt+down alt+up x delete escape"),
            command("queue"),
            until_page,
            "q",
            command("queue"),
            until_page,
            "ctrl+c",
        ],
    ),
    "hunks": (
        Recording,
        [
            show(lambda: HunkReview(DIFF)),
            *words(
                "j k space a r a R A t ~t f down up pagedown b pagedown pageup end home G g c ctrl+c e ~escape d ctrl+g"
            ),
            "enter",
            "~escape",
            show(lambda: HunkReview(DIFF)),
            "escape",
            show(lambda: HunkReview(DIFF)),
            "q",
            command("diff"),
            until_page,
            *words("right_square_bracket left_square_bracket x y X y"),
        ],
    ),
    "findings": (
        Recording,
        [
            show(lambda: FindingsScreen(FINDINGS, Path("/home/ada/acme-api"))),
            *words("down up j k pagedown pageup enter c escape"),
        ],
    ),
    "lines": (
        Recording,
        [
            step
            for key in ("ctrl+s", "ctrl+g", "escape")
            for step in (show(lambda: HunkReview(DIFF)), "~e", "'x", key)
        ],
    ),
    "jobs": (
        every_job,
        [
            "~ctrl+t",
            until_page,
            *words(
                "~up ~up ~up ~up ~up ~up down up j k home end pageup pagedown b space g G right left"
            ),
            *words(
                "enter ~escape o ~escape s y ~down ~down ~down ~down ~down ~down i ~escape escape"
            ),
            "~ctrl+t",
            until_page,
            "q",
            "~ctrl+t",
            until_page,
            "ctrl+t",
            "~ctrl+t",
            until_page,
            "ctrl+c",
        ],
    ),
    "facts": (
        Recording,
        [
            command("config"),
            until_page,
            *words(
                "down up j k pagedown pageup space b c slash 'mode ~escape enter ~escape ~escape"
            ),
            *(
                step
                for key in ("q", "escape", "ctrl+c")
                for step in (command("status"), until_page, key)
            ),
        ],
    ),
    "tools": (Recording, [with_tools, command("tools"), until_page, *words("t y d")]),
    "mcp": (Recording, [with_servers, command("mcp"), until_page, *words("r d")]),
    "server": (Recording, [with_servers, command("mcp"), until_page, *words("~enter y")]),
    "board": (
        Recording,
        [
            with_sessions,
            *[command("board"), until_page, until_board, *words("j k down up x y escape")],
            *[command("board"), until_page, until_board, "q"],
            *[command("board"), until_page, until_board, "enter"],
        ],
    ),
    "rewind": (
        Recording,
        [
            users_edits,
            command("undo"),
            until_page,
            "enter",
            command("undo"),
            until_page,
            "y",
            command("undo"),
            until_page,
            "m",
        ],
    ),
    "permissions": (
        decided,
        [
            with_rules,
            command("permissions"),
            until_page,
            *words(
                "down up j k pagedown pageup space b enter ~escape x n ~escape tab p ~escape escape"
            ),
            command("permissions"),
            until_page,
            "q",
        ],
    ),
    "rule": (
        decided,
        [
            with_rules,
            command("permissions"),
            until_page,
            *words("~n 'bash(x) tab enter ~escape ~n escape ~n ctrl+c"),
        ],
    ),
    "question": (
        Recording,
        [
            step
            for key in words("y n enter escape ctrl+c")
            for step in (show(lambda: FolderQuestion("this is your home")), key)
        ]
        + [
            show(
                lambda: FirstRun(
                    Missing("model", "no model is chosen"), no_key, options=LaunchOptions()
                )
            ),
            "d",
        ],
    ),
}


@pytest.fixture(autouse=True)
def cards_take_keys_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cards do before somebody could have read them is another test's subject."""
    monkeypatch.setattr(guard, "QUIET", 0.0)
    monkeypatch.setattr(guard, "REPEAT", 0.0)


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What keys do that no screen shows."""
    done: list[str] = []

    async def edited(app: object, text: str, *options: object, **named: object) -> str:
        done.append("editor")
        return text

    async def printed(chat: ChatScreen, argument: str) -> None:
        done.append("printed")

    async def lent(chat: ChatScreen, *words: str) -> int:
        done.append("lent")
        return 0

    def copied(app: ReplayApp, text: str) -> None:
        app._clipboard = text
        done.append("copied")

    monkeypatch.setattr(chat_screen, "edit_in_editor", edited)
    monkeypatch.setattr(board_page, "start_held", lambda words: (True, "it works elsewhere"))
    monkeypatch.setattr(ReplayApp, "action_quit", lambda app: done.append("quit"))
    monkeypatch.setattr(ReplayApp, "action_suspend_process", lambda app: done.append("suspended"))
    monkeypatch.setattr(ReplayApp, "copy_to_clipboard", copied)
    monkeypatch.setattr(slash, "print_below", printed)
    monkeypatch.setattr(again, "lend_terminal", lent)
    monkeypatch.setattr(ChatScreen, "action_redraw", lambda screen: done.append("drawn"))
    yield done


@pytest.mark.parametrize(
    "make", dict.fromkeys(make for make, _ in WALKS.values()), ids=lambda make: make.__name__
)
async def test_every_key_has_an_effect_where_it_belongs(
    make: Callable[[], Recording], tmp_path: Path, outside: list[str]
) -> None:
    """One app goes through all walks that begin with the same conversation."""
    recording = make()
    app = ReplayApp(recording.events, tmp_path, now=recording.now)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        walker = Walker(app, pilot)
        walker.outside = outside
        dead = []
        for scope, (begins_with, steps) in WALKS.items():
            if begins_with is make:
                await walker.begin()
                dead += [(scope, step) for step in steps if not await walker.go(step)]
    assert dead == [], f"no effect: {dead}"
    assert app.crash is None


async def test_every_command_says_or_shows_something(tmp_path: Path, outside: list[str]) -> None:
    recording = conversation()
    app = ReplayApp(recording.events, tmp_path, now=recording.now)
    dead = []
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        walker = Walker(app, pilot)
        walker.outside = outside
        for row in TABLE.commands:
            app.chat.tell("")
            await walker.begin()
            if not await walker.has_effect(command(row.name)):
                dead.append(row.name)
    assert dead == []
    assert app.crash is None


def test_every_action_of_a_binding_exists() -> None:
    """A name that is none of Textual's or ours does nothing, and says nothing."""
    missing = []
    for kind in every_node():
        for binding in (
            bound for each in kind.__mro__ for bound in each.__dict__.get("BINDINGS", ())
        ):
            action = binding.action if isinstance(binding, Binding) else binding[1]
            where, name, _ = parse(action)
            owner = {"app": CodeagentApp, "screen": ChatScreen}.get(where, kind)
            if not hasattr(owner, f"action_{name}") and not hasattr(owner, f"_action_{name}"):
                missing.append((kind.__name__, action))
    assert missing == []


@pytest.mark.parametrize("scope", TABLE.scopes)
def test_every_key_of_the_sheet_is_pressed(scope: str) -> None:
    pressed = {key for step in WALKS[scope][1] if isinstance(step, str) for key in step.split(">")}
    advertised = {key for action in TABLE.keys if action.scope == scope for key in action.keys}
    assert advertised - pressed == set()
