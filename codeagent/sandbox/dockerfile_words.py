"""How a text, an array and an image are written in a Dockerfile, so that every engine reads back
exactly them."""

import json

from codeagent.core.lazy_regex import lazy_regex
from codeagent.sandbox.engine import ImageDetails

_ID = lazy_regex(r"(?:sha256:)?([0-9a-f]{64})")
_PLAIN = lazy_regex(r"(?!-)[A-Za-z0-9_./:,@%+=*?~-]+")
_UNREADABLE = lazy_regex(r"[\0\n\v\f\r]")


def whole_line(text: str) -> str:
    """Return the text, which is read as it is. Raises ValueError if it would not be one line."""
    if not text or text.endswith("\\") or _UNREADABLE.search(text):
        raise ValueError("it is empty, or not a text on one line")
    return text


def word(text: str) -> str:
    """Write a text so that the engine reads back exactly it, where it replaces variables. Raises
    ValueError."""
    if _PLAIN.fullmatch(text):
        return text
    if _UNREADABLE.search(text):
        raise ValueError("it has a line break or another character that no line can have")
    escaped = "".join(each if _PLAIN.fullmatch(each) else f"\\{each}" for each in text)
    return f'{escaped}""'  # so that no line ends with a backslash, and an empty text is one


def array(elements: list[str]) -> str:
    """Write texts as an array in JSON that no engine takes for anything else."""
    return json.dumps(elements, separators=(",", ":")).replace("<", "\\u003c")


def image_id(details: ImageDetails) -> str:
    """Return an image's ID in the form that no engine takes for the name of one to pull. Raises
    ValueError."""
    if (match := _ID.fullmatch(details.id)) is None:
        raise ValueError("the engine does not tell the ID of this image")
    return match[1]
