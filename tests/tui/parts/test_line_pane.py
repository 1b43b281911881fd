from collections.abc import Iterator

from textual.app import App, ComposeResult
from textual.geometry import Offset
from textual.selection import SELECT_ALL, Selection

from codeagent.tui.parts.line_pane import LinePane, Piece, marked_piece
from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette


class PaneApp(App[None]):
    CSS = "LinePane { height: 10; }"

    def __init__(self, *pieces: Piece) -> None:
        super().__init__()
        self.pieces = pieces

    def compose(self) -> ComposeResult:
        yield LinePane()

    def on_mount(self) -> None:
        self.pane.show(self.pieces)

    @property
    def pane(self) -> LinePane:
        return self.query_one(LinePane)

    def rows(self) -> list[str]:
        return [self.pane.render_line(y).text.rstrip() for y in range(self.pane.size.height)]


def counted(count: int, made: list[int] | None = None) -> Piece:
    def make(width: int, palette: Palette) -> Iterator[Line]:
        for number in range(count):
            if made is not None:
                made.append(number)
            yield line([(f"{number} of {width}", None)])

    return make


async def test_pieces_are_shown_one_below_the_other() -> None:
    app = PaneApp(counted(2), counted(3))
    async with app.run_test(size=(21, 12)):
        assert app.rows()[:6] == ["0 of 20", "1 of 20", "0 of 20", "1 of 20", "2 of 20", ""]
        assert app.pane.complete
        assert app.pane.at_end


async def test_a_long_text_is_made_in_slices_and_to_its_end() -> None:
    made: list[int] = []
    app = PaneApp(counted(5_000, made))
    async with app.run_test(size=(21, 12)) as pilot:
        assert app.rows()[0] == "0 of 20"
        app.pane.turn("end")
        while not app.pane.complete:
            await pilot.pause()
        await pilot.pause()
        assert len(made) == 5_000
        assert app.rows()[-1] == "4999 of 20"
        assert app.pane.at_end


async def test_scrolling_says_how_much_is_below() -> None:
    app = PaneApp(counted(30))
    async with app.run_test(size=(21, 12)) as pilot:
        while not app.pane.complete:
            await pilot.pause()
        assert app.pane.below == 20
        app.pane.turn("pagedown")
        await pilot.pause()
        assert app.rows()[0] == "9 of 20"
        assert app.pane.below == 11
        app.pane.turn("end")
        assert app.pane.below == 0
        app.pane.turn("home")
        assert app.pane.below == 20
        assert not app.pane.turn("x")


async def test_another_width_makes_other_lines() -> None:
    app = PaneApp(counted(30))
    async with app.run_test(size=(21, 12)) as pilot:
        await pilot.resize_terminal(41, 12)
        await pilot.pause()
        assert app.rows()[0] == "0 of 40"


class HalfApp(PaneApp):
    """As in a card: the pane is as high as its lines, up to half of the screen."""

    CSS = "LinePane { height: auto; }"


async def test_a_scrollbar_goes_with_the_rows_that_a_wider_window_needs_no_more() -> None:
    app = HalfApp(marked_piece("word " * 12 + "\n" + "word " * 12, "text"))
    async with app.run_test(size=(40, 8)) as pilot:
        app.pane.reserve = 1
        app.pane.refresh(layout=True)
        await pilot.pause()
        assert app.pane.show_vertical_scrollbar and len(app.pane.lines) == 4
        await pilot.resize_terminal(70, 6)
        await pilot.pause()
        assert (len(app.pane.lines), app.pane.size.height, app.pane.show_vertical_scrollbar) == (
            2,
            2,
            False,
        )


def wrapped(width: int, palette: Palette) -> Iterator[Line]:
    gutter = line([(" 1 ", None)]).strip
    for text, joins in (("long text", None), ("that wraps", " "), ("next", None)):
        body = line([(text, None)])
        yield Line(gutter.join([gutter, body.strip]), text, 3, joins)


async def test_a_copy_has_no_gutter_and_no_wrapping() -> None:
    app = PaneApp(wrapped)
    async with app.run_test(size=(41, 12)) as pilot:
        assert app.pane.get_selection(SELECT_ALL) == ("long text that wraps\nnext", "\n")
        assert app.pane.get_selection(Selection(Offset(5, 0), Offset(4, 1))) == ("text that", "\n")
        await pilot.mouse_down(LinePane, offset=(8, 0))
        await pilot.hover(LinePane, offset=(6, 1))
        await pilot.mouse_up(LinePane, offset=(6, 1))
        await pilot.pause()
        assert app.screen.get_selected_text() == "text that"


async def test_everything_is_copied_though_its_end_was_never_on_screen() -> None:
    made: list[int] = []
    app = PaneApp(counted(2), counted(5_000, made))
    async with app.run_test(size=(21, 12)):
        assert app.pane.everything().splitlines()[-1] == "4999 of 20"
        assert len(app.pane.everything().splitlines()) == 5_002 and len(made) == 5_000
