from rich.cells import cell_len

from codeagent.tui.parts.rows import Part, RuleRow
from codeagent.tui.rendering.palette import Palette
from tests.table import for_each


def edge(left: tuple[str, ...], right: tuple[str, ...], width: int) -> str:
    row = RuleRow(("╭", "╮"))
    row.show(
        [Part(text, 90 - 10 * at) for at, text in enumerate(left)],
        [Part(text, 50) for text in right],
    )
    return row.row(width, Palette()).strip.text


def test_words_stand_in_the_edge() -> None:
    assert (
        edge(("edit", "a.py"), ("waiting 2 s",), 40) == "╭─ edit  a.py ─────────── waiting 2 s ─╮"
    )


def test_an_edge_without_words_is_a_line() -> None:
    assert edge((), ("",), 10) == "╭────────╮"


def test_a_long_name_is_cut_in_the_middle() -> None:
    text = edge(("edit", "src/a/very/long/path/of/a/module.py"), ("waiting 2 s",), 50)
    assert text.startswith("╭─ edit  src/a/")
    assert "…" in text
    assert text.endswith("module.py ─ waiting 2 s ─╮")


@for_each("width", range(2, 90))
def test_an_edge_is_as_wide_as_its_card(width: int) -> None:
    assert (
        cell_len(edge(("edit", "src/資料/dates.py", "+3 −1"), ("1 of 3", "waiting 12 s"), width))
        == width
    )
