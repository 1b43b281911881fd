"""What can be completed at the cursor."""

from codeagent.tui.actions import Action
from codeagent.tui.parts.suggestions import Unfinished, command_choices, file_choices, unfinished_at
from tests.table import for_each

COMMANDS = (
    Action("command.config", "settings"),
    Action("command.context", "what the model sees"),
    Action("command.new", "a new session", aliases=("clear",)),
    Action("command.con", "short"),
)


@for_each(
    ("before", "expected"),
    [
        ("/", Unfinished("command", 0, "")),
        ("/he", Unfinished("command", 0, "he")),
        ("/etc/", None),
        ("/help me", Unfinished("input", 6, "me", "/help me")),
        ("a /he", None),
        ("@", Unfinished("file", 0, "")),
        ("look at @src/da", Unfinished("file", 8, "src/da")),
        ("(@da", Unfinished("file", 1, "da")),
        ('@"my no', Unfinished("file", 0, "my no")),
        ('@"my notes.md" and', None),
        ("me@example.org", None),
        ("@file then", None),
        ("", None),
    ],
)
def test_the_word_in_front_of_the_cursor(before: str, expected: Unfinished | None) -> None:
    assert unfinished_at(before, 0, len(before)) == expected
    assert unfinished_at(before + " rest", 0, len(before)) == expected


def test_a_word_that_goes_on_behind_the_cursor_is_left_alone() -> None:
    assert unfinished_at("/help", 0, 3) is None


def test_a_slash_on_a_later_line_is_no_command() -> None:
    assert unfinished_at("/help", 1, 5) is None


def test_commands_that_begin_so_come_before_those_that_only_match_and_the_exact_one_is_first() -> (
    None
):
    assert [choice.label for choice in command_choices("con", COMMANDS)] == [
        "/con",
        "/config",
        "/context",
    ]
    assert [choice.label for choice in command_choices("tex", COMMANDS)] == ["/context"]


def test_an_alias_finds_its_command() -> None:
    assert [choice.insert for choice in command_choices("cle", COMMANDS)] == ["/new "]


def test_without_letters_every_command_is_offered_once_in_its_order() -> None:
    assert [choice.label for choice in command_choices("", COMMANDS)] == [
        "/config",
        "/context",
        "/new",
        "/con",
    ]


def test_a_file_closes_the_word_a_directory_does_not_and_spaces_are_quoted() -> None:
    inserted = [choice.insert for choice in file_choices(("a.py", "src/", "my notes.md"))]
    assert inserted == ["@a.py ", "@src/", '@"my notes.md" ']


def test_a_file_is_mentioned_on_one_line_as_the_tools_read_its_name() -> None:
    assert [choice.insert for choice in file_choices(("two\nlines", "bad\udcff"))] == [
        "@two\\x0alines ",
        "@bad\\xff ",
    ]
