"""From the card to the hunks and back: the conversation is answered with what the user took."""

from pathlib import Path

from codeagent.core.acts import Answer
from codeagent.core.display import DiffBlock
from codeagent.core.policy import Decision
from tests.tui.guards import long_enough
from tests.tui.replay import ReplayApp, settled, until
from tests.tui.scripts import Recording

OTHER = DiffBlock(path="b.txt", before="x\n", after="y\n")
BLOCK = DiffBlock(path="a.txt", before="1\n2\n3\n4\n5\n", after="one\n2\n3\n4\nfive\n")


async def test_the_hunks_that_were_taken_are_the_answer(tmp_path: Path) -> None:
    recording = Recording().run("count")
    recording.plan(("c1", "edit", "a.txt", "prompt"))
    recording.ask("c1", "edit", "a.txt", BLOCK, by_hunk=True)
    app = ReplayApp(recording.events, tmp_path, now=recording.now)
    async with app.run_test(size=(80, 30)) as pilot:
        await settled(pilot)
        for keys in (["tab"], ["h"], ["j", "space"], ["enter"]):
            long_enough()
            await pilot.press(*keys)
            await pilot.pause()
        await pilot.pause()

        answers = [act for act in app.told if isinstance(act, Answer)]
        assert answers == [Answer("c1.1", Decision("once", hunks=(True, False)))]


async def test_the_hunks_of_several_files_are_chosen_file_by_file_and_answered_together(
    tmp_path: Path,
) -> None:
    recording = Recording().run("count")
    recording.plan(("c1", "multi_edit", "a.txt, b.txt", "prompt"))
    recording.ask("c1", "multi_edit", "a.txt, b.txt", BLOCK, OTHER, by_hunk=True)
    app = ReplayApp(recording.events, tmp_path, now=recording.now)
    async with app.run_test(size=(80, 30)) as pilot:
        await settled(pilot)
        for keys in (
            ["tab"],
            ["h"],
            ["enter"],
            ["escape"],
            ["h"],
            ["j", "space"],
            ["enter"],
            ["enter"],
        ):
            long_enough()
            await pilot.press(*keys)
            await pilot.pause()
        await pilot.pause()

        answers = [act for act in app.told if isinstance(act, Answer)]
        assert answers == [Answer("c1.1", Decision("once", hunks=(True, False, True)))]


async def test_a_card_says_how_to_read_on_as_soon_as_the_hunks_are_left(tmp_path: Path) -> None:
    recording = Recording().run("count")
    recording.plan(("c1", "edit", "a.txt", "prompt"))
    long = DiffBlock(path="a.txt", before="1\n" * 40, after="one\n" * 40)
    recording.ask("c1", "edit", "a.txt", long, by_hunk=True)
    app = ReplayApp(recording.events, tmp_path, now=recording.now)
    async with app.run_test(size=(60, 20)) as pilot:
        await settled(pilot)
        chat = app.screen
        long_enough()
        await pilot.press("alt+h")
        await until(pilot, lambda: app.screen is not chat)
        app.chat.card.sync()
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is chat)
        await pilot.pause()
        rows = chat._compositor.render_strips()
        assert any("read on, page 1 of" in row.text for row in rows)
