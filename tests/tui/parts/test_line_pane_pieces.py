from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.selection import SELECT_ALL

from codeagent.tui.parts.line_pane import LinePane, chunks, diff_piece
from codeagent.tui.rendering.diff import DiffRow, diff_rows, split_lines, unified_lines
from codeagent.tui.rendering.palette import Palette

KINDS = st.sampled_from(["same", "added", "removed", "gap"])


class DiffApp(App[None]):
    """A pane with the diff of two texts."""

    def __init__(self, before: str, after: str, *, split: bool = False) -> None:
        super().__init__()
        self.piece = diff_piece(diff_rows(before, after), "dates.py", split=split)
        self.view = LinePane()

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.show([self.piece])

    def rows(self) -> list[str]:
        return [self.view.render_line(y).text.rstrip() for y in range(self.view.size.height)]


def numbered(count: int, *changed: int) -> str:
    return "".join(
        f"line {at}{' changed' if at in changed else ''}\n" for at in range(1, count + 1)
    )


async def test_it_is_split_where_that_is_asked_for_and_fits() -> None:
    app = DiffApp("a\nb\n", "a\nc\n", split=True)
    async with app.run_test(size=(120, 10)) as pilot:
        await pilot.pause()
        assert [row.split() for row in app.rows()[:2]] == [
            ["1", "a", "│", "1", "a"],
            ["2", "-", "b", "│", "2", "+", "c"],
        ]
        await pilot.resize_terminal(80, 10)
        await pilot.pause()
        assert [row.split() for row in app.rows()[1:3]] == [["2", "-", "b"], ["2", "+", "c"]]


async def test_a_copy_is_the_text_of_the_file() -> None:
    app = DiffApp("a\n", "a\nb\n")
    async with app.run_test(size=(80, 6)) as pilot:
        await pilot.pause()
        assert app.view.get_selection(SELECT_ALL) == ("a\nb", "\n")


async def test_only_what_is_on_screen_of_a_long_diff_is_drawn_at_once() -> None:
    made: list[int] = []
    rows = diff_rows("", numbered(20_000))
    lines = diff_piece(rows, "a.txt", split=False)(80, Palette())
    for _ in range(50):
        made.append(next(lines).strip.cell_length)
    assert len(made) == 50
    app = DiffApp("", numbered(2_000))
    async with app.run_test(size=(80, 10)) as pilot:
        await pilot.pause()
        assert app.rows()[0].endswith("line 1")
        app.view.turn("end")
        while not app.view.complete:
            await pilot.pause()
        await pilot.pause()
        assert app.rows()[-1].split() == ["2000", "+", "line", "2000"]
        assert len({row.index("+") for row in app.rows()}) == 1


def test_all_chunks_have_the_same_gutter() -> None:
    lines = list(diff_piece(diff_rows("", numbered(1_050)), "a.txt", split=False)(60, Palette()))
    assert len({line.start for line in lines}) == 1


@given(st.lists(KINDS, max_size=400))
def test_chunks_are_all_rows_in_order(kinds: list[str]) -> None:
    rows = [DiffRow(kind, str(at)) for at, kind in enumerate(kinds)]  # type: ignore[arg-type]  # drawn from the kinds
    found = list(chunks(rows))
    assert [row for chunk in found for row in chunk] == rows
    assert all(found)


def test_small_diffs_look_as_if_drawn_in_one_go() -> None:
    rows = diff_rows(numbered(60), numbered(60, 3, 30, 31, 58))
    for split, draw in ((False, unified_lines), (True, split_lines)):
        made = [line.strip.text for line in diff_piece(rows, "a.txt", split=split)(110, Palette())]
        assert made == [line.strip.text for line in draw(rows, 110, Palette(), "a.txt")]


def test_what_goes_and_what_comes_stand_beside_each_other_in_long_changes() -> None:
    before, after = (
        "".join(f"old {at}\n" for at in range(200)),
        "".join(f"new {at}\n" for at in range(200)),
    )
    lines = list(diff_piece(diff_rows(before, after), "a.txt", split=True)(110, Palette()))
    assert len(lines) == 200
