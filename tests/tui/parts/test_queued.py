from textual.app import App, ComposeResult

from codeagent.core.acts import Queued, QueueKind
from codeagent.tui.parts.queued import QueueView
from codeagent.tui.state import QueuedMessages


class LanesApp(App[None]):
    def __init__(self, queue: QueuedMessages) -> None:
        super().__init__()
        self.queue = queue
        self.taken: list[str] = []
        self.lists_wanted = 0

    def compose(self) -> ComposeResult:
        yield QueueView(self.queue)

    def on_queue_view_take_back(self, message: QueueView.TakeBack) -> None:
        self.taken.append(message.queued_id)

    def on_queue_view_list_wanted(self) -> None:
        self.lists_wanted += 1

    def rows(self) -> list[str]:
        view = self.query_one(QueueView)
        return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


def queued(number: int, lane: QueueKind = "steer", text: str = "") -> Queued:
    return Queued(f"q{number}", lane, text or f"text {number}")


async def test_nothing_is_shown_while_nothing_waits() -> None:
    app = LanesApp(QueuedMessages())
    async with app.run_test():
        assert not app.query_one(QueueView).display


async def test_two_lanes_have_two_labels_and_the_newest_can_be_taken_back() -> None:
    app = LanesApp(QueuedMessages())
    async with app.run_test(size=(60, 20)) as pilot:
        app.queue.add(queued(1, text="also cover 1900"))
        app.queue.add(queued(2, "interrupt", "stop that"))
        app.queue.add(queued(3, "follow_up", "then\ncommit\nit"))
        await pilot.pause()
        rows = app.rows()
        assert rows[0].startswith("── will be read after this batch ─")
        assert rows[0].endswith("─ /queue to change it ──")
        assert rows[1] == "   “also cover 1900”"
        assert rows[2] == "   interrupt: “stop that”"
        assert rows[3].startswith("── when the agent is done ─")
        assert rows[4].startswith("   “then” +2 lines")
        assert rows[4].endswith("Up to edit it")
        assert len(rows) == 5
        app.queue.clear()
        await pilot.pause()
        assert not app.query_one(QueueView).display


async def test_more_than_four_are_counted_and_the_newest_shown() -> None:
    app = LanesApp(QueuedMessages(tuple(queued(number) for number in range(9))))
    async with app.run_test(size=(60, 40)):
        rows = app.rows()
        assert len(rows) == 6
        assert rows[1] == "   and 5 more"
        assert rows[5].startswith("   “text 8”")


async def test_a_click_asks_for_the_text_back() -> None:
    app = LanesApp(QueuedMessages((queued(1), queued(2))))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.click(QueueView, offset=(5, 1))
        await pilot.click(QueueView, offset=(5, 0))
        assert app.taken == ["q1"]


async def test_a_click_on_a_title_asks_for_the_list_of_all() -> None:
    app = LanesApp(QueuedMessages((queued(1), queued(2))))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.click(QueueView, offset=(5, 0))
        assert (app.lists_wanted, app.taken) == (1, [])


async def test_long_and_hostile_text_stays_on_its_row() -> None:
    app = LanesApp(QueuedMessages((queued(1, text="[bold]\x1b[2J\u202e" + "長" * 200),)))
    async with app.run_test(size=(20, 5)):
        row = app.rows()[1]
        assert row.startswith("   “[bold]\\x1b")
        assert row.endswith("…")
