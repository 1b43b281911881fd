"""What a model's text is made of: words for the person, calls, and blocks that cannot be calls."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Closed:
    """A block that ended."""

    name: str
    arguments: str
    """JSON; where the block held no JSON, its raw text, for the executor to refuse."""


@dataclass(frozen=True)
class Broken:
    """A block that must not run."""

    name: str
    """Of the tool where it can be read; empty otherwise."""
    raw: str
    """The block as the model wrote it."""
    why: str


@dataclass(frozen=True)
class Retracted:
    """All that came before was thinking: no call of it may run."""


Piece = Text | Closed | Broken | Retracted


@dataclass(frozen=True)
class Step:
    """What a block made of the text it was shown."""

    position: int
    """Up to here it was taken; the rest is shown again, with what follows."""
    pieces: tuple[Piece, ...] = ()
    ended: bool = False
    again: str = ""
    """Text the block had taken that is to be read anew, before the rest."""
    doubt: bool = False
    """It is not certain where the block ended: no later block of the answer may run."""
    tentative: str = ""
    """The calls are this text instead, where any other text stands in the answer."""
    fence: int = 0
    """The block was an ordinary code fence of that many backticks, and what follows is inside."""
