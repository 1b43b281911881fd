"""How far things travel: how many of our files one key press, one bash call and one start enter."""

import asyncio
import json
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import codeagent
from benchmarks.measure import CODEAGENT, Figure, model_server, run, workspace
from benchmarks.place import BenchEnvironment, place
from codeagent.app import LocalApp
from codeagent.app.runtime import open_session
from codeagent.commands.launcher import LocalLauncher
from codeagent.config.checking import checked
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.core.events import KnownEvent, ToolCallDelta, ToolResultAdded
from codeagent.core.runtime import Session
from codeagent.tui.app import CodeagentApp
from codeagent.tui.launcher import AppFolders as ScreenFolders
from codeagent.tui.launcher import LaunchOptions
from codeagent.tui.parts import guard
from codeagent.tui.session_client import SessionClient
from codeagent.tui.state import UiState

OURS = str(Path(codeagent.__file__).parent)
LANGUAGE = f"{OURS}/core/dataclass.py"
"""Makes the methods of dataclasses, as the library would: no station on a road."""
COUNTED = """
import sys, codeagent.cli
codeagent.cli.main(sys.argv[1:])
print(sum(name.split(".")[0] == "codeagent" for name in sys.modules))
"""
_ANSWERS_AFTER = 100
"""Milliseconds before each piece of an answer: no model answers before the prompt's snapshot is
taken."""
WAIT = 60.0
"""Seconds after which what is awaited will not happen."""


class Road:
    """Notes our files as functions of theirs are entered, in every thread that begins after
    `begin`.

    What Textual draws meanwhile is not on the road, nor is the screen once the mark was passed: it
    shows what happens.
    """

    def __init__(self, mark: tuple[str, str] = ("", ""), goal: Path | None = None) -> None:
        """`mark`, a file and a function, parts what is entered before it. `goal`, once it exists,
        is the end."""
        self.files: list[str] = []
        self.stations: list[tuple[int, str]] = []
        """The thread and the file of each function that was entered."""
        self.before_mark: int | None = None
        self._mark = mark
        self._goal = goal

    def begin(self) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        threading.setprofile(self._enter)
        sys.setprofile(self._enter)

    def end(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def switches(self) -> Counter[tuple[str, str]]:
        """How often a thread went from one file to another, by the pair of them."""
        found: Counter[tuple[str, str]] = Counter()
        last: dict[int, str] = {}
        for thread, file in self.stations:
            if (before := last.get(thread, file)) != file:
                found[_short(before), _short(file)] += 1
            last[thread] = file
        return found

    def _enter(self, frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        ours = file.startswith(OURS) and file != LANGUAGE
        if event != "call" or not ours or (self._goal is not None and self._goal.exists()):
            return
        beside = self.before_mark is not None and file.startswith(f"{OURS}/tui/")
        self.stations.append((threading.get_ident(), file))
        if file not in self.files and not beside and not _draws(frame):
            self.files.append(file)
        if self.before_mark is None and self._mark == (Path(file).name, frame.f_code.co_name):
            self.before_mark = len(self.files) - 1


def _short(file: str) -> str:
    return file.removeprefix(f"{OURS}/")


def _draws(frame: FrameType | None) -> bool:
    """Textual's compositor is among the callers."""
    while frame is not None:
        if frame.f_code.co_filename.endswith("textual/_compositor.py"):
            return True
        frame = frame.f_back
    return False


def figures() -> Iterator[Figure]:
    with place() as here:
        answered, written = asyncio.run(_key_press(here))
    yield _figure("a key on an approval, to Approvals.respond", answered, 8)
    yield _figure("the same key, to the written file", written, 30)
    with workspace() as root, tempfile.TemporaryDirectory() as state:
        first, turn = asyncio.run(_turns(root, Path(state)))
    yield _figure("a bash call, from stream to settled", turn.of_call, 55)
    yield _figure("a headless turn with a shell call", turn.files, 60)
    yield Figure("switches between them", f"{turn.switches.total()}", "-", None, "<= 500")
    yield Figure("files of a session's first such turn", f"{first.files} files", "-", None, "-")
    yield Figure("switches between them", f"{first.switches.total()}", "-", None, "-")
    with place() as here:
        yield _figure("modules that codeagent run imports", _modules_of_a_run(here), 200)


def _figure(name: str, count: int, target: int) -> Figure:
    return Figure(name, f"{count} files", "-", None, f"<= {target}")


async def _key_press(here: BenchEnvironment) -> tuple[int, int]:
    """Until the answer reaches the approvals, and until the file that was asked about is there."""
    guard.QUIET = guard.REPEAT = 0.0
    model = here.script(
        {"calls": [["write", {"path": "new.txt", "content": "a line\n"}]]}, {"text": "done"}
    )

    async def open_client(state: UiState, options: LaunchOptions) -> SessionClient:
        return SessionClient(LocalLauncher(here.workspace, LocalApp()), state)

    folders = ScreenFolders(here.home / "state", here.home / "config", here.workspace)
    app = CodeagentApp(
        open_client, LaunchOptions(model=model, flags={"sandbox": "off"}, proceed=True), folders
    )
    road = Road(("approvals.py", "respond"), here.workspace / "new.txt")
    async with app.run_test(size=(100, 30)) as pilot, asyncio.timeout(WAIT):
        await _until(lambda: app.chat.state.status.now.run.phase == "idle")
        app.chat.composer.set_text("write it")
        await pilot.press("enter")
        await _until(lambda: app.chat.state.approvals.waiting)
        await pilot.press("tab")
        await pilot.pause()
        road.begin()
        await pilot.press("y")
        await _until((here.workspace / "new.txt").exists)
        road.end()
        written = len(road.files)
        await _until(lambda: app.chat.state.status.now.run.phase == "idle")
        await app.chat.end()
    assert road.before_mark is not None
    return road.before_mark, written


@dataclass(frozen=True)
class Turn:
    """The road of one prompt to the end of its run."""

    files: int
    of_call: int
    """Files from the first piece of the model's answer to the call's one result."""
    switches: Counter[tuple[str, str]]


async def _turns(root: Path, state: Path) -> tuple[Turn, Turn]:
    """The first turn of a session, which also makes what all of them use, and the one after it."""
    script = state / "script.json"
    wait = {"delay_ms": _ANSWERS_AFTER}
    turn = [{"calls": [["bash", {"command": "ls"}]], **wait}, {"text": "done", **wait}]
    script.write_text(json.dumps(2 * turn))
    settings = checked(Settings, {"model": f"script:{script}", "mode": "ask"})
    runtime = await open_session(
        settings,
        LocalEnvironment(root, state, os.environ),
        resume=None,
        tell=lambda _: None,
        attended=False,
        needs_sandbox=True,
    )
    try:
        return await _turn(runtime), await _turn(runtime)
    finally:
        await runtime.close()


async def _turn(session: Session) -> Turn:
    road = Road()
    begun = 0
    of_call: set[str] = set()

    def observe(event: KnownEvent) -> None:
        nonlocal begun, of_call
        if isinstance(event, ToolCallDelta) and not begun:
            begun = len(road.stations)
        elif isinstance(event, ToolResultAdded):
            of_call = {file for _, file in road.stations[begun:]}

    session.agent.observe(observe)
    try:
        road.begin()
        async for _ in session.agent.run("list the files"):
            pass
    finally:
        road.end()
    return Turn(len(road.files), len(of_call), road.switches())


def _modules_of_a_run(here: BenchEnvironment) -> int:
    with model_server([{"text": "done"}]) as server:
        model = ["--model", "openai/bench", "--api-base", server.base_url]
        command = [CODEAGENT[0], "-c", COUNTED, "run", *model, "--output", "json", "hi"]
        return int(run(command, cwd=here.workspace, env=here.env).stdout.split()[-1])


async def _until(condition: Callable[[], Any]) -> None:
    while not condition():  # noqa: ASYNC110  # it stands for any condition, also without an event
        await asyncio.sleep(0.002)


def main() -> None:
    """Print between which files a turn goes to and fro most often."""
    with workspace() as root, tempfile.TemporaryDirectory() as state:
        _, turn = asyncio.run(_turns(root, Path(state)))
    for (one, other), times in turn.switches.most_common(50):
        print(f"{times:>5}  {one} -> {other}")


if __name__ == "__main__":
    main()
