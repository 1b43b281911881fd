"""The page of `/findings`, which opens each in the user's editor, and the panel of `/btw`, which
shows the answer to a side question as it streams."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path

from rich.cells import cell_len, set_cell_size
from textual import on
from textual.app import ComposeResult

from codeagent.core.errors import CodeagentError
from codeagent.core.events import ToolResultAdded
from codeagent.core.sanitize import one_line
from codeagent.extensions.review import EXTENSION
from codeagent.extensions.review.aside import SideQuestions
from codeagent.extensions.review.findings import (
    SIGNS,
    TOOL,
    ReviewFinding,
    Severity,
    counts,
    read_back,
)
from codeagent.tui.bindings import bindings
from codeagent.tui.commands import page_rows
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.page import Page, TextPane, beside
from codeagent.tui.parts.external_editor import open_place
from codeagent.tui.parts.line_pane import Piece
from codeagent.tui.parts.marked_list import MarkedList
from codeagent.tui.rendering.lines import Line, Styled, cut_end, cut_middle, line, paragraph
from codeagent.tui.rendering.markdown import render_markdown
from codeagent.tui.rendering.palette import Palette, StyleName
from codeagent.tui.transcript.spelling import counted

_STYLES: dict[Severity, StyleName] = {"high": "error", "medium": "warning", "low": "muted"}
_PACE = 0.1
"""Seconds between two drawings of a growing answer."""
_NONE = "no review has reported anything in this session; /review starts one"


async def findings(chat: ChatScreen, argument: str) -> None:
    """Handle `/findings`. Raises CodeagentError."""
    client = await chat.outbox.ready()
    events = await asyncio.to_thread(client.launcher.recorded, client.agent.session_id)
    reports = [
        listed
        for event in events
        if isinstance(event, ToolResultAdded) and event.name == TOOL and not event.is_error
        if isinstance(listed := event.details.get("findings"), list)
    ]
    if not reports:
        raise CodeagentError(_NONE)
    found = read_back(reports[-1])
    if not found:
        raise CodeagentError("the last review found nothing")
    await chat.app.push_screen_wait(FindingsScreen(found, client.launcher.workspace))


class FindingList(MarkedList[ReviewFinding]):
    """Lists the findings, a row each."""

    DEFAULT_CSS = """
    FindingList {
        max-height: 50%;
        padding: 1 0 0 0;
    }
    """

    def parts(self, row: ReviewFinding, width: int, palette: Palette, *, marked: bool) -> Styled:
        sign, style = SIGNS[row.severity], _STYLES[row.severity]
        column = min(width * 2 // 5, max(cell_len(each.place) for each in self._rows))
        place = set_cell_size(cut_middle(row.place, column), column)
        what = cut_end(row.what, max(0, width - len(sign) - column - 4))
        return [
            (f"{sign}  ", palette.named(style)),
            (f"{place}  ", palette.accent),
            (what, palette.text),
        ]


class FindingsScreen(Page[None]):
    """Shows the findings until it is closed; opening one leaves the page open."""

    BINDINGS = bindings("findings", rows=page_rows(EXTENSION))

    def __init__(self, found: Sequence[ReviewFinding], workspace: Path) -> None:
        self._found = tuple(found)
        self._workspace = workspace
        self._rows = FindingList(self._found)
        self.pane: TextPane
        title = counted(len(self._found), "finding")
        super().__init__(title, TextPane(*self._shown), " · ".join(counts(found)))
        self.hints = (
            "{page.close} closes",
            "{findings.open} opens it",
            "{findings.next} {findings.previous} others",
            "{page.page_up} {page.page_down} scroll",
            "{page.copy} copies all",
        )

    def compose(self) -> ComposeResult:
        self.show_hints()
        yield self.title_row
        yield self._rows
        yield self.pane
        yield self.hint_row

    def whole(self) -> str:
        """Return all findings, to be copied."""
        return "\n\n".join(map(_told, self._found))

    def action_next(self) -> None:
        self._rows.move(1)

    def action_previous(self) -> None:
        self._rows.move(-1)

    def action_open(self) -> None:
        """Open the marked finding in the user's editor."""
        self.run_worker(self._open(self._marked), group="editor", exclusive=True)

    async def _open(self, finding: ReviewFinding) -> None:
        try:
            await open_place(self.app, self._workspace, finding.path, finding.line)
        except CodeagentError as error:
            self.say(str(error))

    @on(MarkedList.Marked)
    def _show(self) -> None:
        self.settle()
        self.pane.change(*self._shown)

    @on(MarkedList.Clicked)
    def _clicked(self) -> None:
        self.action_open()

    @property
    def _marked(self) -> ReviewFinding:
        return self._rows.marked or self._found[0]

    @property
    def _shown(self) -> tuple[Sequence[Piece], str]:
        finding = self._marked

        def piece(width: int, palette: Palette) -> Iterator[Line]:
            sign, style = SIGNS[finding.severity], _STYLES[finding.severity]
            lead = (f"{sign.rstrip()}  ", palette.named(style))
            yield from beside([lead], [(finding.place, palette.accent)], width - len(lead[0]))
            yield from paragraph(finding.what, width, palette.strong)
            yield line([])
            yield from paragraph(finding.why, width, palette.text)

        return [piece], _told(finding)


def _told(finding: ReviewFinding) -> str:
    return f"{finding.severity} {finding.place}\n{finding.what}\n\n{finding.why}"


async def btw(chat: ChatScreen, argument: str) -> None:
    """Handle `/btw QUESTION`. Raises CodeagentError."""
    aside = (await chat.outbox.ready()).agent.part(SideQuestions)
    if not argument or aside is None:
        raise CodeagentError("/btw takes a question about this conversation")
    await chat.app.push_screen_wait(AsidePanel(aside, argument))


class AsidePanel(Page[None]):
    """Covers the lower part of the conversation until it is closed, which ends the answer."""

    DEFAULT_CSS = """
    AsidePanel {
        align: left bottom;
        background: transparent;
        & > TitleRow, & > HintRow { background: $surface; }
        & > TextPane { height: 50%; background: $surface; }
    }
    """

    def __init__(self, aside: SideQuestions, question: str) -> None:
        self._aside = aside
        self._question = question
        self._text = self._drawn = "…"
        self.pane: TextPane
        pane = TextPane([self._piece], self._text)
        title = f"btw: {one_line(question, 200)}"
        super().__init__(title, pane, "not part of the conversation")

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(_PACE, self._draw)
        self.run_worker(self._ask())

    async def _ask(self) -> None:
        try:
            async with aclosing(self._aside.ask(self._question)) as answer:
                async for text in answer:
                    self._text = text
        except CodeagentError as error:
            self.say(str(error))
        self._draw()

    def _draw(self) -> None:
        """Draw what is new, without moving what the user reads."""
        if self._text != self._drawn:
            self._drawn = self._text
            row = self.pane.scroll_offset.y
            self.pane.change([self._piece], self._text)
            self.pane.go_to(row)

    def _piece(self, width: int, palette: Palette) -> Iterator[Line]:
        yield from render_markdown(self._drawn, width, palette)
