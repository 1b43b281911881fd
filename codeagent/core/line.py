"""A list that goes back to earlier lengths without forgetting what came after: one line of a conversation."""

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Line(Generic[T]):
    """`items` is what is on the line now; it is appended to, never cut: going back begins another list."""

    def __init__(self, items: Iterable[T] = ()) -> None:
        self.items = list(items)
        self._marks: dict[str, tuple[list[T], int]] = {}

    def mark(self, name: str, *, like: str | None = None) -> None:
        """Remember this moment, or that of another mark, where there is one; a later mark of the name replaces it."""
        moment = None if like is None else self._marks.get(like)
        self._marks[name] = moment or (self.items, len(self.items))

    def marked(self, name: str) -> bool:
        return name in self._marks

    def marks(self) -> dict[str, tuple[list[T], int]]:
        """Every mark: the list it is in, and how much of that list had been said."""
        return dict(self._marks)

    def adopt(self, name: str, items: list[T], length: int) -> None:
        """Set a mark somewhere else: in `items` itself, or in a list that was left."""
        self._marks[name] = (items, length)

    def go_back(self, name: str) -> None:
        """Be as it was at the mark. Raises KeyError."""
        items, length = self._marks[name]
        self.items = items[:length]
