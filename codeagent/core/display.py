"""What a user sees of a tool: a few block kinds that every front end can show."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from codeagent.core.json_types import JsonObject, OneOf


@dataclass(frozen=True, kw_only=True, slots=True)
class TextBlock:
    type: Literal["text"] = "text"
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkdownBlock:
    type: Literal["markdown"] = "markdown"
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffBlock:
    """A change of one file, as its whole text before and after."""

    type: Literal["diff"] = "diff"
    path: str
    before: str
    """Empty where the file is new."""
    after: str
    start_line: int = 1
    """The file's line number (from 1) at which `before` and `after` begin."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TerminalBlock:
    """A command and what it printed."""

    type: Literal["terminal"] = "terminal"
    command: str
    output: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FilesBlock:
    type: Literal["files"] = "files"
    paths: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageBlock:
    type: Literal["image"] = "image"
    path: str
    media_type: str


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionBlock:
    """A question to the user, with answers to choose from; another one can always be given."""

    type: Literal["question"] = "question"
    question: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownBlock:
    """A block of a newer version: kept as it is, shown by its type."""

    type: str
    more: JsonObject = field(default_factory=dict)
    """Its other fields, as they came; in JSON they stand beside its type."""


DisplayBlock = Annotated[
    TextBlock | MarkdownBlock | DiffBlock | TerminalBlock | FilesBlock | ImageBlock | QuestionBlock | UnknownBlock,
    OneOf("type", other=UnknownBlock),
]
