"""The attachments of a prompt, on the screen."""

import asyncio
import base64
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from rich.style import Style
from textual.events import Paste
from textual.pilot import Pilot

from codeagent.core.display import ImageBlock, Thumbnail
from codeagent.core.events import MessageAdded
from codeagent.core.messages import Attachment
from codeagent.core.notes import framed
from codeagent.core.runtime import Mentioned
from codeagent.tools.pictures import picture
from codeagent.tui.pages.conversation import ConversationParts
from codeagent.tui.parts.composer_area import AttachmentRows
from codeagent.tui.rendering.attached import thumbnail_lines
from codeagent.tui.rendering.palette import Palette, palette_of
from tests.extensions.attachments.drawn import drawn
from tests.fakes import put
from tests.table import for_each
from tests.tui.replay import ReplayApp, enter, settled, until
from tests.tui.scripts import Recording

SHOWN = picture(drawn((96, 48))).thumbnail
FOUND = (
    Attachment(name="red.png", about="96×48 · 0.1 kB", thumbnail=SHOWN),
    *(Attachment(name=f"src/{name}.py", about="3 lines · ~9 tokens") for name in "abcdef"),
)


def mentions(text: str) -> Mentioned:
    if "@" not in text:
        return Mentioned()
    return Mentioned(replace(framed("", ""), attached=FOUND), refusal="it sees no images")


def rows(app: ReplayApp) -> list[str]:
    """What is below the composer."""
    area = app.chat.query_one(AttachmentRows)
    return [row.text for row in area.rows(app.size.width, palette_of(app))] if area.display else []


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 20)])
async def test_the_names_and_sizes_are_below_the_text_until_it_is_sent(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        app.clients[-1].agent_shown.mentions = mentions
        app.chat.composer.insert("look at @red.png")
        await until(pilot, lambda: bool(rows(app)))
        assert rows(app)[0] == "+ red.png  96×48 · 0.1 kB"
        assert rows(app)[-2:] == ["… 3 more", "! it sees no images"]
        assert len(rows(app)) == 6
        assert app.chat.composer.get_line(0).spans[-1].start == len("look at ")
        await pilot.press("enter")
        await until(pilot, lambda: not rows(app))


async def test_a_prompt_shows_its_files_and_what_its_images_look_like(tmp_path: Path) -> None:
    recording = Recording().run("look at @red.png")
    recording.add(MessageAdded, message=replace(framed("", "text"), attached=FOUND[:2]))
    recording.plan(("c1", "read", "red.png", "auto")).start("c1", "read", "red.png")
    image = ImageBlock(path="red.png", media_type="image/png", thumbnail=SHOWN)
    recording.result("c1", "read", "red.png", blocks=(image,)).finish()
    app = ReplayApp(recording.events, tmp_path, now=recording.now)
    async with app.run_test(size=(80, 40)) as pilot:
        await settled(pilot)
        await until(pilot, lambda: app.export_screenshot().count("▀") == 2 * 48 * 12)
        shown = app.chat.view.plain_text()
    assert "+ red.png  96×48 · 0.1 kB" in shown and "+ src/a.py  3 lines" in shown
    assert "▀" not in shown
    assert "told the model" not in shown


async def pasted_into(pilot: Pilot[None], app: ReplayApp, text: str) -> None:
    app.chat.composer.post_message(Paste(text))
    await pilot.pause()


async def test_a_dropped_path_becomes_a_mention_where_it_was_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    outside = put(tmp_path, "my shot.png", drawn())
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test() as pilot:
        await settled(pilot)
        composer = app.chat.composer
        await until(pilot, lambda: composer.mention_of is not None)
        composer.insert("see\nbelow")
        composer.move_cursor((0, 3))
        await pasted_into(pilot, app, f"'{outside}'")
        await until(pilot, lambda: "@image:my-shot-" in composer.text)
        assert str(outside) not in composer.text
        assert composer.text.startswith("see @image:") and composer.text.endswith(" \nbelow")
        await pasted_into(pilot, app, "/nowhere/at/all.png")
        await pilot.pause()
        assert "/nowhere/at/all.png" in composer.text


async def test_the_key_that_pastes_takes_the_image_or_what_was_copied_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"image": "@image:pasted-1"}

    async def mention_of(parts: ConversationParts, text: str | None) -> str:
        return found["image"] if text is None else ""

    monkeypatch.setattr(ConversationParts, "mention_of", mention_of)
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test() as pilot:
        await settled(pilot)
        composer = app.chat.composer
        await until(pilot, lambda: composer.mention_of is not None)
        app.copy_to_clipboard("copied here")
        await pilot.press("ctrl+v")
        await until(pilot, lambda: composer.text == "@image:pasted-1 ")
        await pasted_into(pilot, app, "")  # what some terminals send for an image
        await until(pilot, lambda: composer.text == "@image:pasted-1 @image:pasted-1 ")
        composer.insert("or")
        await pilot.press("ctrl+v")
        await until(pilot, lambda: composer.text.endswith(" or @image:pasted-1 "))
        found["image"] = ""
        await pilot.press("ctrl+v")
        await until(pilot, lambda: composer.text.endswith("copied here"))


async def test_what_is_sent_right_after_a_drop_waits_for_what_the_path_becomes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = asyncio.Event()

    async def mention_of(parts: ConversationParts, text: str | None) -> str:
        await seen.wait()
        return "@image:shot-1"

    monkeypatch.setattr(ConversationParts, "mention_of", mention_of)
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test() as pilot:
        await settled(pilot)
        composer = app.chat.composer
        await until(pilot, lambda: composer.mention_of is not None)
        composer.insert("what is ")
        await pasted_into(pilot, app, "/home/me/shot.png")
        await pilot.press("enter")
        await pilot.pause()
        assert composer.text == "what is /home/me/shot.png"
        seen.set()
        await until(pilot, lambda: composer.text == "")
        assert composer._prompts.entries[-1] == "what is @image:shot-1 "


async def test_files_of_earlier_prompts_are_offered_first(tmp_path: Path) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test() as pilot:
        await settled(pilot)
        choices = app.chat.composer.choices
        await enter(pilot, "see @src/dates.py:3-9, then", "and @gone.py")
        await pilot.press("@")
        await until(pilot, lambda: choices.chosen is not None)
        assert choices.chosen is not None
        assert choices.chosen.label == "src/dates.py"  # and not the shorter src/, nor what is gone
        app.chat.composer.set_files(("src/dates.py", "tests/"))
        await pilot.press("t", "s")
        await until(pilot, lambda: choices.chosen is not None and "ts" in choices.chosen.label)


COLOURFUL = Palette(accent=Style(color="red"))


@for_each(
    ("width", "pixels", "rows"),
    [
        (2, zlib.compress(bytes(12)), 1),
        (2, zlib.compress(bytes(18)), 2),
        (2, zlib.compress(bytes(5)), 0),
        (0, zlib.compress(bytes(12)), 0),
        (10**9, zlib.compress(bytes(12)), 0),
        (2, b"not compressed", 0),
        (64, zlib.compress(bytes(100_000_000)), 16),
    ],
)
def test_a_thumbnail_of_a_damaged_log_is_bounded(width: int, pixels: bytes, rows: int) -> None:
    thumbnail = Thumbnail(width=width, pixels=base64.b64encode(pixels).decode())
    assert len(thumbnail_lines(thumbnail, 80, COLOURFUL)) == rows


def test_without_colours_an_image_is_its_name() -> None:
    assert thumbnail_lines(SHOWN, 80, Palette()) == []
