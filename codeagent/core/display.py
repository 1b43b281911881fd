"""What a person sees of a tool: a few block kinds that every front end can show."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Tag

from codeagent.core.messages import Frozen


class TextBlock(Frozen):
    type: Literal["text"] = "text"
    text: str


class MarkdownBlock(Frozen):
    type: Literal["markdown"] = "markdown"
    text: str


class DiffBlock(Frozen):
    """A change of one file, as its whole text before and after."""

    type: Literal["diff"] = "diff"
    path: str
    before: str
    """Empty where the file is new."""
    after: str
    start_line: int = 1
    """The file's line number (from 1) at which `before` and `after` begin."""


class TerminalBlock(Frozen):
    """A command and what it printed."""

    type: Literal["terminal"] = "terminal"
    command: str
    output: str = ""
    exit_code: int | None = None


class FilesBlock(Frozen):
    type: Literal["files"] = "files"
    paths: tuple[str, ...]


class ImageBlock(Frozen):
    type: Literal["image"] = "image"
    path: str
    media_type: str


class QuestionBlock(Frozen):
    """A question to the person, with answers to choose from; another one can always be given."""

    type: Literal["question"] = "question"
    question: str
    options: tuple[str, ...] = ()


class UnknownBlock(BaseModel):
    """A block of a newer version: kept as it is, shown by its type."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str


_KNOWN = {"text", "markdown", "diff", "terminal", "files", "image", "question"}


def _tag(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if kind in _KNOWN else "unknown"


DisplayBlock = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[MarkdownBlock, Tag("markdown")]
    | Annotated[DiffBlock, Tag("diff")]
    | Annotated[TerminalBlock, Tag("terminal")]
    | Annotated[FilesBlock, Tag("files")]
    | Annotated[ImageBlock, Tag("image")]
    | Annotated[QuestionBlock, Tag("question")]
    | Annotated[UnknownBlock, Tag("unknown")],
    Discriminator(_tag),
]
