"""The real chat screen on a recorded event list: `python recorded_screen.py FOLDER NUMBER...` shows
those payloads.

Without a number the same screen shows harmless words: what Textual writes for those is what it may
write.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from codeagent.config.checking import checked
from codeagent.config.extensions import Extensions, all_extensions
from codeagent.config.model_marks import ModelMarksFile
from codeagent.config.settings import Settings
from codeagent.core.attention import Follower, Terminal
from codeagent.core.display import (
    DiffBlock,
    FilesBlock,
    MarkdownBlock,
    QuestionBlock,
    TerminalBlock,
    TextBlock,
)
from codeagent.core.events import Notice, SteerQueued
from codeagent.core.model import ModelInUse
from codeagent.core.runtime import SessionSummary
from codeagent.extensions.notify.follower import follow
from codeagent.tui.app import run_app
from codeagent.tui.facts import Fact, Facts
from codeagent.tui.launcher import AppFolders, LaunchOptions, Missing, ModelOffer, ModelRow
from codeagent.tui.reduce import Reducer
from codeagent.tui.session_client import SessionClient
from codeagent.tui.state import UiState
from tests.security.terminal_payloads import END, PAYLOADS
from tests.tui.scripts import Recording

BENIGN = ["a harmless word", "another one", "**strong** and `code`", "http://example.test/"]
PARAGRAPH = "\n\n"
_FRAME = 0.03
"""Seconds: longer than Textual waits between two frames."""


class RecordedClient:
    """A conversation that only shows; what the user does has no effect."""

    running = False
    launcher = SimpleNamespace(workspace=Path("/nonexistent"))

    def __init__(self, state: UiState, texts: list[str]) -> None:
        self._state = state
        self._texts = texts

    async def open(self, options: LaunchOptions) -> Missing | None:
        # A bell for a question would hide one that a text rings.
        self._state.prefer(checked(Settings, {"bell": False}))
        self._task = asyncio.create_task(self._show())
        return None

    async def _show(self) -> None:
        reducer = Reducer(self._state, live=True)
        for recording in (said(self._texts), worked(self._texts)):
            for event in recording.events:
                reducer.apply(event)
            await asyncio.sleep(_FRAME)
        for recording in asked(self._texts):
            for event in recording.events:
                reducer.apply(event)
                await asyncio.sleep(_FRAME)
        for text in self._texts:
            self._state.status.set(
                workspace=text,
                branch=text,
                model=text,
                sandbox=text,
                retry_reason=text,
                phase="retrying",
                notice=text,
            )
            await asyncio.sleep(_FRAME)
            self._state.status.set(phase="idle", notice="")
        self._state.document.remark(END)

    async def start_up(self) -> None:
        return None

    async def followers(self, terminal: Terminal) -> tuple[Follower, ...]:
        return (follow(Settings(), self.launcher.workspace, terminal),)

    async def extensions(self) -> Extensions:
        return all_extensions()

    async def sessions(self) -> tuple[SessionSummary, ...]:
        return tuple(
            SessionSummary(f"s{n}", 1.0, 0, "", text, text, False)
            for n, text in enumerate(self._texts)
        )

    async def models(self) -> tuple[ModelRow, ...]:
        return tuple(ModelRow(text, text, True) for text in self._texts)

    async def offers(self) -> AsyncIterator[ModelOffer]:
        texts = tuple(self._texts)
        rows = (ModelRow(text, text, n % 2 == 0, text) for n, text in enumerate(texts))
        yield ModelOffer(tuple(rows), texts, texts)

    @property
    def model_marks(self) -> ModelMarksFile:
        return ModelMarksFile(Path("/nonexistent/models.json"))

    @property
    def agent(self) -> Any:
        return SimpleNamespace(model=ModelInUse("m"))

    async def files(self) -> tuple[str, ...]:
        return tuple(self._texts)

    async def full_output(self, call_id: str) -> str | None:
        return "\n".join(self._texts)

    async def facts(self, about: str) -> Facts:
        rows = [Fact(cells=(text, text), about=text, does=text) for text in self._texts]
        return Facts(self._texts[0], rows, self._texts[0])

    async def close(self) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: None


def said(texts: list[str]) -> Recording:
    """Prompts, thoughts, answers, notices."""
    recording = Recording().run(numbered(texts, "p"))
    recording.think(numbered(texts, "t"))
    links = PARAGRAPH.join(f"[a link]({text}) ![an image]({text})" for text in texts)
    text = f"{numbered(texts, 'a', PARAGRAPH)}{PARAGRAPH}{links}"
    for piece in range(0, len(text), 7):
        recording.stream(text[piece : piece + 7])
    recording.answer(text)
    for number, text in enumerate(texts):
        recording.add(Notice, level="warning", code="payload", text=f"n{number}:{text}")
    return recording


def worked(texts: list[str]) -> Recording:
    """Cards: names, targets, live output, results of every kind, errors."""
    recording = Recording()
    for number, text in enumerate(texts):
        call, name = f"c{number}", f"N{number}:{text}"
        recording.plan((call, name, f"T{number}:{text}", "prompt"))
        recording.start(call, name, f"T{number}:{text}")
        recording.output(call, name, f"o{number}:{text}\n")
        blocks = (
            TextBlock(text=f"b{number}:{text}"),
            MarkdownBlock(text=f"m{number}:{text}"),
            TerminalBlock(command=f"k{number}:{text}", output=f"O{number}:{text}\n", exit_code=1),
            DiffBlock(path=f"F{number}:{text}", before=f"x\n{text}\n", after=f"y\n{text}{text}\n"),
            FilesBlock(paths=(f"f{number}:{text}",)),
        )
        kind = ("failed", f"e{number}:{text}") if number % 2 else None
        recording.result(call, name, text, error=kind, blocks=blocks)
        recording.end_batch(executed=1)
    return recording


def asked(texts: list[str]) -> list[Recording]:
    """Approvals, one after the other, and queued texts."""
    whole = numbered(texts, "q")
    shown = [
        TerminalBlock(command=whole),
        DiffBlock(path=f"path {texts[0]}", before="before\n", after=whole),
        QuestionBlock(question=whole, options=tuple(texts[:9])),
    ]
    recordings = []
    for number, block in enumerate(shown):
        name = ("bash", "edit", "ask_user")[number]
        recording = Recording()
        recording.ask(f"a{number}", name, texts[number % len(texts)], block, reason=texts[-1])
        recording.resolve(f"a{number}", "deny")
        recordings.append(recording)
    queued = Recording()
    for number, text in enumerate(texts):
        queued.add(SteerQueued, id=f"s{number}", kind=("steer", "follow_up")[number % 2], text=text)
    return [*recordings, queued]


def numbered(texts: list[str], letter: str, between: str = "\n") -> str:
    return between.join(f"{letter}{number}:{text}" for number, text in enumerate(texts))


def main(folder: Path, shown: list[int]) -> int:
    texts = [PAYLOADS[number] for number in shown] or BENIGN

    async def open_client(state: UiState, options: LaunchOptions) -> SessionClient:
        client: Any = RecordedClient(state, texts)
        return client  # type: ignore[no-any-return]  # what it leaves out answers None, by __getattr__

    return run_app(
        open_client, LaunchOptions(), AppFolders(folder / "state", folder / "config", folder)
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), [int(number) for number in sys.argv[2:]]))
