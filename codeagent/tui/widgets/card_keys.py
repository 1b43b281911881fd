"""The keys of the cards above the composer, as the person set them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from codeagent.tui.keymap import Keymap
from codeagent.tui.widgets.approval_keys import Choice

_ACTIONS = {
    "y": "card.once",
    "a": "card.session",
    "p": "card.rule",
    "e": "card.edit",
    "h": "card.hunks",
    "n": "card.deny",
    "r": "card.because",
    "A": "card.all",
}
_KEEP = "card.keep"
_NOT_WITH_ALT = ("enter", "esc", "text")


def keymap_of(widget: object) -> Keymap:
    """The keymap of the app a widget lives in; the default one where it has none."""
    keymap = getattr(getattr(widget, "app", None), "keys", None)
    return keymap if isinstance(keymap, Keymap) else Keymap()


def card_key(key: str, keymap: Keymap, actions: Mapping[str, str] = _ACTIONS) -> str:
    """What a key means to the card: the letter of its action by default, or the key itself, without Alt.

    `alt+shift+a` is `A`; a letter that the person gave to nothing means nothing: the empty string.
    `actions` has the ids of the actions by the letters they are known by.
    """
    plain = _plain(key)
    for letter, action in actions.items():
        if {key, key.removeprefix("alt+"), plain} & set(keymap.keys_of(action)):
            return letter
    return "" if plain in actions else plain


def labelled(choices: Sequence[Choice], keymap: Keymap, actions: Mapping[str, str] = _ACTIONS) -> tuple[Choice, ...]:
    """The choices with the keys that take them now."""
    return tuple(
        replace(choice, label=keymap.shown(actions[choice.key])) if choice.key in actions else choice
        for choice in choices
    )


def reached(choices: Sequence[Choice], *, focused: bool, tab: str) -> tuple[Choice, ...]:
    """The choices as they are pressed now: without the focus Tab goes to the card, and each key works with Alt.

    `tab` says what one does there.
    """
    if focused:
        return tuple(choices)
    return (Choice("tab", tab, keep=98, label="Tab"), *(replace(choice, label=_with_alt(choice)) for choice in choices))


def _with_alt(choice: Choice) -> str:
    label = choice.label or choice.key
    if choice.key in _NOT_WITH_ALT:
        return label
    return f"Alt+{'Shift+' if len(label) == 1 and label.isupper() else ''}{label.upper() if len(label) == 1 else label}"


def keeps(key: str, keymap: Keymap) -> bool:
    """The key changes for how long a rule holds that is being written."""
    return key in keymap.keys_of(_KEEP)


def keep_label(keymap: Keymap) -> str:
    """That key as the card shows it."""
    return keymap.shown(_KEEP)


def _plain(key: str) -> str:
    """Without modifiers, a letter with Shift as its capital; other modifiers than Alt make another key."""
    *modifiers, name = key.split("+")
    if set(modifiers) - {"alt", "shift"}:
        return key
    if "shift" in modifiers:
        return name.upper() if len(name) == 1 else f"shift+{name}"
    return name
