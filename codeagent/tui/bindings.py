"""The keys of the tables as Textual wants them: the bindings of the class that handles a scope."""

from collections.abc import Iterable

from textual.binding import Binding, BindingType

from codeagent.tui.actions import Action
from codeagent.tui.keys import KEYS


def bindings(scope: str, on: str = "", rows: Iterable[Action] = KEYS) -> list[BindingType]:
    """Return the `BINDINGS` of the class that handles a scope's keys; `on` names it if several
    classes share them."""
    return [
        _binding(row, row.pressed, priority=row.priority)
        for row in rows
        if row.scope == scope and row.on == on
    ]


def binding_of(row_id: str, does: str) -> Binding:
    """Return a binding of the row's keys, also of the user's own, to another action."""
    return _binding(next(row for row in KEYS if row.id == row_id), does)


def letters(scope: str) -> dict[str, str]:
    """Map the letters that a card shows, each the first default key of an action, to the ids of its
    actions."""
    return {row.keys[0]: row.id for row in KEYS if row.scope == scope}


def _binding(row: Action, does: str, *, priority: bool = False) -> Binding:
    return Binding(row.bound, does, row.about, show=False, priority=priority, id=row.id)
