from codeagent.tui.keymap import Keymap
from codeagent.tui.parts.card_content import CardChoice
from codeagent.tui.parts.card_keys import labelled, letters_of
from tests.table import for_each

OWN = Keymap({"card.once": ("o", "f5"), "card.all": ("ctrl+y",)})
OTHERS = ("t", "pagedown")


@for_each(
    ("pressed", "meant"),
    [
        ("y", "y"),
        ("alt+y", "y"),
        ("A", "A"),
        ("alt+A", "A"),
        ("alt+shift+a", "A"),
        ("alt+pagedown", "pagedown"),
        ("t", "t"),
        ("ctrl+y", ""),
        ("ctrl+a", ""),
        ("shift+tab", ""),
        ("alt+shift+y", ""),
    ],
)
def test_a_key_means_the_same_alone_and_with_alt(pressed: str, meant: str) -> None:
    assert letters_of("card", Keymap(), OTHERS).get(pressed, "") == meant


@for_each(
    ("pressed", "meant"),
    [("o", "y"), ("alt+o", "y"), ("f5", "y"), ("y", ""), ("ctrl+y", "A"), ("n", "n")],
)
def test_keys_of_the_users_own_take_the_place_of_the_default_ones(pressed: str, meant: str) -> None:
    assert letters_of("card", OWN, OTHERS).get(pressed, "") == meant


def test_choices_show_the_keys_that_take_them_now() -> None:
    choices = (CardChoice("y", "once"), CardChoice("n", "no"), CardChoice("t", "split"))
    shown = labelled(choices, OWN, scope="card", focused=True)
    assert [choice.label or choice.key for choice in shown] == ["o", "n", "t"]
