"""Text that grows at its end: a further piece costs the piece, reading joins once."""


class Pieces:
    """A text in pieces. `replaced` counts how often it became another text instead of a longer one."""

    def __init__(self, text: str = "") -> None:
        self._parts = [text] if text else []
        self.length = len(text)
        """In characters."""
        self.newlines = text.count("\n")
        self.replaced = 0

    @property
    def text(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def append(self, piece: str) -> None:
        self._parts.append(piece)
        self.length += len(piece)
        self.newlines += piece.count("\n")

    def replace(self, text: str) -> None:
        self._parts = [text] if text else []
        self.length, self.newlines = len(text), text.count("\n")
        self.replaced += 1

    def last(self, count: int) -> str:
        """The last `count` characters; costs nothing for the pieces before them."""
        found: list[str] = []
        for part in reversed(self._parts):
            if count <= 0:
                break
            found.append(part[-count:])
            count -= len(part)
        return "".join(reversed(found))

    def since(self, length: int) -> str:
        """What was added since it was `length` characters long."""
        return self.last(self.length - length)
