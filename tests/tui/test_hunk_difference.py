"""A change under review in the editor's diff view: what is saved there becomes the answers, and has
to be seen again."""

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from codeagent.config.settings import EditorSettings
from codeagent.core.display import DiffBlock, HunkAnswer
from codeagent.tui.pages.hunk_review import HunkReview
from codeagent.tui.parts import external_editor
from tests.tui.guards import long_enough
from tests.tui.guards import stop_time as stop_time
from tests.tui.replay import ReplayApp, settled, until

BEFORE = "a\nb\nc\nd\ne\nf\ng\nh\ni\n"
DIFF = DiffBlock(path="src/x.py", before=BEFORE, after=BEFORE.replace("b", "B").replace("h", "H"))


def command(code: str) -> EditorSettings:
    """A diff view that changes the text on the right with this code."""
    whole = f"import sys; new = open(sys.argv[1]).read(); {code}; open(sys.argv[1], 'w').write(new)"
    words = [sys.executable, "-c", whole, "{after}", "{before}"]
    return EditorSettings(diff=shlex.join(words))


@pytest.mark.parametrize(
    ("code", "answers", "said"),
    [
        ("new = new.replace('B', 'mine\\ntoo')", (("mine", "too"), True), "1 edited"),
        ("new = new.replace('H\\n', '')", (True, ()), "1 edited"),
        ("new = new.replace('B', 'b')", (False, True), "1 of 2 hunks"),
        ("new = new", (True, True), "nothing was changed"),
        ("new = new.replace('e', 'E')", (True, True), "outside these hunks"),
        ("sys.exit(3)", (True, True), "ended with 3"),
    ],
)
async def test_what_is_saved_in_the_diff_view_is_what_applies(
    code: str,
    answers: tuple[HunkAnswer, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def in_terminal(app: Any, argv: list[str]) -> None:
        external_editor._check(argv, await external_editor._run(argv))

    monkeypatch.setattr(external_editor, "_in_terminal", in_terminal)
    app = ReplayApp([], tmp_path, now=0.0)
    given: list[object] = []
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        app.editor = command(code)  # type: ignore[attr-defined]  # as the settings set it
        review = HunkReview(DIFF)
        app.push_screen(review, given.append)
        await pilot.pause()
        long_enough()
        await pilot.press("d")
        strips = app.screen._compositor.render_strips
        await until(
            pilot,
            lambda: said in "".join(segment.text for strip in strips() for segment in strip),
            said,
        )
        long_enough()
        await pilot.press("j", "j")
        long_enough()
        await pilot.press("enter")
        await until(pilot, lambda: bool(given))
        assert given == [answers]
        if "outside" in said:
            assert app.clipboard == DIFF.after.replace("e", "E")
    assert app.crash is None
