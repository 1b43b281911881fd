"""A recording becomes an animated GIF: what was on the screen, for as long as it was there."""

import io

from PIL import Image

from codeagent.extensions.replay.gif import animated
from tests.table import for_each

RED, BLUE = (255, 0, 0), (0, 0, 255)


def frames(size: tuple[int, int], *written: tuple[float, str]) -> list[tuple[int, Image.Image]]:
    """Milliseconds and picture of each."""
    found = []
    with Image.open(io.BytesIO(animated(size, written))) as image:
        for number in range(image.n_frames):
            image.seek(number)
            found.append((image.info["duration"], image.convert("RGB")))
    return found


def cell(image: Image.Image, column: int, row: int, columns: int = 1) -> Image.Image:
    return image.crop((column * 9, row * 21, (column + columns) * 9, (row + 1) * 21))


def drawn(text: str, columns: int = 1) -> Image.Image:
    return cell(frames((8, 1), (0.0, text))[-1][1], 0, 0, columns)


def test_each_change_is_a_frame_that_lasts_until_the_next() -> None:
    shown = frames((10, 2), (0.0, "one"), (0.01, "!"), (1.0, "\r\ntwo"), (1.5, "."), (3.0, " "))
    assert [duration for duration, _ in shown] == [1000, 500, 4500]
    first, last = shown[0][1], shown[-1][1]
    assert first.size == (90, 42)
    assert cell(first, 0, 0).getcolors() == cell(last, 0, 0).getcolors()
    assert len(cell(first, 0, 1).getcolors() or ()) == 1 < len(cell(last, 0, 1).getcolors() or ())


def test_half_of_a_redraw_is_no_frame() -> None:
    shown = frames((10, 1), (0.0, "before"), (1.0, "\r      "), (1.001, "\rafter"), (2.0, "."))
    assert len(shown) == 3
    assert all(len(image.getcolors() or ()) > 1 for _, image in shown)


def test_the_colours_are_those_of_the_screen_even_if_there_are_many() -> None:
    image = frames((4, 1), (0.0, "\x1b[48;2;255;0;0m \x1b[7;38;2;0;0;255m \x1b[0m"))[-1][1]
    assert cell(image, 0, 0).getcolors() == [(189, RED)]
    assert cell(image, 1, 0).getcolors() == [(189, BLUE)]
    many = "".join(f"\x1b[38;2;{shade};{shade // 2};255mx" for shade in range(256))
    assert frames((64, 4), (0.0, many))[-1][1].size == (576, 84)


@for_each("character", ["✓", "✗", "○", "●", "▸", "⚠", "⏎", "❯", "─", "⠋", "⠸", "é"])
def test_what_the_screen_shows_is_drawn(character: str) -> None:
    """And not as the box of a character that no font has."""
    assert drawn(character).tobytes() not in (drawn(" ").tobytes(), drawn("\U0010fffd").tobytes())


def test_a_wide_character_covers_two_columns_and_what_follows_is_in_its_place() -> None:
    assert cell(frames((8, 1), (0.0, "語x"))[-1][1], 2, 0).tobytes() == drawn("x").tobytes()


@for_each("style", ["1", "3", "4", "9"])
def test_bold_italic_underlined_and_struck_text_look_different(style: str) -> None:
    assert drawn(f"\x1b[{style}mgo", 2).tobytes() != drawn("go", 2).tobytes()
