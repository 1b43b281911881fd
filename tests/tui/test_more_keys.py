"""Where a small screen has no room for every key, it says which key shows the others."""

from pathlib import Path

from codeagent.core.display import DiffBlock
from codeagent.tui.pages.info import KeySheet
from codeagent.tui.pages.picker import Picker
from tests.table import for_each
from tests.tui.replay import until
from tests.tui.scripts import running_tests
from tests.tui.test_chat import chat, shown, write

MORE = "F1 more"


@for_each(("size", "says"), [((60, 20), True), ((40, 20), True), ((120, 40), False)])
async def test_a_card_says_where_the_keys_are_that_it_has_no_room_for(
    tmp_path: Path, size: tuple[int, int], says: bool
) -> None:
    folder = tmp_path / f"{size[0]}"
    folder.mkdir()
    change = DiffBlock(path="a.py", before="one\n", after="two\n")
    recording = running_tests().plan(("c5", "edit", "a.py", "prompt"))
    recording.ask(
        "c5",
        "edit",
        "a.py",
        change,
        by_hunk=True,
        arguments={"path": "a.py"},
        proposal="edit(a.py)",
    )
    async with chat(folder, recording, size=size) as (pilot, app):
        assert (" F1  more" in shown(app)) is says, shown(app)
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, KeySheet))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        assert app.told == []


@for_each(("width", "says"), [(60, False), (40, True)])
async def test_a_list_says_where_the_keys_are_that_it_has_no_room_for(
    tmp_path: Path, width: int, says: bool
) -> None:
    folder = tmp_path / f"{width}"
    folder.mkdir()
    async with chat(folder, size=(width, 20)) as (pilot, app):
        await write(pilot, "/theme", "enter")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        await pilot.pause()
        assert (MORE in shown(app)) is says, shown(app)


async def test_the_sheet_of_keys_opens_once_above_a_page_and_esc_goes_back_to_it(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path) as (pilot, app):
        await write(pilot, "/theme", "enter")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        page = app.screen
        await pilot.press("f1", "f1")
        await until(pilot, lambda: isinstance(app.screen, KeySheet))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is page)
