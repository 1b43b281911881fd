"""Converts the messages of a conversation for the wire, in order, and encodes each of them once.

A history grows at its end, and every request sends all of it. The JSON of a message is kept for as
long as the message is part of the history.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from codeagent.core.dataclass import dataclass
from codeagent.core.messages import Message

T = TypeVar("T")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True)
class Converted(Generic[T]):
    """What one message became."""

    items: tuple[T, ...]
    images: tuple[T, ...] = ()
    """Parts of a result that cannot be in it: they follow its batch of results."""
    in_batch: bool = False
    """The message is one of a batch of results."""


class PerMessage(Generic[T]):
    """Converts histories with one function; a message that was in the last history is not converted
    again."""

    def __init__(self, convert: Callable[[Message], T]) -> None:
        self._convert = convert
        self._known: dict[int, tuple[Message, T]] = {}
        """By the message's identity, which is its own as long as it is held here."""

    def __call__(self, messages: Sequence[Message]) -> list[T]:
        known, convert = self._known, self._convert
        self._known = {id(each): known.get(id(each)) or (each, convert(each)) for each in messages}
        return [self._known[id(each)][1] for each in messages]


def in_order(messages: Iterable[Converted[T]], shown: Callable[[list[T]], T]) -> list[T]:
    """Return what all messages became; `shown` makes the user message with the images of a batch of
    results."""
    wire: list[T] = []
    images: list[T] = []
    for message in messages:
        if images and not message.in_batch:
            wire.append(shown(images))
            images = []
        wire += message.items
        images += message.images
    return [*wire, shown(images)] if images else wire


def encoded(value: Any) -> bytes:
    """Return JSON; half a surrogate pair, which no server could decode, becomes a question mark."""
    return _encode(value).encode("utf-8", "replace")


def json_body(head: dict[str, Any], name: str, items: Sequence[bytes]) -> bytes:
    """Return the JSON object `head` with one more field, a list of items that are encoded
    already."""
    return b'%b,"%b":[%b]}' % (encoded(head)[:-1], name.encode(), b",".join(items))
