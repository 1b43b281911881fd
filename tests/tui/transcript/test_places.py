"""`FILE:LINE` in the conversation: what becomes a link, what of it reaches the terminal, and what a
click or a key opens."""

import re
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.style import Style

from codeagent.disk.opens import file_inside
from codeagent.tui.pages.picker import Picker
from codeagent.tui.parts import external_editor
from codeagent.tui.rendering.lines import line
from codeagent.tui.transcript import places
from codeagent.tui.transcript.places import NamedFiles, named_places, places_in, with_places
from codeagent.tui.transcript.view import TranscriptView
from tests.table import for_each
from tests.tui.guards import long_enough
from tests.tui.guards import stop_time as stop_time
from tests.tui.replay import ReplayApp, settled, until
from tests.tui.scripts import Recording

OSC8 = re.compile(r"\x1b\]8;id=[\d-]*;(file://[\x21-\x7e]*|)\x1b\\|\x1b\]8;;\x1b\\|\x1b\[[\d;]*m")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    for name in ("src/a.py", "Makefile", "src/ünï.py", "src/x-1+y@2.test.py", "notes"):
        (root / name).write_text("one\n")
    (root / "out.py").symlink_to("/etc/passwd")
    (tmp_path / "secret.py").write_text("")
    return root


TEXTS = (
    ("see src/a.py:12.", ["src/a.py:12"]),
    ("src/a.py:12:5: error, Makefile:3", ["src/a.py:12", "Makefile:3"]),
    ("(./src/a.py:1) `src/ünï.py:2`", ["./src/a.py:1", "src/ünï.py:2"]),
    ("src/x-1+y@2.test.py:7", ["src/x-1+y@2.test.py:7"]),
    ("src/a.py:10-20", ["src/a.py:10"]),
    ("localhost:8080 12:30 http://src/a.py:12 src/b.py:1", []),
    ("../secret.py:1 /etc/passwd:1 out.py:1 src:1", []),
    ("xsrc/a.py:12 src/a.py: 12 src/a.py:x", []),
    ("src/a.py:12345678", []),
)


@for_each(("text", "expected"), TEXTS)
def test_only_lines_of_files_of_the_workspace_are_places(
    text: str, expected: list[str], workspace: Path
) -> None:
    found = list(places_in(text, partial(file_inside, workspace)))
    assert [str(place) for place in found] == expected
    assert [text[place.start : place.end] for place in found] == expected
    assert sorted(map(str, named_places(text, workspace))) == sorted(expected)


def test_an_absolute_path_inside_the_workspace_is_a_place(workspace: Path) -> None:
    (place,) = named_places(f'File "{workspace}/src/a.py:3"', workspace)
    assert str(place) == f"{workspace}/src/a.py:3"


@pytest.mark.parametrize("name", ["a.py", "ünï.py", "a\x1b]8;;x.py", "a;b.py", "a\\.py"])
def test_a_link_is_an_address_of_ascii_around_the_same_text(name: str, workspace: Path) -> None:
    (workspace / name).write_text("")
    shown = line([(f"at {name}:7 and src/a.py:1", None)])
    linked = with_places(shown, partial(file_inside, workspace), Style(underline=True))
    assert linked.text == shown.text
    drawn = linked.strip.render(Console(force_terminal=True, color_system="truecolor"))
    assert OSC8.sub("", drawn) == shown.text
    urls = {found[1] for found in OSC8.finditer(drawn) if found[1]}
    assert any(url.endswith(f"{workspace.name}/src/a.py#1") for url in urls)
    assert all(re.fullmatch(r"file://[\w.-]*/[\w./%~@+-]*#\d+", url, re.ASCII) for url in urls)


async def test_drawing_does_not_wait_for_the_disk_and_a_path_is_looked_for_once(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = list[tuple[str, bool]]()

    def look(root: Path, path: str) -> Path | None:
        looked.append((path, threading.current_thread() is threading.main_thread()))
        return file_inside(root, path)

    monkeypatch.setattr(places, "file_inside", look)
    files = NamedFiles(workspace)
    text = "src/a.py:1 src/a.py:2 src/new.py:3"
    assert list(places_in(text, files.find)) == [] and looked == []
    assert await files.look()
    for _ in range(2):
        assert [str(each) for each in places_in(text, files.find)] == ["src/a.py:1", "src/a.py:2"]
    assert not files.wanted
    assert sorted(looked) == [("src/a.py", False), ("src/new.py", False)]
    (workspace / "src/new.py").write_text("")
    monkeypatch.setattr(places, "_STALE", 0.0)
    assert len(list(places_in(text, files.find))) == 2
    await files.look()
    assert len(list(places_in(text, files.find))) == 3


def links(app: ReplayApp) -> set[str]:
    """The links on the screen."""
    strips = app.screen._compositor.render_strips()
    metas = (segment.style.meta for strip in strips for segment in strip if segment.style)
    return {str(meta["link"]) for meta in metas if "link" in meta}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []

    async def run(app: Any, argv: list[str]) -> None:
        found.append((argv[-1], int(argv[-2].removeprefix("+"))))

    monkeypatch.setattr(external_editor, "_run_beside", run)
    monkeypatch.setattr(external_editor, "find_program", lambda name, root: f"/bin/{name}")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "vi")
    return found


async def test_a_click_or_a_key_opens_a_place_in_the_editor(
    workspace: Path, tmp_path: Path, opened: list[tuple[str, int]]
) -> None:
    recording = Recording().run("where?").answer("In `src/a.py:12`.")
    recording.answer("And in Makefile:3, or src/a.py:4.").answer("Nowhere else: 12:30.")
    app = ReplayApp(recording.events, tmp_path, now=recording.now)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        view = app.chat.view
        view.use_workspace(workspace)
        view.set_detail("full")
        await until(pilot, lambda: len(links(app)) == 3)
        strips = app.screen._compositor.render_strips()
        rows = ["".join(segment.text for segment in strip) for strip in strips]
        row = next(number for number, text in enumerate(rows) if "src/a.py:12" in text)
        at = rows[row].index("src/a.py:12")
        await pilot.click(TranscriptView, offset=(at + 2, row - view.region.y))
        await until(pilot, lambda: opened == [(f"{workspace}/src/a.py", 12)])
        app.chat.composer.blur()
        view.focus()
        await pilot.press("e")
        assert "no FILE:LINE" in app.chat.state.status.now.screen.notice
        await pilot.press("p", "e")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        long_enough()
        await pilot.press("down", "enter")
        await until(pilot, lambda: opened[1:] == [(f"{workspace}/src/a.py", 4)])
    assert app.crash is None
