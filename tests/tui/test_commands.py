"""A slash command is found by its name, and an unknown one is reported, never guessed."""

from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.extension import Extension, OnScreen, PageKey, PageKeys, SlashCommand
from codeagent.tui.commands import help_markdown, mistyped, table_with, wrong_argument
from codeagent.tui.parts.typed_input import (
    CommandInput,
    PromptInput,
    ShellInput,
    UnknownInput,
    parse_input,
)
from tests.table import for_each
from tests.tui.fake_launcher import TABLE


def called(text: str) -> tuple[str, str]:
    said = parse_input(text, TABLE.commands)
    assert isinstance(said, CommandInput)
    return said.row.name, said.arguments


def refused(text: str) -> str:
    said = parse_input(text, TABLE.commands)
    assert isinstance(said, UnknownInput | CommandInput)
    return (
        mistyped(said.text, TABLE.commands, {})
        if isinstance(said, UnknownInput)
        else wrong_argument(said.row, said.arguments)
    )


@for_each(
    ("text", "name", "argument"),
    [
        ("/help", "help", ""),
        ("/help \n", "help", ""),
        ("/clear", "new", ""),
        ("/ps", "jobs", ""),
        ("/find  a b ", "find", "a b"),
        ("/resume 01J", "resume", "01J"),
        ("/theme\nink", "theme", "ink"),
        ("exit", "exit", ""),
        ("quit", "exit", ""),
        (":q", "exit", ""),
    ],
)
def test_a_name_an_alias_or_a_bare_word_is_the_command(text: str, name: str, argument: str) -> None:
    assert called(text) == (name, argument)


@for_each("text", ["fix /help", "/etc/hosts is wrong", " /help", "exit now", "//x"])
def test_what_is_not_a_command_is_a_prompt(text: str) -> None:
    assert isinstance(parse_input(text, TABLE.commands), PromptInput)


def test_an_unknown_name_is_reported_with_those_that_are_like_it() -> None:
    assert refused("/modle") == "unknown command /modle; did you mean /mode or /model?"
    assert refused("/zzzz") == "unknown command /zzzz; /help lists the commands"
    assert refused("/") == "unknown command /; /help lists the commands"


def test_an_argument_that_nothing_takes_is_reported() -> None:
    assert refused("/cost me") == "/cost: takes no arguments, got 'me'"


def test_a_refusal_shows_control_characters_instead_of_sending_them() -> None:
    assert "\x1b" not in refused("/\x1b[2J")
    assert "\x1b" not in refused("/cost \x1b[2J")


@given(st.text(max_size=30))
def test_any_text_is_a_command_a_refusal_in_one_line_or_a_prompt(text: str) -> None:
    said = parse_input("/" + text, TABLE.commands)
    assert isinstance(said, PromptInput | ShellInput) or "\n" not in refused("/" + text)


def test_no_name_is_given_twice() -> None:
    names = [name for row in TABLE.commands for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names))
    ids = [row.id for row in {*TABLE.keys, *TABLE.commands}]
    assert len(ids) == len(TABLE.by_id)


def test_help_has_every_command_and_alias() -> None:
    page = help_markdown(TABLE)
    assert [row.name for row in TABLE.commands if f"`/{row.name}" not in page] == []
    assert [
        alias for row in TABLE.commands for alias in row.aliases if f"`/{alias}`" not in page
    ] == []
    assert r"/mode [ask\|accept-edits\|plan\|auto]" in page


WEATHER = Extension(
    name="weather",
    about="the weather",
    screen=OnScreen(
        commands=(
            SlashCommand(name="rain", about="will it rain", does="weather:rain", aliases=("wet",)),
            SlashCommand(name="wind", about="the wind", does="weather:wind", after="status"),
        ),
        keys=(
            PageKeys(
                scope="rain",
                heading="Rain: /rain",
                keys=(PageKey(name="next", about="tomorrow", keys=("n",)),),
                after="jobs",
            ),
        ),
    ),
)


def test_a_extensions_commands_and_keys_join_the_table_where_they_belong() -> None:
    table = table_with((WEATHER,))
    about = [row.name for row in table.commands if row.group == "about"]
    assert about[about.index("status") + 1] == "wind" and about[-1] == "rain"
    scopes = list(table.scopes)
    assert scopes[scopes.index("jobs") + 1] == "rain"
    assert (table.by_id["rain.next"].keys, table.by_id["rain.next"].handler) == (("n",), "next")
    assert isinstance(said := parse_input("/wet today", table.commands), CommandInput)
    assert said.row.handler == "weather:rain"


def test_the_command_of_a_room_that_is_off_is_unknown_with_the_reason() -> None:
    table = table_with((), (WEATHER,))
    for name in ("rain", "wet"):
        said = mistyped(f"/{name}", table.commands, table.switched_off)
        assert said == f"/{name} is not available: weather is switched off"
    assert mistyped("/storm", table.commands, table.switched_off).startswith(
        "unknown command /storm;"
    )
