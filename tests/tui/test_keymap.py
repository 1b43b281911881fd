"""The user's keys are checked completely before any is changed, and a refusal names file, line,
actions and key."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.actions import parse as parse_action
from textual.binding import Binding
from textual.dom import DOMNode

import codeagent
from codeagent.config.extensions import all_extensions
from codeagent.core.extension import Extension
from codeagent.tui.actions import Action
from codeagent.tui.app import CodeagentApp
from codeagent.tui.bindings import letters
from codeagent.tui.keymap import TYPED, BadKey, Keymap, KeymapError, load_keymap, shown, spelled
from codeagent.tui.pages.slash import handler
from codeagent.tui.parts.card_keys import keeps, letters_of
from tests.table import for_each
from tests.tui.fake_launcher import TABLE

UNBOUND = ("card", "boundary", "plan", "summary")
"""Scopes of cards, which take no focus: keys reach them without Bindings."""


def read(folder: Path, text: str) -> Keymap:
    path = folder / "keys.yaml"
    path.write_text(text)
    return load_keymap(path)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(KeymapError) as raised:
        read(folder, text)
    return str(raised.value)


def test_without_a_file_the_default_keys_are_in_force(tmp_path: Path) -> None:
    keymap = load_keymap(tmp_path / "keys.yaml")
    assert keymap.overrides == {}
    assert keymap.keys_of("chat.detail") == ("ctrl+o",)


def test_the_keys_of_a_extensions_page_can_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text("mcp.restart: f5\n")
    keymap = load_keymap(path, lambda: all_extensions().on)
    assert replace(keymap, table=TABLE).shown("mcp.restart") == "F5"
    with pytest.raises(KeymapError, match=r"mcp\.restart: no such action"):
        load_keymap(path)


@for_each("old", ["mcp.yes", "mcp.trust"])
def test_a_name_that_was_replaced_is_answered_with_the_one_in_its_place(
    tmp_path: Path, old: str
) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(f"{old}: f5\n")
    with pytest.raises(KeymapError, match=f"{old}: was replaced by 'server.yes'; write that inst"):
        load_keymap(path, lambda: all_extensions().on)


def test_extensions_are_asked_only_for_keys_that_are_not_the_screens_own(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text("chat.detail: f5\n")

    def extensions() -> tuple[Extension, ...]:
        raise AssertionError

    assert load_keymap(path, extensions).shown("chat.detail") == "F5"


def test_keys_are_one_or_a_list_by_dotted_or_nested_names(tmp_path: Path) -> None:
    keymap = read(tmp_path, "chat.detail: Alt+E\ncomposer:\n  newline: [shift+enter, 'Alt+N']\n")
    assert keymap.overrides == {"chat.detail": "alt+e", "composer.newline": "shift+enter,alt+n"}
    assert keymap.shown("chat.detail") == "Alt+E"


def test_two_actions_may_swap_their_keys(tmp_path: Path) -> None:
    keymap = read(tmp_path, "card.once: n\ncard.deny: y\n")
    assert keymap.overrides == {"card.once": "n", "card.deny": "y"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "chat.detial: ctrl+e",
            "keys.yaml:1: chat.detial: no such action (did you mean 'chat.detail'?)",
        ),
        ("chat.detail: ctrl+foo", "keys.yaml:1: chat.detail: no such key 'foo'"),
        (
            "chat.detail: cmd+e",
            "keys.yaml:1: chat.detail: 'cmd' is not a modifier: use ctrl, alt, shift or super",
        ),
        (
            "chat.detail: shift+e",
            "keys.yaml:1: chat.detail: Shift makes another character: write that one",
        ),
        ("chat.detail: []", "keys.yaml:1: chat.detail: has no key"),
        (
            "chat.detail: e",
            "keys.yaml:1: chat.detail: 'e' types text there; take one with Ctrl or Alt, or F1 to F24",
        ),
        (
            "\nchat.detail: ctrl+p",
            "keys.yaml:2: chat.detail: Ctrl+P is taken by chat.palette (command palette): change that too",
        ),
        (
            "chat.detail: alt+e\nchat.mode: alt+e",
            "keys.yaml:1: chat.detail: Alt+E is taken by chat.mode (mode: ask, accept edits, plan, line 2): "
            "change that too",
        ),
        (
            "composer.editor: ctrl+o",
            "keys.yaml:1: composer.editor: Ctrl+O is taken by chat.detail (detail: quiet, normal, full): "
            "change that too",
        ),
        (
            "composer.editor: ctrl+m",
            "keys.yaml:1: composer.editor: Enter is taken by composer.send (send; while the agent works: steer it): "
            "change that too",
        ),
        (
            "card.once: enter",
            "keys.yaml:1: card.once: Enter never approves, because it is pressed without reading",
        ),
        (
            "card.rule: enter",
            "keys.yaml:1: card.rule: Enter never approves, because it is pressed without reading",
        ),
        (
            "card.keep: k",
            "keys.yaml:1: card.keep: 'k' types text there; take one with Ctrl or Alt, or F1 to F24",
        ),
        (
            "card.all: space",
            "keys.yaml:1: card.all: Space never approves, because it is pressed without reading",
        ),
        (
            "chat.detail: ctrl+e\nchat.detail: f5",
            "keys.yaml:2: chat.detail: is set twice, first on line 1",
        ),
    ],
)
def test_a_mistake_is_named_and_nothing_is_changed(tmp_path: Path, text: str, said: str) -> None:
    assert refusal(tmp_path, text + "\n") == f"{said}; no key was changed"


@given(st.text(max_size=12))
def test_any_text_is_a_key_in_one_spelling_or_refused(text: str) -> None:
    try:
        key = spelled(text)
    except BadKey:
        return
    assert spelled(key) == key
    assert shown(key)


@for_each(
    ("written", "key", "seen"),
    [
        ("Shift+Ctrl+A", "ctrl+shift+a", "Ctrl+Shift+A"),
        ("esc", "escape", "Esc"),
        ("?", "question_mark", "?"),
        ("+", "plus", "+"),
        ("A", "A", "A"),
        ("PgUp", "pageup", "PgUp"),
        ("ctrl+[", "escape", "Esc"),
    ],
)
def test_a_key_is_spelled_as_textual_does_and_shown_as_people_do(
    written: str, key: str, seen: str
) -> None:
    assert (spelled(written), shown(spelled(written))) == (key, seen)


def test_the_sheet_has_every_action_and_says_which_keys_are_the_users_own(tmp_path: Path) -> None:
    rows = replace(read(tmp_path, "chat.detail: f5\n"), table=TABLE).rows()
    assert len(rows) == len(TABLE.keys) + len(TYPED)
    assert [(row.id, row.keys) for row in rows if row.own] == [("chat.detail", "F5")]
    assert list(dict.fromkeys(row.scope for row in rows)) == [
        scope for scope in TABLE.scopes if scope_of(scope)
    ]


def scope_of(scope: str) -> bool:
    return any(action.scope == scope for action in TABLE.keys) or any(
        typed.scope == scope for typed in TYPED
    )


def test_the_default_keys_are_spelled_as_textual_does() -> None:
    keys = [key for action in TABLE.keys for key in action.keys]
    assert [key for key in keys if set(spelled(key).split("+")) != set(key.split("+"))] == []


def test_every_binding_with_an_id_is_of_the_table() -> None:
    bound = {str(binding.id) for _, binding in bindings()}
    assert bound == {action.id for action in TABLE.keys if action.scope not in UNBOUND}


@for_each("row", TABLE.by_id.values())
def test_every_row_has_what_it_does(row: Action) -> None:
    """A function of the pages, an action of each class that binds it, or a letter that is a card's
    alone.

    That a card does something at each of its letters is seen where every key is pressed.
    """
    does = row.handler
    if ":" in does:
        function = handler(does)
        assert inspect.iscoroutinefunction(getattr(function, "func", function))
        assert len(inspect.signature(function).parameters) == 2
    elif row.scope in UNBOUND:
        assert letters(row.scope)[row.keys[0]] == row.id
    else:
        owners = [kind for kind, bound in bindings() if bound.id == row.id]
        assert owners, "no class binds it"
        where, name, _ = parse_action(does)
        kinds = [CodeagentApp] if where == "app" else owners
        assert [
            kind for kind in kinds if not {f"action_{name}", f"_action_{name}"} & set(dir(kind))
        ] == []


def test_everything_a_key_does_anywhere_has_a_command() -> None:
    """But for what only moves the view, and the list of all commands itself."""
    moves = {"chat.page_up", "chat.page_down", "chat.to_start", "chat.to_end", "chat.palette"}
    names = {row.name for row in TABLE.commands}
    without = [
        row.id
        for row in TABLE.keys
        if row.scope == "chat" and row not in TABLE.commands and row.same_as not in names
    ]
    assert set(without) == moves
    assert [row.id for row in TABLE.keys if row.same_as and row.same_as not in names] == []


def test_the_card_asks_the_table_for_each_of_its_keys() -> None:
    """It takes no focus, so that keys reach it without Bindings."""
    actions = [
        action for action in TABLE.keys if action.scope == "card" and action.id != "card.keep"
    ]
    assert [
        letters_of("card", Keymap(), ())[key] for action in actions for key in action.keys
    ] == list("yapehinrvA")
    assert keeps("down", Keymap()) and not keeps("down", Keymap({"card.keep": ("ctrl+t",)}))
    assert letters_of("card", Keymap({"card.once": ("x",)}), ())["x"] == "y"


def bindings() -> Iterator[tuple[type[DOMNode], Binding]]:
    """Those with an id, of every widget, screen and app of the package."""
    for module in pkgutil.walk_packages(codeagent.__path__, "codeagent."):
        if module.name.startswith(("codeagent.tui.", "codeagent.extensions.")):
            importlib.import_module(module.name)
    for node in subclasses(DOMNode):
        if node.__module__.startswith(("codeagent.tui", "codeagent.extensions")):
            declared = node.__dict__.get("BINDINGS", ())
            yield from (
                (node, binding)
                for binding in Binding.make_bindings(declared)
                if binding.id is not None
            )


def subclasses(kind: type[DOMNode]) -> Iterator[type[DOMNode]]:
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)
