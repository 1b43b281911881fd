"""What waits to be read can be edited, moved and taken back; what the agent read meanwhile is not
lost."""

from pathlib import Path

import pytest
from textual.widgets import TextArea

from codeagent.core.acts import Queued, Reorder, Rewrite, TakeBack
from codeagent.tui.keymap import Keymap
from codeagent.tui.pages import queue
from codeagent.tui.pages.queue import QueuePage
from codeagent.tui.parts.line_input import LineInput
from codeagent.tui.state import QueuedMessages, UiState
from tests.tui.pages.stand_in import MANNERS, StandIn
from tests.tui.replay import ReplayClient

ITEMS = (
    Queued("q1", "steer", "also cover 1900"),
    Queued("q2", "follow_up", "then commit"),
    Queued("q3", "interrupt", "stop that"),
    Queued("q4", "follow_up", "and push\nto origin"),
)


class QueueApp(StandIn):
    """With a conversation whose queue obeys at once, or says that it was faster."""

    def __init__(self, *items: Queued, read: bool = False, keymap: Keymap | None = None) -> None:
        super().__init__()
        self.queue = QueuedMessages(items)
        self.client = ReplayClient(UiState(), (), None)
        self.restored: list[str] = []
        self.keys = keymap or Keymap()
        if read:
            self.client.refusal = "the agent has already read it"

    async def on_mount(self) -> None:
        super().on_mount()
        self.query_one(TextArea).focus()
        self.page = QueuePage(self.queue, self.client, self.restored.append)
        await self.push_screen(self.page, self.given.append)

    @property
    def line(self) -> LineInput:
        return self.page.query_one(LineInput)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (40, 12)])
async def test_both_lanes_are_listed_in_the_order_they_are_read(size: tuple[int, int]) -> None:
    app = QueueApp(*ITEMS)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        rows = [row.strip(" ▸─") for row in app.rows]
        first = rows.index("will be read after this batch")
        assert rows[first : first + 6] == [
            "will be read after this batch",
            "“also cover 1900”",
            "interrupt: “stop that”",
            "when the agent is done",
            "“then commit”",
            "“and push” +1 line",
        ]


async def test_a_screen_with_few_rows_shows_the_marked_text() -> None:
    app = QueueApp(*ITEMS)
    async with app.run_test(size=(30, 6)) as pilot:
        await pilot.press("j", "j", "j")
        await pilot.pause()
        assert any(row.startswith(" ▸ “and push”") for row in app.rows)


async def test_a_text_is_edited_in_a_line() -> None:
    app = QueueApp(*ITEMS)
    async with app.run_test() as pilot:
        await pilot.press("e", *"!?", "enter")
        assert app.client.told == [Rewrite("q1", "also cover 1900!?")]
        assert not app.line.has_class("-open")


async def test_esc_leaves_a_text_as_it_was_and_then_closes() -> None:
    app = QueueApp(*ITEMS)
    async with app.run_test() as pilot:
        await pilot.press("enter", "x", "escape")
        assert app.screen is app.page
        await pilot.press("escape")
        await pilot.pause()
        assert (app.client.told, app.given) == ([], [None])
        assert app.focused is app.query_one(TextArea)


async def test_an_empty_text_is_not_kept() -> None:
    app = QueueApp(*ITEMS)
    async with app.run_test() as pilot:
        await pilot.press("e", "ctrl+u", "enter")
        assert app.client.told == []
        assert "it is empty: Esc leaves it as it was" in app.shown


async def test_several_lines_are_edited_in_the_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    async def edited(app: object, text: str) -> str:
        return text + "\nand tell Ada"

    monkeypatch.setattr(queue, "edit_in_editor", edited)
    app = QueueApp(ITEMS[3])
    async with app.run_test() as pilot:
        await pilot.press("e")
        await app.workers.wait_for_complete()
        assert app.client.told == [Rewrite("q4", "and push\nto origin\nand tell Ada")]


async def test_a_text_moves_within_its_lane_and_no_further() -> None:
    app = QueueApp(*ITEMS)
    async with app.run_test() as pilot:
        await pilot.press("K")
        assert app.client.told == []
        assert "it is the first of its lane" in app.shown
        await pilot.press("J", "down", "alt+down", "alt+up")
        assert app.client.told == [Reorder("q1", 2), Reorder("q3", 0)]
        await pilot.press("end", "j", "j", "K")
        assert app.client.told[2:] == [Reorder("q4", 1)]


async def test_the_mark_stays_on_its_text_when_the_order_changes() -> None:
    app = QueueApp(*ITEMS)
    async with app.run_test() as pilot:
        app.queue.order(["q3", "q1"])
        await pilot.press("x")
        assert app.client.told == [TakeBack("q1")]


async def test_the_list_closes_when_nothing_waits_any_more() -> None:
    app = QueueApp(*ITEMS)
    async with app.run_test() as pilot:
        app.queue.remove("q1")
        await pilot.press("delete")
        assert app.client.told == [TakeBack("q3")]
        app.queue.clear()
        await pilot.pause()
        await pilot.pause()
        assert app.given == [None]


async def test_what_the_agent_read_meanwhile_gives_back_what_was_written_about_it() -> None:
    app = QueueApp(*ITEMS)
    async with app.run_test() as pilot:
        await pilot.press("e", "!")
        app.queue.remove("q1")
        await pilot.pause()
        assert app.restored == ["also cover 1900!"]
        assert "the agent has already read it; your text is in the composer" in app.shown


async def test_a_queue_that_was_faster_loses_nothing() -> None:
    app = QueueApp(*ITEMS, read=True)
    async with app.run_test() as pilot:
        await pilot.press("e", "!", "enter")
        assert app.restored == ["also cover 1900!"]
        await pilot.press("J")
        assert "the agent has already read it" in app.shown


async def test_a_conversation_that_is_still_starting_is_said() -> None:
    app = QueueApp(*ITEMS)
    app.client.refusal = "codeagent is still starting; nothing was changed"
    async with app.run_test() as pilot:
        await pilot.press("J")
        assert "still starting" in app.shown
        await pilot.press("e", "!", "enter")
        assert app.restored == ["also cover 1900!"]


async def test_a_click_marks_a_text_and_a_click_on_a_key_does_what_it_says() -> None:
    app = QueueApp(*ITEMS)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        place = next(at for at, row in enumerate(app.rows) if "stop that" in row)
        await pilot.click(offset=(8, place))
        hints = app.rows[-1]
        await pilot.click(offset=(hints.index("K earlier") + 3, 23))
        await pilot.click(offset=(hints.index("x take") + 3, 23))
        assert app.client.told == [Reorder("q3", 0), TakeBack("q3")]
        await pilot.click(offset=(hints.index("Esc closes") + 3, 23))
        await pilot.pause()
        assert app.given == [None]


async def test_the_users_own_keys_are_the_ones_that_count() -> None:
    app = QueueApp(*ITEMS, keymap=Keymap({"queue.take_back": ("f9",)}))
    async with app.run_test() as pilot:
        app.set_keymap({"queue.take_back": "f9"})
        assert "F9 take it back" in app.shown
        await pilot.press("x", "f9")
        assert app.client.told == [TakeBack("q1")]


async def test_text_that_would_act_on_a_terminal_is_shown_and_edited_outside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[str] = []

    async def edited(app: object, text: str) -> str:
        seen.append(text)
        return text

    monkeypatch.setattr(queue, "edit_in_editor", edited)
    app = QueueApp(Queued("q1", "steer", MANNERS))
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.pause()
        assert r"[bold]x[/] \x1b[2J" in app.shown
        await pilot.press("e")
        await app.workers.wait_for_complete()
        assert (seen, app.client.told) == ([MANNERS], [])


async def test_a_list_that_is_closed_no_longer_watches_the_queue() -> None:
    app = QueueApp(*ITEMS)
    async with app.run_test() as pilot:
        await pilot.press("q")
        await pilot.pause()
        assert app.queue._watchers == []
