"""Heights: any row is found, and what is above never moves what is looked at."""

from hypothesis import given
from hypothesis import strategies as st

from codeagent.tui.transcript.layout import BlockRow, Layout

HEIGHTS = st.lists(st.integers(0, 50), min_size=1, max_size=60)


@given(HEIGHTS)
def test_every_row_is_in_the_block_that_covers_it(heights: list[int]) -> None:
    layout = Layout(heights)
    rows = [BlockRow(index, line) for index, height in enumerate(heights) for line in range(height)]
    assert layout.total == len(rows)
    assert [layout.at(row) for row in range(layout.total)] == rows
    assert [layout.row(place) for place in rows] == list(range(layout.total))


@given(HEIGHTS)
def test_offsets_are_the_sums_of_the_heights_before(heights: list[int]) -> None:
    layout = Layout(heights)
    assert [layout.offset(index) for index in range(len(heights) + 1)] == [
        sum(heights[:index]) for index in range(len(heights) + 1)
    ]


@given(
    HEIGHTS,
    st.lists(st.tuples(st.integers(0, 59), st.integers(0, 50)), max_size=30),
    st.lists(st.integers(0, 9)),
)
def test_corrections_and_additions_are_as_if_built_so(
    heights: list[int], corrections: list[tuple[int, int]], more: list[int]
) -> None:
    layout = Layout(heights)
    for index, height in corrections:
        if index < len(heights):
            layout.correct(index, height)
            heights[index] = height
    for height in more:
        layout.append(height)
    heights += more
    assert [layout.offset(index) for index in range(len(heights) + 1)] == [
        sum(heights[:index]) for index in range(len(heights) + 1)
    ]


@given(HEIGHTS, st.lists(st.tuples(st.integers(0, 59), st.integers(0, 50)), max_size=30), st.data())
def test_a_place_keeps_its_distance_from_the_top_of_its_block_whatever_is_corrected_above(
    heights: list[int], corrections: list[tuple[int, int]], data: st.DataObject
) -> None:
    layout = Layout([*heights, 1])
    place = layout.at(data.draw(st.integers(0, layout.total - 1)))
    moved = 0
    before = layout.row(place)
    for index, height in corrections:
        if index < place.index:
            moved += height - layout.height(index)
            layout.correct(index, height)
    assert layout.row(place) == before + moved
    assert layout.at(layout.row(place)) == place


def test_rows_outside_are_those_of_the_ends() -> None:
    layout = Layout([2, 0, 3])
    assert layout.at(-5) == BlockRow(0, 0)
    assert layout.at(99) == BlockRow(2, 2)
    assert Layout([0, 0]).at(0) == BlockRow(1, 0)


def test_a_line_that_is_gone_is_the_last_of_its_block() -> None:
    layout = Layout([2, 5, 2])
    layout.correct(1, 2)
    assert layout.row(BlockRow(1, 4)) == 3


def test_a_height_is_exact_once_it_was_corrected() -> None:
    layout = Layout([2])
    assert not layout.is_exact(0)
    layout.correct(0, 2)
    assert layout.is_exact(0)
    layout.correct(0, 4, exact=False)
    assert not layout.is_exact(0)
    layout.correct(0, 4)
    layout.outdate(0)
    assert (layout.is_exact(0), layout.height(0)) == (False, 4)
