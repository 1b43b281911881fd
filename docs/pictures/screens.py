"""Pictures of a conversation: what is recorded is shown on the real screen."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import COLOR_SYSTEMS
from textual.pilot import Pilot

from codeagent.config.checking import checked
from codeagent.config.settings import Settings
from codeagent.core.display import DiffBlock, TextBlock
from codeagent.core.events import MessageAdded
from codeagent.core.messages import Attachment, UserMessage
from codeagent.core.notes import framed
from codeagent.core.runtime import Mentioned
from codeagent.tools.pictures import picture
from codeagent.tui.parts.composer_area import ComposerArea
from tests.extensions.attachments.drawn import chart
from tests.tui.boundary_scenes import one_skipped
from tests.tui.replay import ReplayApp, settled, until
from tests.tui.scripts import BEFORE, Recording, after_failing_tests, asks_to_edit, looked_around

Play = Callable[[Pilot[None], ReplayApp, Path], Awaitable[None]]
LOANS = "PERIODS = {'book': 28, 'film': 7}\n\n\ndef period(kind):\n    return PERIODS[kind]\n"
PROMPT = "The chart @sales.png looks wrong: is it drawn by @src/report.py:40-72 as @docs/ says?"
NEXT = "Compare it with @image:pasted-5d1c07a9, @src/axes.py and @docs:file:///axes.md"
STATUS_LINE = {
    "status_line": "{model} | {mode} on {branch} | {context} | cost {cost} | {command}",
    "status_command": ["/bin/sh", "-c", "echo kube: staging"],
}


@dataclass(frozen=True)
class Scene:
    """A screen, and what happens on it before its picture is taken."""

    recording: Recording
    size: tuple[int, int]
    play: Play | None = None
    """Is given the folder of the app's files."""
    _: KW_ONLY
    keys: tuple[str, ...] = ()
    theme: str = "ink"
    depth: str = ""
    """The colours of the terminal, as Rich names them; empty for all of them."""
    title: str = "codeagent"
    keymap: str = ""
    seconds: float = 12
    """How long ago the last event was."""
    status: Mapping[str, Any] = field(default_factory=dict)

    def draw(self) -> str:
        """Return the picture as SVG."""
        return asyncio.run(self._drawn())

    async def _drawn(self) -> str:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if self.keymap:
                (folder / "config").mkdir()
                (folder / "config/keys.yaml").write_text(self.keymap)
            now = self.recording.now + self.seconds
            app = ReplayApp(self.recording.events, folder, now=now, **self.status)
            async with app.run_test(size=self.size) as pilot:
                await settled(pilot)
                if self.depth:
                    app.console._color_system = COLOR_SYSTEMS[self.depth]
                assert app.look.use(self.theme) == ""
                if self.play is not None:
                    await self.play(pilot, app, folder)
                await pilot.press(*self.keys)
                await settled(pilot)
                return app.export_screenshot(title=self.title)


def asks_about_effects() -> Recording:
    """Return a session in which a formatter changed two files."""
    recording = after_failing_tests()
    recording.answer("The code is not formatted yet, so that comes first.")
    recording.plan(("c5", "bash", "black src", "auto"))
    recording.start("c5", "bash", "black src", command="black src")
    untidy = BEFORE.replace("y % 4 == 0", "y%4==0")
    return recording.ask(
        "c5",
        "effects",
        "`black src` changed 2 files +2 −2",
        TextBlock(text="M src/dates.py\nM src/loans.py"),
        DiffBlock(path="src/dates.py", before=untidy, after=BEFORE, start_line=41),
        DiffBlock(path="src/loans.py", before=LOANS, after=LOANS.replace("'", '"')),
        proposal="effects(src/**)",
        by_hunk=True,
    )


def names_places() -> Recording:
    """Return a session whose output and answer name lines of files."""
    recording = Recording().run("why does the build fail?")
    recording.plan(("c1", "bash", "make check", "auto"))
    recording.start("c1", "bash", "make check", command="make check")
    printed = "src/dates.py:42: error: incompatible return type\nFound 1 error in 1 file"
    recording.output("c1", "bash", printed)
    recording.result("c1", "bash", printed)
    recording.end_batch(executed=1)
    return recording.answer(
        "`days` returns a string since the last change, see `src/dates.py:42`. Its caller in "
        "src/loans.py:7 expects a number."
    )


async def find_places(pilot: Pilot[None], app: ReplayApp, folder: Path) -> None:
    workspace = folder / "acme-api"
    (workspace / "src").mkdir(parents=True)
    for name in ("dates", "loans"):
        (workspace / f"src/{name}.py").write_text("")
    app.chat.view.use_workspace(workspace)


def with_attachments() -> Recording:
    """Return a session whose prompt brought an image, lines of a file, and a folder."""
    found = picture(chart())
    attachments = (
        Attachment(name="sales.png", about=found.about, thumbnail=found.thumbnail),
        Attachment(name="src/report.py:40-72", about="33 lines · ~410 tokens"),
        Attachment(name="docs/", about="12 names · ~95 tokens"),
    )
    recording = Recording().run(PROMPT)
    recording.add(MessageAdded, message=_note(*attachments))
    recording.answer("Yes: `report.py` cuts the axis at 40, so the first bar looks twice as high.")
    recording.finish()
    return recording


async def write_mentions(pilot: Pilot[None], app: ReplayApp, folder: Path) -> None:
    found = (
        Attachment(name="image:pasted-5d1c07a9", about="1280×800 · 96.4 kB"),
        Attachment(name="src/axes.py", about="118 lines · ~1.2k tokens"),
        Attachment(name="docs:file:///axes.md", about="~640 tokens"),
    )
    app.clients[-1].agent_shown.mentions = lambda text: Mentioned(
        _note(*found) if "@" in text else None
    )
    app.chat.composer.insert(NEXT)
    await until(pilot, lambda: app.chat.query_one(ComposerArea).shows_attached)


async def mark_the_skipped_call(pilot: Pilot[None], app: ReplayApp, folder: Path) -> None:
    await until(pilot, lambda: app.chat.card._guard.quiet)
    await pilot.press("tab", "2")


async def use_status_line(pilot: Pilot[None], app: ReplayApp, folder: Path) -> None:
    app.chat.state.prefer(checked(Settings, STATUS_LINE))
    line = app.chat._status_line
    await until(pilot, lambda: "staging" in line.render_line(0).text)


def _note(*attachments: Attachment) -> UserMessage:
    return replace(framed("", ""), attached=attachments)


SCENES = {
    "screen": Scene(asks_about_effects().queue("q1", "steer", "also cover 1900"), (108, 34)),
    "colours-256": Scene(asks_to_edit(), (92, 24), depth="256"),
    "colours-16": Scene(asks_to_edit(), (92, 24), depth="standard"),
    "colours-16-light": Scene(asks_to_edit(), (92, 24), theme="paper", depth="standard"),
    "quiet": Scene(after_failing_tests(), (92, 20), keys=("ctrl+o", "ctrl+o")),
    "find": Scene(after_failing_tests(), (92, 24), keys=("ctrl+f", *"leap", "enter")),
    "commands": Scene(Recording(), (92, 32), keys=("ctrl+p",)),
    "notification": Scene(
        asks_about_effects(), (90, 26), title="waiting for you · acme-api · codeagent"
    ),
    "vim": Scene(
        looked_around(),
        (90, 22),
        keys=(*"tests for 1900", "escape", "b", "v", "e"),
        keymap="vim: true\n",
    ),
    "skip": Scene(one_skipped(), (92, 24), mark_the_skipped_call, status={"stepping": True}),
    "places": Scene(names_places(), (100, 26), find_places, seconds=0),
    "attach": Scene(with_attachments(), (100, 34), write_mentions, seconds=0),
    "status-line": Scene(
        after_failing_tests(),
        (116, 16),
        use_status_line,
        status={"cost_usd": 0.041, "phase": "idle"},
    ),
}
PICTURES = {name: scene.draw for name, scene in SCENES.items()}
