"""Parses Markdown into top-level blocks, each drawn separately and never changed later, and inline
text into styles.

Differences from CommonMark, all so that finished parts never look different later: no link
reference definitions (both ends are shown as written), a list comes item by item (its numbers as
written, blank rows where the source has them), no HTML (shown as text), and text of more than
`PIECE` characters without a blank line is taken in pieces, across which no emphasis, code or link
reaches.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rich.style import Style

from codeagent.core.dataclass import dataclass
from codeagent.tui.rendering.lines import Styled
from codeagent.tui.rendering.palette import Palette

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

PIECE = 4_000
"""The fewest characters of a paragraph that are taken at once."""
NESTING = 40
"""Blocks nested deeper than this are shown as source text."""
_SPACES = " \t\n"
_SPACE = re.compile(f"[{_SPACES}]")
_CONTINUED = "continued"
_STRUCK = Style(strike=True)
_ADDRESS = re.compile(r"https?://[^\s<>\"'`|\\^{}\[\]]*[^\s<>\"'`|\\^{}\[\].,;:!?()*_~]")
_OPENED = ("http", "https", "mailto")


@dataclass(frozen=True)
class ParsedBlock:
    """One top-level block, or one item of a top-level list."""

    tokens: "Sequence[Token]"
    start: int
    """Its first line in the source, from 0."""
    end: int
    gap: bool
    """Whether a blank row comes before it, unless it is the first."""


def normalized(text: str) -> str:
    """Return the text with newlines as the only line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def blocks_of(text: str, *, continued: bool = False) -> list[ParsedBlock]:
    """Return the top-level blocks of normalized text; `continued`: its first line began earlier."""
    parser, tokens = _parser(), list["Token"]()
    parser.block.parse(text, parser, {_CONTINUED: continued}, tokens)
    return list(_blocks(tokens, text.split("\n")))


def pieces_of(text: str) -> list[tuple[str, str]]:
    """Split running text into pieces, each with what joins it to the one before.

    Their ends do not change when text is added.
    """
    found: list[tuple[str, str]] = []
    at = 0
    while (end := piece_end(text, at)) is not None:
        found.append(piece_of(text[at:end]))
        at = end
    return [*found, piece_of(text[at:])]


def piece_of(text: str) -> tuple[str, str]:
    """Return what joins a piece to the one before, and its text, from its source with leading white
    space."""
    return " " if text[:1] in _SPACES else "", text.strip(_SPACES)


def piece_end(text: str, at: int) -> int | None:
    """Return where the piece that begins at `at` ends; None if that is not known yet.

    At a line end if there is one soon, else at a space; white space begins the next piece.
    """
    newline = text.find("\n", at + PIECE, at + 2 * PIECE)
    if newline >= 0:
        return newline
    if len(text) <= at + 4 * PIECE:
        return None
    space = _SPACE.search(text, at + 2 * PIECE, at + 4 * PIECE)
    return space.start() if space else at + 4 * PIECE


def stays(text: str, at: int, end: int) -> bool:
    """Whether a piece of a growing paragraph ends there, whatever text follows.

    The last two lines may still turn out to be something else, such as the head of a table; long
    ones never do.
    """
    known = end if text[end] == "\n" and end < at + 2 * PIECE else at + 4 * PIECE
    if known > end and text.find("\n", end, known + 1) < 0:
        return True
    newline = text.find("\n", known)
    return newline >= 0 and text.find("\n", newline + 1) >= 0


def blank(line: str) -> bool:
    """Whether a line is empty, apart from the markers of its nesting."""
    return not line.strip(" \t>")


def is_too_deep(block: ParsedBlock) -> bool:
    """Whether the parser gave up somewhere inside the block."""
    return max(token.level for token in block.tokens) >= NESTING - 1


def inline_parts(text: str, palette: Palette, base: Style) -> Styled:
    """Return running text as (text, style); a newline is a hard line break."""
    parser, tokens = _parser(), list["Token"]()
    parser.inline.parse(text, parser, {}, tokens)
    return list(_parts(tokens, palette, base))


def link_style(url: str, palette: Palette) -> Style:
    """Return the style of a link; its address is in the style's `meta` under `link` if it may be
    opened.

    Web and mail addresses and paths may be opened; terminal hyperlinks are never used.
    """
    if not _may_open(url):
        return palette.prose.link
    return palette.prose.link + Style.from_meta({"link": url})


def _blocks(tokens: "Sequence[Token]", lines: list[str]) -> Iterator[ParsedBlock]:
    first = 0
    for index, token in enumerate(tokens):
        if token.level or token.nesting > 0:
            continue
        yield from _split(tokens[first : index + 1], lines)
        first = index + 1


def _split(tokens: "Sequence[Token]", lines: list[str]) -> Iterator[ParsedBlock]:
    start, end = _lines_of(tokens[0])
    if tokens[0].type not in ("bullet_list_open", "ordered_list_open"):
        yield ParsedBlock(tokens, start, end, True)
        return
    opened = [
        index
        for index, token in enumerate(tokens)
        if token.type == "list_item_open" and token.level == 1
    ]
    for index, stop in zip(opened, [*opened[1:], len(tokens) - 1], strict=True):
        start, end = _lines_of(tokens[index])
        yield ParsedBlock(
            tokens[index:stop], start, end, index == opened[0] or blank(lines[start - 1])
        )


def _lines_of(token: "Token") -> tuple[int, int]:
    start, end = token.map or (0, 0)
    return start, end


def _may_open(url: str) -> bool:
    try:
        address = urlsplit(url)
    except ValueError:
        return False
    return address.scheme in _OPENED or not (address.scheme or address.netloc)


def _parts(
    tokens: "Sequence[Token]", palette: Palette, base: Style
) -> Iterator[tuple[str, Style | None]]:
    styles = [base]
    links: list[tuple[str, list[str]]] = []
    for token in tokens:
        style = styles[-1]
        if links and token.content:
            links[-1][1].append(token.content)
        match token.type:
            case "text" | "text_special":
                yield from (
                    [(token.content, style)]
                    if links
                    else _with_addresses(token.content, style, palette)
                )
            case "code_inline":
                yield token.content, style + palette.code.text
            case "softbreak":
                yield " ", style
            case "hardbreak":
                yield "\n", style
            case "em_open":
                styles.append(style + palette.prose.emphasis)
            case "strong_open":
                styles.append(style + palette.strong)
            case "s_open":
                styles.append(style + _STRUCK)
            case "link_open":
                url = str(token.attrs.get("href", ""))
                links.append((url, []))
                styles.append(style + link_style(url, palette))
            case "link_close":
                url, texts = links.pop()
                styles.pop()
                if url.removeprefix("mailto:") != "".join(texts):
                    yield f" ({url})", styles[-1] + palette.muted
            case "em_close" | "strong_close" | "s_close":
                styles.pop()
            case "image":
                yield (
                    f"{token.content} ({token.attrs.get('src', '')})".lstrip(),
                    style + palette.muted,
                )
            case _:
                yield token.content, style


def _with_addresses(
    text: str, style: Style, palette: Palette
) -> Iterator[tuple[str, Style | None]]:
    """Return text in which web addresses are links."""
    if "://" not in text:
        yield text, style
        return
    at = 0
    for found in _ADDRESS.finditer(text):
        yield text[at : found.start()], style
        yield found[0], style + link_style(found[0], palette)
        at = found.end()
    yield text[at:], style


@lru_cache(1)
def _parser() -> "MarkdownIt":
    """CommonMark with tables and strikethrough, without HTML and link reference definitions."""
    # the library takes longer to load than drawing the first frame
    from markdown_it import MarkdownIt

    library = MarkdownIt("commonmark", {"html": False, "maxNesting": NESTING})
    library.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])
    library.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    for ruler in (library.block.ruler, library.inline.ruler, library.inline.ruler2):
        ruler.getRules()  # prepared on first use, which must not happen in two threads at once
    return library


def _table(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
    """Parse a table, unless its first lines are longer than `PIECE` characters or began earlier."""
    from markdown_it.rules_block import table  # loaded by the parser

    if start == 0 and state.env[_CONTINUED]:
        return False
    if start + 1 < end and any(
        state.eMarks[line] - state.bMarks[line] > PIECE for line in (start, start + 1)
    ):
        return False
    first = len(state.tokens)
    if not table(state, start, end, silent):
        return False
    if not silent:
        _keep_rest(state, first)
    return True


def _keep_rest(state: "StateBlock", first: int) -> None:
    """Put a row's surplus cells, which the library drops, into its last cell."""
    from markdown_it.rules_block.table import escapedSplit, getLine  # loaded by the parser

    cells: list[Token] = []
    for token in state.tokens[first:]:
        if token.type == "inline":
            cells.append(token)
        elif token.type == "tr_close":
            row = getLine(state, _lines_of(cells[0])[0]).strip(" \t")
            if row.strip(" \t|").count("|") >= len(cells):
                columns = [column.strip() for column in escapedSplit(row.removeprefix("|"))]
                rest = columns[len(cells) : -1 if not columns[-1] else None]
                cells[-1].content = " | ".join([cells[-1].content, *rest])
            cells = []
