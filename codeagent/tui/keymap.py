"""The keys in force: the table of actions, and the user's own keys on top of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from codeagent.core.errors import ConfigError
from codeagent.core.sanitize import one_line
from codeagent.tui.actions import ACTIONS, SCOPES, TYPED, Action
from codeagent.tui.keys import BadKey, shown, spelled, types_text
from codeagent.tui.nearest import nearest
from codeagent.tui.settings_file import BadFile, Entry, read_entries

_KEPT = "no key was changed"
_BY_ID: Mapping[str, Action] = {action.id: action for action in ACTIONS}
_WRITTEN_IN = frozenset({"chat", "composer", "history", "lines", "picker", "rule"})
"""Scopes in which the user writes: a key that types text stays text there."""
_WHILE_WRITING = frozenset({"card.keep"})
"""Actions of other scopes that are taken while something is written."""
_APPROVES = frozenset(
    {
        "card.once",
        "card.session",
        "card.all",
        "card.rule",
        "card.hunks",
        "plan.start",
        "plan.start_accepting",
        "tools.yes",
    }
)
_AROUND = "chat"
"""Its keys also work while the focus is inside, in one of these."""
_INSIDE = frozenset({"composer", "history", "card", "boundary", "plan", "transcript"})


class KeymapError(ConfigError):
    """A file of keys cannot be used; no key was changed."""


@dataclass(frozen=True)
class KeyRow:
    """One line of the key sheet."""

    scope: str
    keys: str
    about: str
    id: str = ""
    """What the user's file calls it; empty for what cannot be changed."""
    own: bool = False
    """The user chose these keys."""


@dataclass(frozen=True)
class Keymap:
    """The default keys, or those with the user's own."""

    own: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Keys by id of the action."""

    @property
    def overrides(self) -> dict[str, str]:
        """What `App.set_keymap` takes."""
        return {action_id: ",".join(keys) for action_id, keys in self.own.items()}

    def keys_of(self, action_id: str) -> tuple[str, ...]:
        """Raises KeyError."""
        return self.own.get(action_id, _BY_ID[action_id].keys)

    def shown(self, action_id: str) -> str:
        """The first key of an action as a user reads it, for a hint."""
        return shown(self.keys_of(action_id)[0])

    def rows(self) -> tuple[KeyRow, ...]:
        """Everything there is to press, in the order of the key sheet."""
        return tuple(row for scope in SCOPES for row in self._rows_of(scope))

    def _rows_of(self, scope: str) -> Iterator[KeyRow]:
        for action in ACTIONS:
            if action.scope == scope:
                keys = ", ".join(map(shown, self.keys_of(action.id)))
                yield KeyRow(scope, keys, action.about, action.id, action.id in self.own)
        yield from (KeyRow(scope, typed.keys, typed.about) for typed in TYPED if typed.scope == scope)


def load_keymap(path: Path) -> Keymap:
    """The keys of a YAML file, `chat.detail: ctrl+e` or a list of keys; defaults where there is no file.

    Checked completely before anything is used. Raises KeymapError, which names file, line, actions and key.
    """
    if not path.exists():
        return Keymap()
    try:
        entries = read_entries(path)
        own = {entry.key: _keys(entry) for entry in entries}
        _check_conflicts(Keymap(own), entries)
    except BadFile as problem:
        raise KeymapError(problem.said_of(path, _KEPT)) from problem
    return Keymap(MappingProxyType(own))


def _keys(entry: Entry) -> tuple[str, ...]:
    action = _BY_ID.get(entry.key)
    if action is None:
        raise BadFile(entry.line, entry.key, f"no such action{nearest(entry.key, _BY_ID)}")
    if not entry.values:
        raise BadFile(entry.line, entry.key, "has no key")
    return tuple(dict.fromkeys(_key(action, written, entry) for written in entry.values))


def _key(action: Action, written: str, entry: Entry) -> str:
    try:
        key = spelled(written)
    except BadKey as problem:
        raise BadFile(entry.line, entry.key, one_line(str(problem), 80)) from problem
    if types_text(key) and (action.scope in _WRITTEN_IN or action.id in _WHILE_WRITING) and key not in action.keys:
        raise BadFile(
            entry.line, entry.key, f"'{shown(key)}' types text there; take one with Ctrl or Alt, or F1 to F24"
        )
    if action.id in _APPROVES and key in ("enter", "space"):
        raise BadFile(entry.line, entry.key, f"{shown(key)} never approves, because it is pressed without reading")
    return key


def _check_conflicts(keymap: Keymap, entries: Sequence[Entry]) -> None:
    """Two actions that are listened for at the same time must not share a key, unless they do by default."""
    lines = {entry.key: entry.line for entry in entries}
    for entry in entries:
        action = _BY_ID[entry.key]
        for key in keymap.keys_of(action.id):
            other = next((other for other in ACTIONS if _collide(action, other, key, keymap)), None)
            if other is not None:
                where = f", line {lines[other.id]}" if other.id in lines else ""
                raise BadFile(
                    entry.line,
                    action.id,
                    f"{shown(key)} is taken by {other.id} ({other.about}{where}): change that too",
                )


def _collide(action: Action, other: Action, key: str, keymap: Keymap) -> bool:
    if other.id == action.id or key not in keymap.keys_of(other.id):
        return False
    if key in action.keys and key in other.keys:
        return False
    if other.scope == action.scope:
        return True
    return _AROUND in (action.scope, other.scope) and bool(_INSIDE & {action.scope, other.scope})
