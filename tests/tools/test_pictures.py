"""Images as models get them: within the limits of providers, whatever the file is."""

import asyncio
import base64
import random
import struct
import threading
import zlib
from contextlib import suppress
from io import BytesIO

import pytest
from PIL import Image

from codeagent.core.cancel import CancelToken
from codeagent.core.display import ImageBlock, TextBlock
from codeagent.core.messages import ImagePart, TextPart
from codeagent.core.tool import ToolResult
from codeagent.tools import pictures
from codeagent.tools.pictures import NotAnImage, Picture, picture, with_pictures
from tests.extensions.attachments.drawn import drawn, noisy
from tests.table import for_each


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it has so many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(bytes(1000))), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@for_each("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_an_image_within_the_limits_is_sent_unchanged(kind: str) -> None:
    data = drawn(kind=kind)
    found = picture(data)
    assert (found.part.media_type, base64.b64decode(found.part.data)) == (
        f"image/{kind.lower()}",
        data,
    )
    assert found.size == (64, 48)


def test_a_photo_of_a_phone_with_a_second_image_in_it_is_a_jpeg() -> None:
    out = BytesIO()
    both = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    both[0].save(out, "MPO", save_all=True, append_images=both[1:])
    assert picture(out.getvalue()).part.media_type == "image/jpeg"


def test_of_an_animation_the_first_picture_is_sent() -> None:
    """Some providers refuse a request with an animated GIF, and so each one after it."""
    out = BytesIO()
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    part = picture(out.getvalue()).part
    assert part.media_type == "image/png"
    assert Image.open(BytesIO(base64.b64decode(part.data))).size == (8, 8)


def test_the_greys_of_an_image_with_16_bits_are_kept() -> None:
    out = BytesIO()
    Image.new("I;16", (2000, 10), 0x4000).save(out, "PNG")
    sent = Image.open(BytesIO(base64.b64decode(picture(out.getvalue()).part.data)))
    assert sent.convert("L").getpixel((0, 0)) == 0x40


@for_each(
    ("data", "size", "media_type"),
    [
        (drawn((4000, 2000)), (1568, 784), "image/png"),
        (drawn((2000, 3000), "JPEG"), (1045, 1568), "image/jpeg"),
        (drawn((8000, 6000), "JPEG"), (1568, 1176), "image/jpeg"),
        (drawn((1600, 10), "WEBP"), (1568, 10), "image/png"),
        (noisy(1500, 1500), (1500, 1500), "image/jpeg"),
    ],
)
def test_a_larger_image_is_scaled_down(data: bytes, size: tuple[int, int], media_type: str) -> None:
    part = picture(data).part
    sent = base64.b64decode(part.data)
    assert Image.open(BytesIO(sent)).size == size
    assert (part.media_type, len(sent) < 3_500_000) == (media_type, True)


@for_each(
    ("data", "why"),
    [
        (b"", "not a PNG"),
        (b"%PDF-1.4", "not a PNG"),
        (b"BM" + bytes(60), "not a PNG"),
        (b"\x89PNG\r\n\x1a\n" + bytes(20), "not a PNG|damaged"),
        (drawn()[:60], "damaged"),
        (bomb(100, 100), "damaged"),
        (bomb(12_000, 12_000), "which is too many"),
        (bomb(60_000, 60_000), "damaged|too many"),
        (drawn((9000, 9000), "GIF"), "too many"),
    ],
)
def test_what_is_damaged_or_would_fill_the_memory_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(NotAnImage, match=why):
        picture(data)


def scans(kind: str, **options: object) -> bytes:
    out = BytesIO()
    Image.effect_noise((160, 120), 60).convert("RGB").save(out, kind, **options)
    return out.getvalue()


def retold(data: bytes, width: int, height: int) -> bytes:
    """A JPEG that says it has another size."""
    at = max(data.find(mark) for mark in (b"\xff\xc0", b"\xff\xc2"))
    return data[: at + 5] + struct.pack(">HH", height, width) + data[at + 9 :]


def test_a_jpeg_that_would_be_read_for_minutes_is_refused() -> None:
    """Every scan, however short, goes over the whole image; what comes in scans is kept whole."""
    many = scans("JPEG", progressive=True)
    last = many.rfind(b"\xff\xda")
    repeated = many[:last] + many[last:-2] * 200 + many[-2:]
    for data, why in (
        (repeated, "scans"),
        (retold(many, 20_000, 20_000), "too many"),
        (retold(scans("JPEG"), 60_000, 60_000), "too many"),
    ):
        with pytest.raises(NotAnImage, match=why):
            picture(data)
    assert picture(many).size == (160, 120)


def test_whatever_is_damaged_in_an_image_is_said_as_one_reason() -> None:
    """Each call gets a result, and a prompt keeps its text, whatever a decoder raises."""
    from PIL.Image import Exif

    exif = Exif()
    exif[0x0112] = 6
    exif[0x010F] = "maker"
    given = [scans("JPEG", exif=exif, progressive=True), scans("PNG", exif=exif), scans("WEBP")]
    given += [scans("GIF"), scans("JPEG", exif=exif)]
    rng = random.Random(7)
    for data in given:
        for _ in range(150):
            damaged = bytearray(data)
            for _ in range(rng.randint(1, 6)):
                damaged[rng.randrange(len(data))] = rng.randrange(256)
            with suppress(NotAnImage):
                picture(bytes(damaged[: rng.choice((len(data), rng.randrange(len(data))))]))


def test_an_image_is_decoded_once_however_often_it_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = noisy(40, 40)
    first = picture(data)
    monkeypatch.setattr(pictures.Image, "open", lambda *_: pytest.fail("decoded again"))
    assert picture(bytes(data)) is first


async def test_the_images_of_a_result_are_scaled_and_those_that_cannot_be_used_are_words() -> None:
    given = [drawn((4000, 10)), b"no image", drawn()]
    parts = [
        ImagePart(media_type="image/png", data=base64.b64encode(data).decode()) for data in given
    ]
    named = ImageBlock(path="a.png", media_type="image/png")
    result = await with_pictures(
        ToolResult(content=(TextPart(text="three"), *parts), blocks=(named,)), CancelToken()
    )
    said, scaled, left_out, unchanged = result.content
    assert said == TextPart(text="three") and scaled != parts[0] and unchanged == parts[2]
    assert left_out == TextPart(
        text="[an image is not shown: it is not a PNG, JPEG, GIF or WebP image]"
    )
    assert [(block.path, block.thumbnail is not None) for block in result.blocks] == [  # type: ignore[union-attr]  # all are images
        ("a.png", True),
        ("", True),
    ]


async def test_the_text_of_a_result_without_blocks_stays_visible() -> None:
    part = ImagePart(media_type="image/png", data=base64.b64encode(drawn()).decode())
    result = await with_pictures(
        ToolResult(content=(TextPart(text="a chart"), part)), CancelToken()
    )
    assert [type(block) for block in result.blocks] == [TextBlock, ImageBlock]


async def test_a_call_that_is_stopped_does_not_wait_for_its_images(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, done = threading.Event(), threading.Event()

    def slow(data: bytes) -> Picture:
        begun.set()
        done.wait(60)
        raise NotAnImage("too late")

    monkeypatch.setattr(pictures, "picture", slow)
    token = CancelToken()
    part = ImagePart(media_type="image/png", data="aGk=")
    result = ToolResult(content=(TextPart(text="two charts"), part, part))
    converting = asyncio.ensure_future(with_pictures(result, token))
    await asyncio.to_thread(begun.wait, 60)
    token.cancel("you stopped it")
    try:
        stopped = await converting
        assert not done.is_set()
    finally:
        done.set()
    said = "[an image is not shown: you stopped it]"
    assert [part.text for part in stopped.content if isinstance(part, TextPart)] == [
        "two charts",
        said,
        said,
    ]
