"""What a tool shows a person, as the screen keeps it: `core.display` without the cost of importing pydantic."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ShownText:
    text: str


@dataclass(frozen=True)
class ShownMarkdown:
    text: str


@dataclass(frozen=True)
class ShownDiff:
    path: str
    before: str
    """Empty where the file is new."""
    after: str
    start_line: int = 1
    """The file's line number (from 1) at which both texts begin."""


@dataclass(frozen=True)
class ShownTerminal:
    command: str
    output: str = ""
    exit_code: int | None = None


@dataclass(frozen=True)
class ShownFiles:
    paths: tuple[str, ...]


@dataclass(frozen=True)
class ShownImage:
    path: str
    media_type: str


@dataclass(frozen=True)
class ShownQuestion:
    """A question of the agent's, with answers to choose from; any other answer can be typed."""

    question: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownUnknown:
    """A block of a newer version, by its type."""

    type: str


Shown = ShownText | ShownMarkdown | ShownDiff | ShownTerminal | ShownFiles | ShownImage | ShownQuestion | ShownUnknown
