"""Images as a model gets them: decoded with care, scaled down, and with a small copy for the screen."""

import asyncio
import base64
import threading
import warnings
import zlib
from dataclasses import replace
from hashlib import sha256
from io import BytesIO

from PIL import Image, ImageOps, UnidentifiedImageError

from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DisplayBlock, ImageBlock, TextBlock, Thumbnail
from codeagent.core.errors import RunCancelled
from codeagent.core.messages import ContentPart, ImagePart, TextPart, text_of
from codeagent.core.tool import Failed, ToolResult

LARGEST = 20 << 20
"""The most bytes of a file that is decoded."""
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
"""The formats that every provider takes; no other decoder sees foreign bytes."""
_MOST_PIXELS = 40_000_000
"""In memory, four bytes each."""
_MOST_IN_PHOTO = 250_000_000
"""Pixels of a JPEG that can be read at an eighth of its size; one that comes in several scans is
kept whole while it is read."""
_MOST_SCANS = 100
"""Of a JPEG: each of them, however short, goes over the whole image; a camera writes about ten."""
_SCAN = b"\xff\xda"
# Pillow's own limit is higher, and it warns before it; a photo is measured as it is read.
Image.MAX_IMAGE_PIXELS = None
# What it warns about is in the file, and would be printed.
warnings.filterwarnings("ignore", module=r"PIL\.")
_EDGE = 1_568
"""Pixels of the longer edge: providers scale down what is larger, some refuse it."""
_LARGEST_SENT = 3_500_000
"""Bytes; providers refuse more than 5 MB of Base64."""
_SMALL = (48, 24)
"""Pixels of the copy for the screen, two rows of them in a row of cells."""
_KEPT = 8
"""Images that are not decoded again: those of a prompt are looked at whenever the user pauses."""


class NotAnImage(Failed):
    """Says why the bytes cannot be used as an image, as a phrase."""


@dataclass(frozen=True)
class Picture:
    part: ImagePart
    size: tuple[int, int]
    """Width and height of what was given, in pixels."""
    thumbnail: Thumbnail

    @property
    def about(self) -> str:
        size = len(self.part.data) * 3 // 4
        return f"{self.size[0]}×{self.size[1]} · {size / 1000:,.1f} kB"


_known: dict[bytes, Picture] = {}
"""By digest, the latest last."""
_decoding = threading.Lock()
"""One image at a time: each may take a third of a gigabyte."""


def picture(data: bytes) -> Picture:
    """Decode an image, and scale it down if it is larger than providers take; blocks for up to a
    second. Raises NotAnImage."""
    key = sha256(data).digest()
    with _decoding:
        found = _known.pop(key, None) or _decoded(data)
        _known[key] = found
        if len(_known) > _KEPT:
            del _known[next(iter(_known))]
    return found


def _decoded(data: bytes) -> Picture:
    """Raises NotAnImage."""
    try:
        image = Image.open(BytesIO(data), formats=_FORMATS)
        size, kind = image.size, str(image.format).replace("MPO", "JPEG")
        in_scans = bool(image.info.get("progressive"))
        _check_pixels(
            size, size, _MOST_IN_PHOTO if kind == "JPEG" and not in_scans else _MOST_PIXELS
        )
        if kind == "JPEG" and data.count(_SCAN) > _MOST_SCANS:
            raise NotAnImage("it has too many scans")
        image.draft("RGB", (_EDGE, _EDGE))  # a photo is read at a half or less of its size
        _check_pixels(size, image.size, _MOST_PIXELS)
        mode = "RGBA" if image.has_transparency_data else "RGB"
        small: Image.Image = image
        if image.mode.startswith("I;16"):  # `convert` makes white of all but the darkest greys
            small = image.point(lambda grey: grey / 256)
        small = small if small.mode == mode else small.convert(mode)
        small.thumbnail((_EDGE, _EDGE))
        small = ImageOps.exif_transpose(small)
        # OpenAI refuses an animated GIF; further images in a JPEG are not an animation.
        animated = kind != "JPEG" and getattr(image, "is_animated", False)
        fits = max(size) <= _EDGE and len(data) <= _LARGEST_SENT and not animated
        part = _part(kind, data) if fits else _rewritten(small, kind)
        return Picture(part, size, _thumbnail(small))
    except NotAnImage:
        raise
    except UnidentifiedImageError:
        raise NotAnImage("it is not a PNG, JPEG, GIF or WebP image") from None
    except Exception as error:  # a decoder may raise anything about a damaged file
        raise NotAnImage(f"it is damaged ({type(error).__name__})") from None


def _check_pixels(size: tuple[int, int], read: tuple[int, int], most: int) -> None:
    """Raise NotAnImage if more pixels would be read than `most`; `size` is that of the file."""
    if read[0] * read[1] > most:
        raise NotAnImage(f"it has {size[0]}×{size[1]} pixels, which is too many")


async def with_pictures(result: ToolResult, token: CancelToken) -> ToolResult:
    """Return the result of a call with its images as a model gets them; words replace one that cannot
    be used, or is not ready when the token fires."""
    named = iter([block for block in result.blocks if isinstance(block, ImageBlock)])
    blocks: list[DisplayBlock] = [
        each for each in result.blocks if not isinstance(each, ImageBlock)
    ]
    if not result.blocks and (said := text_of(result.content)):
        blocks.append(TextBlock(text=said))
    content: list[ContentPart] = []
    for part in result.content:
        if isinstance(part, TextPart):
            content.append(part)
            continue
        block = next(named, ImageBlock(path="", media_type=part.media_type))
        try:
            found = await token.guard(asyncio.to_thread(_decoded_from, part.data))
        except (NotAnImage, ValueError, RunCancelled) as error:
            content.append(TextPart(text=f"[an image is not shown: {error}]"))
            continue
        content.append(found.part)
        blocks.append(replace(block, thumbnail=found.thumbnail))
    return replace(result, content=tuple(content), blocks=tuple(blocks))


def _decoded_from(data: str) -> Picture:
    """Raises NotAnImage, or ValueError for what is not Base64."""
    return picture(base64.b64decode(data))


def _part(kind: str, data: bytes) -> ImagePart:
    return ImagePart(media_type=f"image/{kind.lower()}", data=base64.b64encode(data).decode())


def _rewritten(image: Image.Image, kind: str) -> ImagePart:
    """Write it again; a photo stays a JPEG, and what would be too large becomes one."""
    if kind != "JPEG":
        written = _written(image, "PNG")
        if len(written) <= _LARGEST_SENT:
            return _part("PNG", written)
    return _part("JPEG", _written(_on_white(image), "JPEG"))


def _written(image: Image.Image, kind: str) -> bytes:
    out = BytesIO()
    image.save(out, kind, quality=85)
    return out.getvalue()


def _thumbnail(image: Image.Image) -> Thumbnail:
    image.thumbnail(_SMALL)
    pixels = _on_white(image).tobytes()
    return Thumbnail(width=image.width, pixels=base64.b64encode(zlib.compress(pixels)).decode())


def _on_white(image: Image.Image) -> Image.Image:
    if image.mode != "RGBA":
        return image
    ground = Image.new("RGB", image.size, "white")
    ground.paste(image, mask=image.getchannel("A"))
    return ground
