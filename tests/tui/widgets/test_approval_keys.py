import pytest
from rich.cells import cell_len

from codeagent.tui.rendering.palette import Palette
from codeagent.tui.widgets.approval_body import asked
from codeagent.tui.widgets.approval_choices import choices_of
from codeagent.tui.widgets.approval_keys import KeyRow
from tests.tui.widgets.cards import command, edit


def keys(*, lead: str = "", note: str = "", off: bool = False, several: bool = True, beyond: bool = False) -> KeyRow:
    """`beyond`: a rule, an edit and hunks are offered as well."""
    row = KeyRow()
    asks = asked(edit(everything=True) if beyond else command("ls"))
    choices = choices_of(asks, several=several, splits=not beyond, is_split=False)
    row.show(choices, marked="n", lead=lead, short_lead="tab/alt+" if lead else "", note=note, off=off)
    return row


def said(width: int, **how: object) -> str:
    return keys(**how).row(width, Palette()).strip.text  # type: ignore[arg-type]  # plain keyword arguments


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (110, "y once   a this call for the session   ›n no   r no, because…   A the whole batch   t split"),
        (76, "y once   a session   ›n no   r no, because…   A all   t split"),
        (40, "y once  a session  ›n no  r no, because…"),
        (20, "y once  ›n no"),
        (6, "›n no"),
    ],
)
def test_keys_are_said_in_as_many_words_as_fit(width: int, text: str) -> None:
    assert said(width) == text


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (116, "y once   a this call for the session   p once, and a rule…   e edit   h hunks   ›n no   r no, because…"),
        (76, "y once   a session   p rule…   e edit   h hunks   ›n no   r no, because…"),
        (66, "y once  a session  p rule…  e edit  h hunks  ›n no  r no, because…"),
        (60, "y once  a session  p rule…  e edit  ›n no  r no, because…"),
        (44, "y once  a session  ›n no  r no, because…"),
    ],
)
def test_a_rule_an_edit_and_hunks_stand_between_yes_and_no(width: int, text: str) -> None:
    assert said(width, beyond=True, several=False) == text


def test_eighty_columns_have_room_for_all_of_them_and_for_how_keys_get_there() -> None:
    every = "y once  a session  p rule…  e edit  h hunks  ›n no  r no, because…"
    assert said(76, beyond=True, several=False, lead="tab, or alt+") == f"tab/alt+  {every}"
    assert said(76, beyond=True, several=True, lead="tab, or alt+") == f"{every}  A all"


def test_without_the_focus_it_says_how_keys_get_there() -> None:
    assert said(110, lead="tab, or alt+", several=False).startswith("tab, or alt+   y once")


def test_a_note_takes_the_place_of_the_keys() -> None:
    assert said(76, note="too soon: press again") == "too soon: press again"


def test_what_allows_is_struck_out_while_it_is_off() -> None:
    strip = keys(off=True, beyond=True).row(76, Palette()).strip
    struck = {segment.text for segment in strip if segment.style is not None and segment.style.strike}
    assert struck == {"y once", "a session", "p rule…", "h hunks"}


@pytest.mark.parametrize("width", range(5, 120))
def test_saying_no_is_always_offered(width: int) -> None:
    for beyond in (False, True):
        text = said(width, lead="tab, or alt+", beyond=beyond)
        assert "n no" in text
        assert cell_len(text) <= width
