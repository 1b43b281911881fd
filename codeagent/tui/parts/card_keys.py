"""The keys of a card: the action of each, and how they are drawn."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.style import Style
from textual.geometry import Size
from textual.timer import Timer

from codeagent.tui.bindings import letters
from codeagent.tui.keymap import Keymap
from codeagent.tui.parts.card_content import CardChoice, CardScope
from codeagent.tui.parts.rows import RowsWidget
from codeagent.tui.rendering.lines import Line, Styled, cut_end, line
from codeagent.tui.rendering.palette import Palette

_GAP = "  "
_HERE = "›"
"""The mark in front of the choice that Enter chooses."""
_REVERSED = Style(reverse=True)
_MOST = 2
"""Rows for choices."""
_LEAST = 3
"""Choices that are rather shown than the key for the others."""
_MOMENT = 1.5
"""Seconds for which a note replaces the choices."""
_KEEP = "card.keep"
_NOT_WITH_ALT = ("enter", "esc", "text")


class ChoiceRow(RowsWidget):
    """Draws the choices, shortened to fit one or two rows; while `off`, those that allow a call are
    grey."""

    DEFAULT_CSS = """
    ChoiceRow {
        height: auto;
        width: 1fr;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._choices: tuple[CardChoice, ...] = ()
        self._more = ""
        self._marked = ""
        self._note = ""
        self._said = ""
        self._said_until: Timer | None = None
        self._off = False
        self.most = _MOST
        """The number of rows that it may have."""

    def show(
        self, choices: Sequence[CardChoice], *, marked: str, note: str, off: bool, more: str = ""
    ) -> None:
        """`marked` is the key of the choice that Enter chooses; a `note` replaces the choices.

        `more` is the key that shows the keys for which there is no room.
        """
        state = (tuple(choices), marked, note, off, more)
        if state != (self._choices, self._marked, self._note, self._off, self._more):
            self._choices, self._marked, self._note, self._off, self._more = state
            self.refresh(layout=True)

    def say(self, note: str) -> None:
        """Show a note instead of the choices for a moment; an empty one brings them back."""
        if self._said_until is not None:
            self._said_until.stop()
        self._said_until = self.set_timer(_MOMENT, lambda: self.say("")) if note else None
        if note != self._said:
            self._said = note
            self.refresh()

    def needed(self, width: int) -> int:
        """Return the rows needed at that width, whether or not there is a note."""
        return max(1, len(self._laid(width)[1]))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.needed(width)

    def rows(self, width: int, palette: Palette) -> tuple[Line, ...]:
        """Return the note, or the choices."""
        if note := self._said or self._note:
            return (line([(cut_end(note, width), palette.warning)]),)
        brief, rows = self._laid(width)
        return tuple(line(self._drawn(row, palette, brief=brief)) for row in rows)

    def _laid(self, width: int) -> tuple[bool, list[list[CardChoice]]]:
        """Return whether to use short words, and the choices of each row.

        Those with the lowest `keep` are dropped; then the rows end with the key that shows them, if
        there is room.
        """
        for brief in (False, True):
            rows = self._wrapped(self._choices, width, brief=brief)
            if self._fit(rows, width, brief=brief):
                return brief, rows
        more = (CardChoice("more", "more", label=self._more),) if self._more else ()
        return True, self._reduced(width, *more) or self._reduced(width)

    def _reduced(self, width: int, *more: CardChoice) -> list[list[CardChoice]]:
        """Return the rows with as many choices as fit beside `more`; none if that would leave too
        few of them."""
        kept, least = list(self._choices), _LEAST if more else 1
        while len(kept) > least:
            kept.remove(min(kept, key=lambda choice: choice.keep))
            rows = self._wrapped((*kept, *more), width, brief=True)
            if self._fit(rows, width, brief=True):
                return rows
        return [] if more else self._wrapped(kept, width, brief=True)

    def _fit(self, rows: Sequence[Sequence[CardChoice]], width: int, *, brief: bool) -> bool:
        return len(rows) <= self.most and all(
            self._width(row, brief=brief) <= width for row in rows
        )

    def _wrapped(
        self, choices: Sequence[CardChoice], width: int, *, brief: bool
    ) -> list[list[CardChoice]]:
        rows: list[list[CardChoice]] = []
        for choice in choices:
            if rows and self._width([*rows[-1], choice], brief=brief) <= width:
                rows[-1].append(choice)
            else:
                rows.append([choice])
        return rows

    def _width(self, row: Sequence[CardChoice], *, brief: bool) -> int:
        words = (self._mark(choice) + _cap(choice) + _words(choice, brief=brief) for choice in row)
        return sum(map(cell_len, words)) + len(_GAP) * max(0, len(row) - 1)

    def _drawn(self, row: Sequence[CardChoice], palette: Palette, *, brief: bool) -> Styled:
        out: Styled = []
        for choice in row:
            off = choice.allows and self._off
            words = (
                palette.muted
                if off
                else palette.strong
                if choice.key == self._marked
                else palette.text
            )
            cap = (
                palette.muted
                if off
                else (words if choice.key == self._marked else palette.muted) + _REVERSED
            )
            out += [(_GAP, None)] if out else []
            out += [
                (self._mark(choice), words),
                (_cap(choice), cap),
                (_words(choice, brief=brief), words),
            ]
        return out

    def _mark(self, choice: CardChoice) -> str:
        return _HERE if choice.key == self._marked else ""


def _cap(choice: CardChoice) -> str:
    """Return the key with a blank on both sides; empty for text to type, which is not a single
    key."""
    name = choice.label or choice.key
    return (
        ""
        if name == "text"
        else f" {name.capitalize() if len(name) > 1 and name.islower() else name} "
    )


def _words(choice: CardChoice, *, brief: bool) -> str:
    said = choice.short if brief and choice.short else choice.words
    return f" {said}" if _cap(choice) else said


def letters_of(scope: CardScope, keymap: Keymap, others: Iterable[str]) -> dict[str, str]:
    """Map keys, alone or with Alt, to letters: the first default key of their action, or the key
    itself.

    `others` are keys without an action. `alt+shift+a` is `A`.
    """
    actions = _actions_of(scope)
    keys = [(key, letter) for letter, action in actions.items() for key in keymap.keys_of(action)]
    keys += [(key, key) for key in others if key not in actions]
    return {spelling: letter for key, letter in reversed(keys) for spelling in _spellings(key)}


def _spellings(key: str) -> tuple[str, ...]:
    """Return the ways in which terminals send the key."""
    shifted = (
        (f"shift+{key.lower()}", f"alt+shift+{key.lower()}")
        if len(key) == 1 and key.isupper()
        else ()
    )
    return (key, f"alt+{key}", *shifted)


def labelled(
    choices: Sequence[CardChoice], keymap: Keymap, *, scope: CardScope, focused: bool
) -> tuple[CardChoice, ...]:
    """Return the choices with their keys: without the focus, Tab goes to the card and the other
    keys need Alt."""
    actions = _actions_of(scope)
    shown = tuple(
        replace(choice, label=keymap.shown(actions[choice.key]))
        if choice.key in actions
        else choice
        for choice in choices
    )
    if focused:
        return shown
    tab = "to answer" if scope == "card" else "to choose"
    beside = CardChoice("tab", tab, keep=98, label="Tab")
    return (beside, *(replace(choice, label=_with_alt(choice)) for choice in shown))


def _actions_of(scope: CardScope) -> dict[str, str]:
    """Map the letters of a card to the ids of its actions."""
    return {letter: row_id for letter, row_id in letters(scope).items() if row_id != _KEEP}


def _with_alt(choice: CardChoice) -> str:
    label = choice.label or choice.key
    if choice.key in _NOT_WITH_ALT:
        return label
    return f"Alt+{'Shift+' if len(label) == 1 and label.isupper() else ''}{label.upper() if len(label) == 1 else label}"


def keeps(key: str, keymap: Keymap) -> bool:
    """Whether the key changes how long the rule being written holds."""
    return key in keymap.keys_of(_KEEP)


def keep_label(keymap: Keymap) -> str:
    """Return that key as the card shows it."""
    return keymap.shown(_KEEP)
