"""Images made for tests."""

from io import BytesIO

from PIL import Image


def drawn(size: tuple[int, int] = (64, 48), kind: str = "PNG", colour: str = "red") -> bytes:
    """The bytes of an image of one colour."""
    out = BytesIO()
    Image.new("RGB", size, colour).save(out, kind)
    return out.getvalue()
