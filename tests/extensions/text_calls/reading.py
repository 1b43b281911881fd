"""Reading a model's text in a test: protocols, tools, and what came out."""

from collections.abc import Iterable, Sequence

from codeagent.core.messages import ToolCall
from codeagent.core.tool import ToolDefinition
from codeagent.extensions.text_calls.formats import HERMES, JSON, XML, TextProtocol, delimited
from codeagent.extensions.text_calls.formats import PROTOCOLS as TEXT_PROTOCOLS
from codeagent.extensions.text_calls.protocol import (
    AnswerPiece,
    BrokenCall,
    ParsedCall,
    Retracted,
    Text,
)

MARKED = delimited("<<call", ">>")
NAMED = delimited("@call", "@end", "name and arguments")
LINES = delimited("<<do", ">>", "lines")
BRACKET, TAGS = TEXT_PROTOCOLS["bracket"], TEXT_PROTOCOLS["tags"]
PROTOCOLS: tuple[TextProtocol, ...] = (JSON, XML, HERMES, MARKED, NAMED, LINES, BRACKET, TAGS)
BASH = ToolDefinition(
    "bash",
    "Runs a command.",
    {
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
    },
)
WRITE = ToolDefinition(
    "write",
    "Writes a file.",
    {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
)
TOOLS = (BASH, WRITE)


def read(
    protocol: TextProtocol, chunks: Iterable[str], tools: Sequence[ToolDefinition] = TOOLS
) -> list[AnswerPiece]:
    parser = protocol.parser(tools)
    pieces = [piece for chunk in chunks for piece in parser.feed(chunk)]
    return joined([*pieces, *parser.close()])


def joined(pieces: Iterable[AnswerPiece]) -> list[AnswerPiece]:
    """With neighbouring texts in one, as they look however the stream was cut."""
    out: list[AnswerPiece] = []
    for piece in pieces:
        if isinstance(piece, Text) and out and isinstance(out[-1], Text):
            out[-1] = Text(out[-1].text + piece.text)
        else:
            out.append(piece)
    return out


def calls(pieces: Iterable[AnswerPiece]) -> list[ParsedCall]:
    """Those that run."""
    found: list[ParsedCall] = []
    for piece in pieces:
        found = (
            []
            if isinstance(piece, Retracted)
            else [*found, piece]
            if isinstance(piece, ParsedCall)
            else found
        )
    return found


def broken(pieces: Iterable[AnswerPiece]) -> list[BrokenCall]:
    return [piece for piece in pieces if isinstance(piece, BrokenCall)]


def text(pieces: Iterable[AnswerPiece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, Text))


def call(name: str, arguments: str) -> ToolCall:
    return ToolCall(id="1", name=name, arguments=arguments)
