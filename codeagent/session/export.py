"""Writes a session down: as Markdown, as one HTML page that needs nothing else, or as its
events."""

import html
import os
import re
import time
from base64 import b64encode
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.event_json import event_json
from codeagent.core.redact import Redactor
from codeagent.core.sanitize import visible, visible_json
from codeagent.disk.opens import create_file
from codeagent.session.store import SessionStore
from codeagent.session.story import Aside, Call, ChildStory, Entry, Piece, Said, story

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

HEADINGS = {
    "prompt": "You",
    "task": "Task",
    "steer": "You (while it worked)",
    "interrupt": "You (interrupting)",
    "follow_up": "You (afterwards)",
    "note": "codeagent",
    "answer": "Agent",
    "thinking": "Thinking",
}
_PAGE = Path(__file__).with_name("page")
_HTML = ("html_block", "html_inline")
_BACKTICKS = re.compile(r"`{3,}")
_OPEN_PIECES = 2_000
"""Characters of a result up to which the page shows it unfolded when it failed."""


FORMATS = ("md", "html", "jsonl")


def written_down(
    store: SessionStore, session_id: str, form: str, redactor: Redactor
) -> Iterator[str]:
    """Yield the pieces of an export of a session and its children: one of FORMATS.

    Raises SessionError before the first.
    """
    events = store.with_children(store.read(session_id).events)
    summary = store.summary(session_id)

    def clean(text: str) -> str:
        return visible(redactor.clean(text))

    title = clean(" ".join(summary.name.split())[:120]) or session_id
    heading = Heading(
        session_id, title, clean(summary.workspace), clean(summary.model), summary.modified
    )
    match form:
        case "md":
            return (f"{line}\n" for line in markdown(heading, story(events, clean)))
        case "html":
            return page(heading, story(events, clean))
        case _:
            return (f"{visible_json(event_json(event, redactor))}\n" for event in events)


def write_down(
    store: SessionStore, session_id: str, path: Path, form: str | None, redactor: Redactor
) -> None:
    """Write an export into a new file; None: the format that its ending names, else Markdown.

    Raises ConfigError, also if there is such a file, and SessionError.
    """
    form = form or next((name for name in FORMATS if path.suffix == f".{name}"), FORMATS[0])
    pieces = written_down(store, session_id, form, redactor)
    try:
        with os.fdopen(create_file(path), "w", encoding="utf-8", errors="replace") as file:
            file.writelines(pieces)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({error.strerror}); nothing was changed"
        ) from error


@dataclass(frozen=True)
class Heading:
    """What stands above an export."""

    id: str
    title: str
    workspace: str
    model: str
    modified: float
    """In seconds since the epoch."""

    @property
    def facts(self) -> str:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.modified))
        return " · ".join(
            fact for fact in (f"session {self.id}", when, self.model, self.workspace) if fact
        )


def markdown(heading: Heading, entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the lines of a Markdown document; whatever was said or printed cannot break out of its
    place.

    So the headings outside of quotes are those of this document: what is below `You` is what the
    user wrote.
    """
    yield f"# {_line(heading.title)}"
    yield ""
    yield _line(heading.facts)
    yield from _entries(entries)


def _entries(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        yield ""
        match entry:
            case ChildStory():
                head = f"**agent {_line(entry.name)}** · session {_line(entry.session)}"
                yield _quote("\n".join((head, *_entries(entry.entries))))
            case Said():
                yield from _said(entry)
            case Call():
                yield from _called(entry)
            case Aside(level="run"):
                yield f"---\n\n*{_line(entry.text)}*"
            case Aside():
                yield from _quoted(entry.text)


def _said(entry: Said) -> Iterator[str]:
    yield f"## {HEADINGS[entry.by]}"
    yield ""
    yield from _quoted(entry.text)
    yield from (f"\n[image, {image.media_type}]" for image in entry.images)


def _called(entry: Call) -> Iterator[str]:
    mark = "✗" if entry.failed else "✓"
    yield f"### {mark} {_line(entry.name)} {_code(entry.target)}".rstrip()
    yield ""
    yield _line(entry.how)
    if entry.arguments:
        yield from _fenced(entry.arguments, "json")
    for piece in entry.pieces:
        yield from _fenced(piece.text, piece.language)


def _quoted(text: str) -> Iterator[str]:
    """Quote Markdown; text with HTML in it, which could end the quote, is shown as it was typed."""
    if any(token.type in _HTML for token in _flat(_parser(html=True).parse(text))):
        yield _quote("\n".join(_fenced(text, "markdown")).lstrip("\n"))
    else:
        yield _quote(text)


def _quote(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _flat(tokens: "Iterable[Token]") -> "Iterator[Token]":
    for token in tokens:
        yield token
        yield from token.children or ()


def _line(text: str) -> str:
    """Return text on one line, in which nothing is HTML."""
    return " ".join(text.split()).replace("<", "\\<")


def _code(text: str) -> str:
    flat = " ".join(text.split())
    return f"`{flat.replace('`', 'ˋ')}`" if flat else ""


def _fenced(text: str, language: str) -> Iterator[str]:
    fence = "`" * max(3, *(len(run) + 1 for run in _BACKTICKS.findall(text)), 3)
    yield f"\n{fence}{language}\n{text}\n{fence}"


def page(heading: Heading, entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the pieces of an HTML page with a search and with calls folded; nothing in it is loaded
    or run but that."""
    style, script = (
        _PAGE.with_suffix(suffix).read_text(encoding="utf-8") for suffix in (".css", ".js")
    )
    hashed = b64encode(sha256(script.encode()).digest()).decode()
    title = html.escape(heading.title)
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        f"style-src 'unsafe-inline'; script-src 'sha256-{hashed}'; base-uri 'none'; form-action 'none'\">\n"
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>\n'
        f"<style>{style}</style></head>\n<body><header><h1>{title}</h1><p>{html.escape(heading.facts)}</p>\n"
        '<input type="search" placeholder="Search" aria-label="Search"><output></output></header>\n<main>\n'
    )
    yield from _blocks(entries)
    yield f"</main>\n<script>{script}</script></body></html>\n"


def _blocks(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        match entry:
            case Said():
                yield _section(entry)
            case Call():
                yield _details(entry)
            case Aside():
                yield f'<p class="remark {entry.level}">{html.escape(entry.text)}</p>\n'
            case ChildStory():
                head = f"<b>agent {html.escape(entry.name)}</b> <small>session {html.escape(entry.session)}</small>"
                yield f'<details class="child"><summary>{head}</summary>\n'
                yield from _blocks(entry.entries)
                yield "</details>\n"
            case _:
                assert_never(entry)


def _section(entry: Said) -> str:
    name = HEADINGS[entry.by]
    if entry.by == "thinking":
        return f"<details><summary>{name}</summary><pre>{html.escape(entry.text)}</pre></details>\n"
    body = (
        _rendered(entry.text) if entry.by == "answer" else f"<pre>{html.escape(entry.text)}</pre>"
    )
    images = "".join(
        f'<img alt="image" src="data:{html.escape(image.media_type)};base64,{html.escape(image.data)}">'
        for image in entry.images
    )
    return f'<section class="{entry.by}"><h2>{name}</h2>{body}{images}</section>\n'


def _rendered(text: str) -> str:
    """Return Markdown as HTML in a frame of its own, with headings below those of the page."""
    tokens = _parser().parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 3, 6)}"
    return f'<div class="text">{_parser().renderer.render(tokens, _parser().options, {})}</div>'


def _details(entry: Call) -> str:
    mark = "✗" if entry.failed else "✓"
    head = f"<b>{mark} {html.escape(entry.name)}</b> <code>{html.escape(entry.target)}</code>"
    arguments = f"<pre>{html.escape(entry.arguments)}</pre>" if entry.arguments else ""
    pieces = "".join(
        f"<pre>{_diff(piece) if piece.language == 'diff' else html.escape(piece.text)}</pre>"
        for piece in entry.pieces
    )
    is_short = sum(len(piece.text) for piece in entry.pieces) <= _OPEN_PIECES
    opened = " open" if entry.failed and is_short else ""
    summary = f"<summary>{head} <small>{html.escape(entry.how)}</small></summary>"
    return f'<details class="call{" failed" if entry.failed else ""}"{opened}>{summary}{arguments}{pieces}</details>\n'


def _diff(piece: Piece) -> str:
    kinds = {"+": "ins", "-": "del"}
    lines = []
    for line in piece.text.split("\n"):
        kind = kinds.get(line[:1])
        escaped = html.escape(line)
        lines.append(f"<{kind}>{escaped}</{kind}>" if kind else escaped)
    return "\n".join(lines)


@lru_cache(maxsize=2)
def _parser(*, html: bool = False) -> "MarkdownIt":
    """CommonMark with tables, without images and links that run something; `html`: to find HTML,
    not to show it."""
    from markdown_it import MarkdownIt  # only for an export

    return MarkdownIt("commonmark", {"html": html}).enable("table").disable("image")
