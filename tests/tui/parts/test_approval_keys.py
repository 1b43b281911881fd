from rich.cells import cell_len

from codeagent.tui.keymap import Keymap
from codeagent.tui.parts.approval import ApprovalContext, approval_content
from codeagent.tui.parts.approval_body import asked
from codeagent.tui.parts.card_content import CardView
from codeagent.tui.parts.card_keys import ChoiceRow, labelled
from codeagent.tui.rendering.palette import Palette
from tests.table import for_each
from tests.tui.parts.cards import edit


def keys(
    *,
    focused: bool = True,
    note: str = "",
    off: bool = False,
    several: bool = True,
    beyond: bool = False,
) -> ChoiceRow:
    """`beyond`: a rule, an edit and hunks are offered as well."""
    row = ChoiceRow()
    asks = asked(edit(everything=beyond))
    calls = 2 if several else 1
    context = ApprovalContext(
        waiting=calls, calls=calls, split=False, wide=not beyond, now=0.0, keep_key="Down"
    )
    content = approval_content((asks,), CardView(), context)
    choices = labelled(content.choices, Keymap(), scope="card", focused=focused)
    row.show(choices, marked=content.marked, note=note, off=off)
    return row


def said(width: int, **how: bool | str) -> str:
    return "\n".join(line.strip.text for line in keys(**how).rows(width, Palette()))  # type: ignore[arg-type]  # by name


@for_each(
    ("width", "text"),
    [
        (
            110,
            " y  allow once   a  allow for this session  › n  deny   r  deny, because…   A  all of them…   t  split",
        ),
        (
            76,
            " y  allow once   a  allow for this session  › n  deny   r  deny, because…\n A  all of them…   t  split",
        ),
        (40, " y  allow   a  session  › n  deny\n r  because…   A  all…   t  split"),
        (20, " y  allow  › n  deny\n r  because…"),
        (13, " y  allow\n› n  deny"),
        (8, "› n  deny"),
    ],
)
def test_keys_are_said_in_as_many_words_as_fit_two_rows(width: int, text: str) -> None:
    assert said(width) == text


@for_each("focused", [True, False])
@for_each("several", [True, False])
def test_eighty_columns_have_room_for_every_answer(focused: bool, several: bool) -> None:
    text = said(76, beyond=True, several=several, focused=focused)
    lead = "" if focused else "Alt+"
    letters = ["Y", "A", "P", "E", "H", "N", "R"] if lead else list("yapehnr")
    assert [letter for letter in letters if f" {lead}{letter} " not in text] == []
    assert len(text.split("\n")) == 2


def test_without_the_focus_it_says_how_keys_get_there() -> None:
    text = said(110, focused=False, several=False)
    assert text.startswith(" Tab  to answer   Alt+Y  allow once   Alt+A  allow for this session")
    assert "› Alt+N  deny" in text
    assert " Alt+Shift+A  all of them…" in said(120, focused=False)


def test_a_note_takes_the_place_of_the_keys() -> None:
    assert said(76, note="press again") == "press again"


def test_what_allows_is_greyed_while_it_is_off_and_nothing_is_struck_out() -> None:
    palette = Palette()
    segments = [
        segment
        for line in keys(off=True, beyond=True, several=False).rows(76, palette)
        for segment in line.strip
    ]
    assert not any(segment.style is not None and segment.style.strike for segment in segments)
    grey = [segment.text.strip() for segment in segments if segment.style == palette.muted]
    assert grey == [
        "y",
        "allow once",
        "a",
        "allow for this session",
        "p",
        "always allow like this…",
    ]


@for_each("width", range(9, 120))
def test_saying_no_is_always_offered(width: int) -> None:
    for beyond in (False, True):
        for focused in (False, True):
            if not focused and width < 13:
                continue
            text = said(width, beyond=beyond, focused=focused)
            assert "deny" in text
            assert max(map(cell_len, text.split("\n"))) <= width
