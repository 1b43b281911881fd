"""Images made for tests."""

import os
from io import BytesIO

from PIL import Image, ImageDraw


def drawn(size: tuple[int, int] = (64, 48), kind: str = "PNG", colour: str = "red") -> bytes:
    """The bytes of an image of one colour."""
    out = BytesIO()
    Image.new("RGB", size, colour).save(out, kind)
    return out.getvalue()


def noisy(width: int, height: int) -> bytes:
    """The bytes of a PNG that cannot be compressed."""
    out = BytesIO()
    Image.frombytes("RGB", (width, height), os.urandom(3 * width * height)).save(out, "PNG")
    return out.getvalue()


def chart() -> bytes:
    """A bar chart, as a PNG."""
    image = Image.new("RGB", (480, 300), "#f4f1ea")
    draw = ImageDraw.Draw(image)
    bars = ((40, "#4477aa"), (130, "#66aa55"), (190, "#dd8833"), (110, "#aa4466"), (230, "#4477aa"))
    for at, (height, colour) in enumerate(bars):
        draw.rectangle((50 + 84 * at, 260 - height, 104 + 84 * at, 260), fill=colour)
    draw.line((30, 20, 30, 262, 470, 262), fill="#333333", width=6)
    out = BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
