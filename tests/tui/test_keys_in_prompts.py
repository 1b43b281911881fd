"""An API key that was typed or pasted as a prompt stays in the composer until Enter is pressed
again."""

from pathlib import Path

from codeagent.core.acts import FollowUp, Prompt, RunShell
from codeagent.core.redact import has_key
from tests.table import for_each
from tests.tui.scripts import running_tests
from tests.tui.test_chat import chat, shown, write
from tests.tui.test_long_prompts import paste
from tests.tui.test_starting import notice, starting

KEY = "sk-ant-api03-0123456789abcdef"


@for_each(
    ("text", "is_key"),
    [
        (KEY, True),
        ("use sk-proj-Ab1cdefghijklmnop, please", True),
        ("KEY=AIzaSyA0123456789abcdef", True),
        ("the disk-usage-of-2024-01-01-and-later", False),
        ("sk-a-class-of-our-style-sheet", False),
        ("sk-ant-1", False),
        ("keys begin with sk-, sk-ant- or AIza", False),
    ],
)
def test_a_key_is_known_by_its_beginning_its_length_and_a_digit(text: str, is_key: bool) -> None:
    assert has_key(text) is is_key


@for_each("size", [(60, 20), (80, 24), (200, 60)])
async def test_a_key_is_sent_only_by_a_second_enter_and_why_is_said(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    folder = tmp_path / str(size[0])
    folder.mkdir()
    async with chat(folder, size=size) as (pilot, app):
        await paste(pilot, KEY, "enter")
        assert (app.told, app.chat.composer.text) == ([], KEY)
        assert "this looks like an API key; Enter again sends it" in shown(app)
        await pilot.press("enter")
        assert app.told == [Prompt(KEY)]


async def test_a_key_in_a_text_that_was_changed_is_asked_about_again(tmp_path: Path) -> None:
    async with chat(tmp_path, running_tests()) as (pilot, app):
        await write(pilot, f"it is {KEY}", "alt+enter")
        assert app.told == []
        await write(pilot, "0", "alt+enter")
        assert app.told == []
        await pilot.press("alt+enter")
        assert app.told == [FollowUp(f"it is {KEY}0")]


async def test_a_key_typed_before_the_conversation_is_open_is_kept_as_well(tmp_path: Path) -> None:
    async with starting(tmp_path) as (pilot, app, _):
        await write(pilot, KEY, "enter")
        assert app.chat.composer.text == KEY and "API key" in notice(app)


@for_each(("mark", "told"), [("!", 0), ("!!", 1)])
async def test_a_command_is_kept_if_the_model_would_see_it(
    tmp_path: Path, mark: str, told: int
) -> None:
    folder = tmp_path / str(told)
    folder.mkdir()
    async with chat(folder) as (pilot, app):
        await write(pilot, f"{mark}echo {KEY}", "enter")
        assert [type(act) for act in app.told] == [RunShell] * told
