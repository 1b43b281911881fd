"""What the screen uses of Textual's private names: each with a reason, and pinned here."""

import ast
from collections.abc import Iterator
from pathlib import Path

from textual import _ansi_sequences, _xterm_parser, events
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.keys import _character_to_key
from textual.scroll_view import ScrollView
from textual.widget import Widget
from textual.widgets import Input, TextArea

from tests.table import for_each

ROOT = Path(__file__).parents[2]
IMPORTED = {
    ("codeagent/tui/driver.py", "textual._ansi_sequences"),
    ("codeagent/tui/driver.py", "textual._xterm_parser"),
    ("codeagent/tui/driver.py", "textual.keys._character_to_key"),
    ("codeagent/tui/keymap.py", "textual.keys._character_to_key"),
    ("codeagent/tui/parts/line_input.py", "textual._ansi_sequences"),
}


def private_imports() -> Iterator[tuple[str, str, bool]]:
    """Yield module, private name, and whether a comment beside the import gives a reason."""
    root = ROOT / "codeagent"
    for path in root.rglob("*.py"):
        source = path.read_text()
        lines = source.splitlines()
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                "textual"
            ):
                continue
            module = node.module or ""
            names = [module] if "._" in module else [f"{module}.{each.name}" for each in node.names]
            for name in names:
                if "._" in name:
                    said = "  # " in lines[node.lineno - 1]
                    yield str(path.relative_to(root.parent)), name, said


def test_every_import_of_a_private_name_is_known_and_has_a_reason() -> None:
    found = set(private_imports())
    assert {(path, name) for path, name, _ in found} == IMPORTED
    assert [each for each in found if not each[2]] == []


def test_the_parser_reads_the_table_that_is_changed() -> None:
    assert _xterm_parser.ANSI_SEQUENCES_KEYS is _ansi_sequences.ANSI_SEQUENCES_KEYS
    assert "\x1bOP" in _ansi_sequences.ANSI_SEQUENCES_KEYS


def test_the_parser_holds_an_unknown_sequence_until_its_time_is_over() -> None:
    parser = _xterm_parser.XTermParser(False)
    list(parser.feed("\x1b"))
    assert parser._timeout_time is not None
    parser._timeout_time = 0.0
    assert [each.key for each in parser.tick() if isinstance(each, events.Key)] == ["escape"]


def test_keys_are_spelled_as_in_keymaps() -> None:
    assert [_character_to_key(each) for each in "?a/"] == ["question_mark", "a", "slash"]


@for_each(
    "names",
    [
        (
            LinuxDriver,
            "_sigtstp_application _sigcont_application _disable_mouse_support _get_terminal_size",
        ),
        (App, "_shutdown _register_child _dispatch_message _handle_exception"),
        (App, "_close_messages_no_wait"),
        (Widget, "_dispatch_message"),
        (ScrollView, "_scroll_to _scroll_update _refresh_scrollbars"),
        (Input, "_on_key _on_paste"),
        (TextArea, "_on_key _on_paste _replace_via_keyboard _delete_via_keyboard"),
        (TextArea, "_validate_selection"),
    ],
)
def test_what_is_overridden_or_called_is_there(names: tuple[type, str]) -> None:
    owner, methods = names
    assert [each for each in methods.split() if not callable(getattr(owner, each, None))] == []
