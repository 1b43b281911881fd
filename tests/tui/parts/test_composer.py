"""The composer as a user meets it: with keys and pastes, inside an app."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.pilot import Pilot
from textual.widgets import Static

from codeagent.tui.actions import Action
from codeagent.tui.parts.composer import Composer
from codeagent.tui.parts.composer_area import ComposerArea
from codeagent.tui.parts.rows import RuleRow
from codeagent.tui.parts.status import MODE_MEANS
from codeagent.tui.prompt_history import PromptHistory
from codeagent.tui.state import UiState

COMMANDS = (
    Action("command.help", "keys"),
    Action("command.new", "a new session", aliases=("clear",)),
    Action("command.exit", "leave"),
)


class Stand(App[None]):
    """Writes down what the composer says, and the keys it leaves to others."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "note('escape')"),
        ("ctrl+d", "note('ctrl+d')"),
        ("alt+y", "note('alt+y')"),
    ]
    said: list[tuple[object, ...]]

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.said = []
        self.state = UiState()
        self.composer = Composer(PromptHistory(folder / "history.jsonl"), commands=COMMANDS)

    def compose(self) -> ComposeResult:
        yield Static("transcript")
        yield ComposerArea(self.composer, self.state, mode_key="Shift+Tab")

    def on_mount(self) -> None:
        self.query_one(Static).styles.height = "1fr"
        self.composer.focus()

    def action_note(self, key: str) -> None:
        self.said.append((key,))

    def on_composer_submitted(self, message: Composer.Submitted) -> None:
        facts = vars(message.meant).values()
        words = (each.name if isinstance(each, Action) else each for each in facts)
        self.said.append((type(message.meant).__name__, *words))

    def on_composer_wanted(self, message: Composer.Wanted) -> None:
        self.said.append((message.what,))


@asynccontextmanager
async def stand(
    folder: Path, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Stand, Composer, Pilot[None]]]:
    app = Stand(folder)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, app.composer, pilot


def keys(app: Stand, *names: str) -> None:
    """Press keys faster than the app can follow."""
    for name in names:
        app.post_message(
            events.Key(
                name, name if len(name) == 1 else {"enter": "\r", "at": "@", "slash": "/"}.get(name)
            )
        )


async def paste(composer: Composer, pilot: Pilot[None], text: str) -> None:
    composer.app.post_message(events.Paste(text))
    await pilot.pause()


async def opened(composer: Composer, pilot: Pilot[None]) -> None:
    """Once the list of choices is open."""
    async with asyncio.timeout(10):
        while not composer.choices.is_open:
            await pilot.pause()


async def test_enter_sends_and_keys_that_follow_at_once_belong_to_the_next_prompt(
    tmp_path: Path,
) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        keys(app, *"one", "enter", *"two", "enter", *"three")
        await pilot.pause()
        assert app.said == [("PromptInput", "one", False), ("PromptInput", "two", False)]
        assert composer.text == "three"
        assert PromptHistory(tmp_path / "history.jsonl").entries == ("one", "two")


async def test_every_way_to_a_new_line_sends_nothing(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        keys(app, "a", "shift+enter", "b", "ctrl+j", "c", "shift+\r", "d")
        app.post_message(events.Key("backslash", "\\"))
        keys(app, "enter", "e")
        await pilot.pause()
        assert composer.text == "a\nb\nc\nd\ne"
        assert app.said == []
        assert composer.size.height == 5


async def test_it_grows_to_two_fifths_of_the_screen_and_shows_the_cursor(tmp_path: Path) -> None:
    async with stand(tmp_path) as (_, composer, pilot):
        assert composer.size.height == 1
        composer.set_text("\n".join(f"line {number}" for number in range(40)))
        await pilot.pause()
        assert composer.size.height == 9
        assert "line 39" in composer.render_line(8).text
        await pilot.resize_terminal(20, 5)
        await pilot.pause()
        assert composer.size.height == 2
        assert any("line 39" in composer.render_line(y).text for y in range(2))


async def test_a_paste_sends_nothing_and_what_would_act_on_the_terminal_is_shown(
    tmp_path: Path,
) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        await paste(composer, pilot, "one\r\ntwo \x1b]52;c;aGk=\x07\r/exit\r")
        assert composer.text == "one\ntwo \\x1b]52;c;aGk=\\x07\n/exit\n"
        assert app.said == []
        assert "\x1b" not in "".join(
            composer.render_line(y).text for y in range(composer.size.height)
        )


async def test_a_megabyte_is_a_chip_that_is_sent_whole(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        pasted = "a line\x1b[0m of a log\n" * 50_000
        keys(app, *"see")
        await paste(composer, pilot, pasted)
        assert (
            composer.typed.replace("\xa0", " ")
            == "see[pasted 1,000,000 characters, 50,001 lines #1]"
        )
        await pilot.press("backspace")
        assert composer.typed == "see"
        await pilot.press("ctrl+underscore", "enter")
        assert app.said == [("PromptInput", "see" + pasted, False)]


async def test_shell_and_slash_commands_are_told_apart_from_prompts(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        for typed in ("!ls", "!!env", "/new with words", "/etc/hosts is broken", "exit"):
            composer.set_text(typed)
            await pilot.press("enter")
        assert app.said == [
            ("ShellInput", "ls", True),
            ("ShellInput", "env", False),
            ("CommandInput", "new", "with words"),
            ("PromptInput", "/etc/hosts is broken", False),
            ("CommandInput", "exit", ""),
        ]
        composer.set_text("/nope at all")
        await pilot.press("enter")
        assert app.said[-1] == ("UnknownInput", "/nope at all")
        assert composer.text == ""
        await pilot.press("up")
        assert composer.text == "/nope at all"


async def test_a_slash_offers_commands_tab_completes_and_an_exact_name_is_sent(
    tmp_path: Path,
) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        await pilot.press("slash", "e")
        assert composer.choices.is_open
        await pilot.press("tab")
        assert composer.text == "/exit "
        assert not composer.choices.is_open
        composer.clear()
        keys(app, "slash", *"help", "enter")
        await pilot.pause()
        assert app.said == [("commands",), ("CommandInput", "help", "")]


async def test_an_at_sign_asks_for_the_files_once_and_offers_them(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        keys(app, *"see ", "at", *"da")
        await pilot.pause()
        assert app.said == [("files",)]
        composer.set_files(("src/dates.py", "src/data/", "my data.md", "README.md"))
        await app.workers.wait_for_complete()
        await pilot.press("down", "up", "enter")
        assert composer.text == "see @src/data/"
        await app.workers.wait_for_complete()
        await pilot.press("x", "enter")
        assert app.said == [("files",), ("PromptInput", "see @src/data/x", False)]


async def test_while_there_are_no_files_every_at_sign_asks_again(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        await pilot.press("at", "a", "space", "at", "b")
        assert app.said == [("files",)] * 2
        assert composer.choices.is_open
        await pilot.press("enter")
        assert app.said[-1] == ("PromptInput", "@a @b", False)


async def test_enter_never_takes_a_file_that_was_offered_for_fewer_letters(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        composer.set_files(("abc.py", "abd.py", "my notes.md"))
        await app.workers.wait_for_complete()
        keys(app, "at", *"abd", "enter")
        await pilot.pause()
        assert composer.text == "@abd.py "
        keys(app, "at", *"notes", "tab")
        await pilot.pause()
        assert composer.text == '@abd.py @"my notes.md" '


async def test_a_file_s_name_is_one_line_of_what_the_user_types(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        composer.set_files(("zed\n# Pinned by the user\x1b[2J.py",))
        await app.workers.wait_for_complete()
        keys(app, "at", *"zed", "tab")
        await pilot.pause()
        assert composer.text == '@"zed\\x0a# Pinned by the user\\x1b[2J.py" '


async def test_escape_closes_the_list_and_otherwise_belongs_to_others(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        await pilot.press("slash", "escape")
        assert not composer.choices.is_open
        assert app.said == [("commands",)]
        await pilot.press("escape")
        assert app.said == [("commands",), ("escape",)]
        assert composer.text == "/"
        assert composer.has_focus


async def test_a_click_takes_a_choice(tmp_path: Path) -> None:
    async with stand(tmp_path) as (_, composer, pilot):
        await pilot.press("slash")
        await pilot.click(composer.choices, offset=(5, 1))
        assert composer.text == "/new "
        assert composer.has_focus


async def test_up_and_down_go_through_the_history_and_keep_what_was_typed(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        keys(app, *"one", "enter", *"two", "enter", *"half ")
        await paste(composer, pilot, "long\n" * 300)
        await pilot.press("up")
        assert composer.text == "two"
        await pilot.press("up", "up")
        assert composer.text == "one"
        await pilot.press("down", "down")
        assert composer.text == "half " + "long\n" * 300


async def test_a_command_from_the_history_opens_no_list_that_would_take_the_next_up(
    tmp_path: Path,
) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        keys(app, *"old", "enter", "slash", *"help", "enter")
        await pilot.pause()
        await pilot.press("up")
        assert (composer.text, composer.choices.is_open) == ("/help", False)
        await pilot.press("up")
        assert composer.text == "old"
        await pilot.press("down", "enter")
        assert app.said[-1] == ("CommandInput", "help", "")


async def test_tab_opens_a_list_again_that_was_closed(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        composer.set_files(("one.py", "two.py"))
        await app.workers.wait_for_complete()
        await pilot.press("at", "o")
        await opened(composer, pilot)
        await pilot.press("escape")
        assert not composer.choices.is_open
        await pilot.press("tab")
        assert composer.choices.is_open
        await pilot.press("tab")
        assert composer.text == "@one.py "


async def test_up_moves_within_the_text_before_it_goes_to_the_history(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        keys(app, *"old", "enter", "a", "ctrl+j", "b")
        await pilot.pause()
        await pilot.press("up")
        assert (composer.text, composer.cursor_location[0]) == ("a\nb", 0)
        await pilot.press("up")
        assert composer.text == "old"


async def test_up_where_nothing_is_typed_takes_back_what_is_queued(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        composer.has_queue = True
        await pilot.press("up")
        assert app.said == [("take_back",)]
        composer.insert_back("queued")
        await pilot.pause()
        assert composer.text == "queued"


async def test_tab_queues_while_it_works_and_goes_to_the_question_where_nothing_is_typed(
    tmp_path: Path,
) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        await pilot.press("tab")
        keys(app, *"hi", "tab")
        await pilot.pause()
        assert (app.said, composer.text) == ([("card",)], "hi")
        composer.running = True
        await pilot.press("tab", "a", "alt+enter")
        assert app.said[1:] == [("PromptInput", "hi", True), ("PromptInput", "a", True)]
        assert composer.has_focus


async def test_the_history_is_searched_in_a_line_above(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        keys(app, *"run tests", "enter", *"fix it", "enter", *"half")
        await pilot.pause()
        await pilot.press("ctrl+r", *"test")
        assert composer.search.is_open
        await pilot.press("enter")
        assert (composer.text, composer.has_focus) == ("run tests", True)
        await pilot.press("ctrl+r", *"fix", "escape", "x")
        assert composer.text == "run testsx"
        assert [row[0] for row in app.said] == ["PromptInput", "PromptInput"]


async def test_the_editor_is_asked_for_with_the_whole_text(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        await paste(composer, pilot, "line\n" * 20)
        await pilot.press("ctrl+g", "ctrl+x", "ctrl+e")
        assert (app.said, composer.text) == ([("editor",)] * 2, "line\n" * 20)


async def test_keys_with_alt_type_nothing_and_reach_the_others(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        app.post_message(events.Key("alt+y", "y"))
        await pilot.press("ctrl+d", "a", "left", "ctrl+d")
        assert composer.text == ""
        assert app.said == [("alt+y",), ("ctrl+d",)]


async def test_a_question_mark_asks_for_the_keys_only_where_nothing_is_typed(
    tmp_path: Path,
) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        await pilot.press("question_mark", "a", "question_mark")
        assert composer.text == "a?"
        assert app.said == [("keys",)]


async def test_keys_can_be_given_other_meanings(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, _composer, pilot):
        app.set_keymap({"composer.send": "ctrl+s", "composer.newline": "enter"})
        await pilot.press("a", "enter", "b", "ctrl+s")
        assert app.said == [("PromptInput", "a\nb", False)]


async def test_enter_where_nothing_is_typed_is_told_with_no_text(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, _composer, pilot):
        await pilot.press("enter", "alt+enter")
        assert app.said == [("PromptInput", "", False)]
        assert PromptHistory(tmp_path / "history.jsonl").entries == ()


async def test_what_returns_while_the_editor_is_open_is_not_lost(tmp_path: Path) -> None:
    async with stand(tmp_path) as (_, composer, pilot):
        composer.set_text("half")
        composer.insert_back("queued")
        composer.set_edited("half", "half and more")
        await pilot.pause()
        assert composer.text == "queued\nhalf and more"
        composer.set_edited("queued\nhalf and more", "all new")
        assert composer.text == "all new"


async def test_a_selection_that_arrives_while_the_editor_is_open_does_not_double_the_draft(
    tmp_path: Path,
) -> None:
    async with stand(tmp_path) as (_, composer, pilot):
        for before, place in (("half", (0, 4)), ("half of it", (0, 4)), ("", (0, 0))):
            composer.set_text(before)
            composer.insert(" @a.py:2-3 ", place)
            composer.set_edited(before, "edited")
            await pilot.pause()
            assert composer.text == "@a.py:2-3\nedited"


async def test_typing_is_told_also_from_the_search(tmp_path: Path) -> None:
    async with stand(tmp_path) as (_, composer, pilot):
        composer.set_text("a draft")
        assert composer.last_typed == float("-inf")
        await pilot.press("x")
        typed = composer.last_typed
        await pilot.press("ctrl+r", "y")
        assert composer.last_typed > typed > 0


async def test_a_file_name_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    async with stand(tmp_path) as (app, composer, pilot):
        composer.set_files(("bad\x1b]0;x\x07\nname.py",))
        await app.workers.wait_for_complete()
        keys(app, "at", *"bad")
        await opened(composer, pilot)
        assert "\x1b" not in composer.choices.render_line(0).text
        await pilot.press("tab")
        assert "\x1b" not in composer.text


async def test_clearing_can_be_undone(tmp_path: Path) -> None:
    async with stand(tmp_path) as (_, composer, pilot):
        await paste(composer, pilot, "line\n" * 20)
        composer.clear()
        assert composer.is_blank
        await pilot.press("ctrl+underscore")
        assert composer.text == "line\n" * 20


@pytest.mark.parametrize("blink", [False])
async def test_an_idle_composer_runs_no_timer(tmp_path: Path, blink: bool) -> None:
    async with stand(tmp_path) as (_, composer, _pilot):
        assert composer.cursor_blink is blink
        assert not composer.blink_timer._active.is_set()


@pytest.mark.parametrize("width", [30, 59, 60, 79, 80, 120])
async def test_the_rule_says_what_the_mode_means_where_all_of_it_fits(
    width: int, tmp_path: Path
) -> None:
    async with stand(tmp_path, (width, 24)) as (app, _, pilot):
        for mode, means in MODE_MEANS.items():
            app.state.status.set(mode=mode)
            await pilot.pause()
            rule = app.query_one(RuleRow).render_line(0).text
            assert rule.startswith(f"── {mode} ") and "…" not in rule
            assert (means in rule) == (len(f"{mode} · {means}") + 20 + 12 <= width)
            assert ("Shift+Tab changes it" in rule) == (width >= 60)
