import pytest

from codeagent.tui.keymap import Keymap
from codeagent.tui.parts.card_keys import CardChoice, card_key, labelled

OWN = Keymap({"card.once": ("o", "f5"), "card.all": ("ctrl+y",)})


@pytest.mark.parametrize(
    ("pressed", "meant"),
    [
        ("y", "y"),
        ("alt+y", "y"),
        ("A", "A"),
        ("alt+A", "A"),
        ("alt+shift+a", "A"),
        ("alt+pagedown", "pagedown"),
        ("t", "t"),
        ("ctrl+y", "ctrl+y"),
        ("ctrl+a", "ctrl+a"),
        ("shift+tab", "shift+tab"),
    ],
)
def test_a_key_means_the_same_alone_and_with_alt(pressed: str, meant: str) -> None:
    assert card_key(pressed, Keymap()) == meant


@pytest.mark.parametrize(
    ("pressed", "meant"), [("o", "y"), ("alt+o", "y"), ("f5", "y"), ("y", ""), ("ctrl+y", "A"), ("n", "n")]
)
def test_keys_of_the_users_own_take_the_place_of_the_default_ones(pressed: str, meant: str) -> None:
    assert card_key(pressed, OWN) == meant


def test_choices_show_the_keys_that_take_them_now() -> None:
    choices = (CardChoice("y", "once"), CardChoice("n", "no"), CardChoice("t", "split"))
    assert [choice.label or choice.key for choice in labelled(choices, OWN)] == ["o", "n", "t"]
