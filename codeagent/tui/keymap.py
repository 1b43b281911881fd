"""The keys in force: the table of actions with the user's own keys on top, and how keys are written
and shown."""

import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import MappingProxyType

from textual.keys import _character_to_key  # how keymaps spell a key; nothing public does

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.extension import Extension
from codeagent.core.sanitize import one_line
from codeagent.tui.actions import Action
from codeagent.tui.commands import OWN, ActionTable, table_with
from codeagent.tui.fuzzy import nearest
from codeagent.tui.settings_file import BadFile, Entry, read_entries

_KEPT = "no key was changed"
_VIM = "vim"
"""The line of the file that turns vim's keys on."""
_AROUND = "chat"
"""The scope whose keys also work while the focus is in a scope that is `in_chat`."""
_ORDER = ("alt", "ctrl", "shift", "super")
_ALIASES = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+left_square_bracket": "escape"}
"""Pairs of keys that terminals send as the same one."""
_SHORT = {
    "esc": "escape",
    "return": "enter",
    "del": "delete",
    "pgup": "pageup",
    "pgdn": "pagedown",
    "ins": "insert",
}
NAMED = (
    *("enter", "escape", "tab", "space", "backspace", "delete", "insert"),
    *("up", "down", "left", "right", "home", "end", "pageup", "pagedown"),
    *(f"f{number}" for number in range(1, 25)),
)
_SHOWN = {"escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn", "delete": "Del", "insert": "Ins"}
_SYMBOLS = {_character_to_key(symbol): symbol for symbol in string.punctuation}


@dataclass(frozen=True)
class KeyRow:
    """One line of the key sheet."""

    scope: str
    keys: str
    about: str
    id: str = ""
    """Its name in the user's file; empty if it cannot be changed."""
    own: bool = False
    """The user chose these keys."""


TYPED = (
    KeyRow("chat", "Esc Esc", "idle and nothing written: go back to an earlier moment"),
    KeyRow("composer", "/", "commands"),
    KeyRow("composer", "@", "files"),
    KeyRow("composer", "!", "a shell command in the sandbox, shown to the model"),
    KeyRow("composer", "!!", "the same, not shown to the model"),
    KeyRow("composer", "\\ Enter", "new line, if Shift+Enter does not work"),
    KeyRow("card", "Up, Down, PgUp, PgDn", "scroll"),
    KeyRow("card", "t", "the change in one column or in two"),
    KeyRow("card", "Left, Right, Enter", "move to an answer, choose it"),
    KeyRow("card", "1 to 9", "an answer to the agent's question"),
    KeyRow("boundary", "1 to 9", "mark that call"),
    KeyRow("picker", "any letter", "narrows the list"),
)
"""Keys and texts that are not bound to an action and cannot be changed."""


VIM = (
    KeyRow("composer", "Esc", "vim's normal mode; from there, as anywhere"),
    KeyRow("composer", "i I a A o O", "insert mode"),
    KeyRow("composer", "h j k l w b e 0 ^ $ gg G f t ; ,", "normal mode: move; with a count: 3w"),
    KeyRow("composer", "d c y", 'delete, change, copy: dw, cc, y$, ciw, da", di('),
    KeyRow("composer", "x r ~ J p P . u Ctrl+R", "change; put; repeat, undo, redo"),
    KeyRow("composer", "v V", "visual mode: select, then d c y p; o turns around"),
)
"""vim's keys, which the user's file turns on all together."""


class KeymapError(ConfigError):
    """The user's file of keys cannot be used; no key was changed."""


@dataclass(frozen=True)
class Keymap:
    """The default keys, with the user's own on top."""

    own: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The keys by the id of the action."""
    table: ActionTable = OWN
    vim: bool = False
    """Whether the composer has vim's keys."""

    @property
    def overrides(self) -> dict[str, str]:
        """The keys in the form that `App.set_keymap` takes."""
        return {action_id: ",".join(keys) for action_id, keys in self.own.items()}

    def keys_of(self, action_id: str) -> tuple[str, ...]:
        """Return the keys of an action. Raises KeyError."""
        return self.own.get(action_id, self.table.by_id[action_id].keys)

    def shown(self, action_id: str) -> str:
        """Return the first key of an action as a user reads it, for a hint."""
        return shown(self.keys_of(action_id)[0])

    def rows(self) -> tuple[KeyRow, ...]:
        """Return a row for everything there is to press, in the order of the key sheet."""
        return tuple(row for scope in self.table.scopes for row in self._rows_of(scope))

    def _rows_of(self, scope: str) -> Iterator[KeyRow]:
        yield from (typed for typed in TYPED if typed.scope == scope)
        for action in self.table.keys:
            if action.scope == scope:
                keys = ", ".join(map(shown, self.keys_of(action.id)))
                yield KeyRow(scope, keys, action.about, action.id, action.id in self.own)
        if self.vim and scope == "composer":
            yield from VIM


def keymap_of(widget: object) -> Keymap:
    """Return the keymap of the widget's app, or the default one if the app has none."""
    keymap = getattr(getattr(widget, "app", None), "keys", None)
    return keymap if isinstance(keymap, Keymap) else Keymap()


def load_keymap(path: Path, extensions: Callable[[], Iterable[Extension]] = tuple) -> Keymap:
    """Load the keys from a YAML file with lines such as `chat.detail: ctrl+e`; without a file,
    return the defaults.

    `extensions` is asked for every extension only if the file names a key that is not the screen's
    own. The file is checked completely before anything is used. Raises KeymapError, which names
    file, line, action and key.
    """
    if not path.exists():
        return Keymap()
    try:
        every = read_entries(path)
        entries = tuple(entry for entry in every if entry.key != _VIM)
        own = all(entry.key in OWN.by_id for entry in entries)
        table = OWN if own else table_with(extensions())
        keymap = Keymap({entry.key: _keys(entry, table) for entry in entries}, table)
        _check_conflicts(keymap, entries)
        vim = any(_is_on(entry) for entry in every if entry.key == _VIM)
    except BadFile as problem:
        raise KeymapError(problem.said_of(path, _KEPT)) from problem
    return Keymap(MappingProxyType(dict(keymap.own)), vim=vim)


def _is_on(entry: Entry) -> bool:
    match entry.values:
        case ("true" | "false" as value,):
            return value == "true"
        case _:
            raise BadFile(entry.line, entry.key, "must be true or false")


def _keys(entry: Entry, table: ActionTable) -> tuple[str, ...]:
    known = {row.id: row for row in table.keys}
    action = known.get(entry.key)
    if (new := table.replaced.get(entry.key)) is not None:
        raise BadFile(entry.line, entry.key, f"was replaced by '{new}'; write that instead")
    if action is None:
        raise BadFile(entry.line, entry.key, f"no such action{nearest(entry.key, known)}")
    if not entry.values:
        raise BadFile(entry.line, entry.key, "has no key")
    writing = table.scopes[action.scope].writing or action.while_writing
    return tuple(dict.fromkeys(_key(action, each, entry, writing) for each in entry.values))


def _key(action: Action, written: str, entry: Entry, writing: bool) -> str:
    """Return one key of an action; `writing` if the user types where it works."""
    try:
        key = spelled(written)
    except BadKey as problem:
        raise BadFile(entry.line, entry.key, one_line(str(problem), 80)) from problem
    if types_text(key) and writing and key not in action.keys:
        raise BadFile(
            entry.line,
            entry.key,
            f"'{shown(key)}' types text there; take one with Ctrl or Alt, or F1 to F24",
        )
    if action.approves and key in ("enter", "space"):
        raise BadFile(
            entry.line,
            entry.key,
            f"{shown(key)} never approves, because it is pressed without reading",
        )
    return key


def _check_conflicts(keymap: Keymap, entries: Sequence[Entry]) -> None:
    """Check that two actions that work at the same time do not share a key, unless they do by
    default."""
    lines = {entry.key: entry.line for entry in entries}
    table = keymap.table
    for entry in entries:
        action = table.by_id[entry.key]
        for key in keymap.keys_of(action.id):
            other = next((row for row in table.keys if _collide(action, row, key, keymap)), None)
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
    scopes = {action.scope, other.scope}
    return _AROUND in scopes and any(keymap.table.scopes[scope].in_chat for scope in scopes)


class BadKey(Exception):
    """A key cannot be used; the message says why no terminal sends it."""


def spelled(written: str) -> str:
    """Return a key as Textual spells it: `ctrl+shift+a` for `Shift+Ctrl+A`. Raises BadKey."""
    *modifiers, key = (
        written.strip().split("+") if written.strip() not in ("+", "") else [written.strip()]
    )
    lowered = [modifier.strip().lower() for modifier in modifiers]
    strange = next((modifier for modifier in lowered if modifier not in _ORDER), None)
    if strange is not None:
        raise BadKey(f"'{strange}' is not a modifier: use ctrl, alt, shift or super")
    key = _spelled_alone(key.strip(), bool(lowered))
    if lowered == ["shift"] and (len(key) == 1 or key in _SYMBOLS):
        raise BadKey("Shift makes another character: write that one")
    found = "+".join([*(modifier for modifier in _ORDER if modifier in lowered), key])
    return _ALIASES.get(found, found)


def types_text(key: str) -> bool:
    """Whether pressing the key in a text field types something."""
    return "+" not in key and (len(key) == 1 or key in _SYMBOLS or key == "space")


def shown(key: str) -> str:
    """Return a key as a user reads it: `Ctrl+O`, `PgUp`, `?`."""
    *modifiers, last = key.split("+")
    name = (
        _SHOWN.get(last)
        or _SYMBOLS.get(last)
        or (last.upper() if modifiers and len(last) == 1 else None)
    )
    if name is None:
        name = last if len(last) == 1 else last.capitalize()
    return "+".join([*(modifier.capitalize() for modifier in modifiers), name])


def _spelled_alone(key: str, modified: bool) -> str:
    if (
        len(key) == 1
        and (key.isascii() or not modified)
        and (key.isalnum() or key in string.punctuation)
    ):
        return _character_to_key(key.lower() if modified else key)
    lowered = _SHORT.get(key.lower(), key.lower())
    if lowered in NAMED or lowered in _SYMBOLS:
        return lowered
    raise BadKey(f"no such key '{key}'")
