"""What stands within a line of Markdown: emphasis, code, links and images as text in styles."""

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from rich.style import Style

from codeagent.tui.rendering.markdown_blocks import Token, inline_tokens
from codeagent.tui.rendering.palette import Palette

_STRUCK = Style(strike=True)
_ADDRESS = re.compile(r"https?://[^\s<>\"'`|\\^{}\[\]]*[^\s<>\"'`|\\^{}\[\].,;:!?()*_~]")
_OPENED = ("http", "https", "mailto")


def inline_parts(text: str, palette: Palette, base: Style) -> list[tuple[str, Style | None]]:
    """Running text as (text, style); a newline is a hard line break."""
    return list(_parts(inline_tokens(text), palette, base))


def link_style(url: str, palette: Palette) -> Style:
    """How a link looks; its address is in the style's `meta` under `link` where it may be opened.

    That is for web and mail addresses and for paths; never as a sequence of the terminal's own.
    """
    if not _may_open(url):
        return palette.link
    return palette.link + Style.from_meta({"link": url})


def _may_open(url: str) -> bool:
    try:
        address = urlsplit(url)
    except ValueError:
        return False
    return address.scheme in _OPENED or not (address.scheme or address.netloc)


def _parts(tokens: Sequence[Token], palette: Palette, base: Style) -> Iterator[tuple[str, Style | None]]:
    styles = [base]
    links: list[tuple[str, list[str]]] = []
    for token in tokens:
        style = styles[-1]
        if links and token.content:
            links[-1][1].append(token.content)
        match token.type:
            case "text" | "text_special":
                yield from [(token.content, style)] if links else _with_addresses(token.content, style, palette)
            case "code_inline":
                yield token.content, style + palette.code
            case "softbreak":
                yield " ", style
            case "hardbreak":
                yield "\n", style
            case "em_open":
                styles.append(style + palette.emphasis)
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
                yield f"{token.content} ({token.attrs.get('src', '')})".lstrip(), style + palette.muted
            case _:
                yield token.content, style


def _with_addresses(text: str, style: Style, palette: Palette) -> Iterator[tuple[str, Style | None]]:
    """Text in which web addresses are links."""
    if "://" not in text:
        yield text, style
        return
    at = 0
    for found in _ADDRESS.finditer(text):
        yield text[at : found.start()], style
        yield found[0], style + link_style(found[0], palette)
        at = found.end()
    yield text[at:], style
