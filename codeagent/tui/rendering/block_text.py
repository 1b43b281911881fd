"""What a tool shows, in words: the one place that tells the kinds of display blocks apart."""

from dataclasses import dataclass
from typing import Literal, assert_never

from codeagent.core.display import (
    DiffBlock,
    DisplayBlock,
    FilesBlock,
    ImageBlock,
    MarkdownBlock,
    QuestionBlock,
    TerminalBlock,
    TextBlock,
    UnknownBlock,
)


@dataclass(frozen=True)
class StyledText:
    text: str
    style: Literal["text", "muted", "error"] = "text"
    """Of the palette."""


def text_of_block(block: DisplayBlock) -> tuple[StyledText, ...]:
    """All of the block; whoever draws a diff, Markdown or printed output in a way of its own does not ask."""
    match block:
        case TextBlock(text=text) | MarkdownBlock(text=text):
            return (StyledText(text),)
        case DiffBlock(path=path, after=after):
            return (StyledText(path), StyledText(after))
        case TerminalBlock(command=command, output=output):
            return (StyledText(f"$ {command}"), *((StyledText(output, "muted"),) if output else ()))
        case FilesBlock(paths=paths):
            return tuple(map(StyledText, paths))
        case ImageBlock(path=path, media_type=media_type):
            return (StyledText(f"image {path} ({media_type})"),)
        case QuestionBlock(question=question, options=options):
            return (StyledText("\n".join((question, *options))),)
        case UnknownBlock(type=kind):
            return (StyledText(f"a block of the kind {kind}, which this version cannot show", "error"),)
        case _:
            assert_never(block)
