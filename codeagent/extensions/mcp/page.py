"""The page of MCP servers: their state, their tools, what is wrong, and what waits for the user."""

import re
from collections.abc import Iterator
from functools import partial

from rich.segment import Segment
from rich.style import Style

from codeagent.core.acts import AgreeToServer, GiveVariables, RestartServer, ServerAct, TrustServers
from codeagent.core.dataclass import dataclass
from codeagent.extensions.mcp import EXTENSION
from codeagent.extensions.mcp.config import ListedServers, ServerStatus, diff_lines
from codeagent.tui.bindings import bindings
from codeagent.tui.commands import page_rows
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.page import Page, TextPane
from codeagent.tui.parts.guard import TOO_SMALL, TOO_SOON, wholly_on_screen
from codeagent.tui.parts.line_pane import Piece, wrapped_piece
from codeagent.tui.rendering.lines import Line, flat, indented, line, paragraph
from codeagent.tui.rendering.marked import marked_lines
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.session_client import SessionClient
from codeagent.tui.transcript.spelling import counted

TRUST = (
    "They come with this project, and none of them was started. If you trust them, they are started as .mcp.json says "
    "now; you are asked again when it changes, or the files of their programs."
)
_INDENT = "    "
_MARK = "› "
_MOST_LINES = 8
"""Lines shown of what a server wrote."""
_LOOK = 0.5
"""Seconds between two checks of the servers; nothing is drawn if nothing changed."""
_WHOSE = {"user": "yours", "project": "from the project"}
_VARIABLE = re.compile(r"\$\{[^}]*\}")
_NEXT = {
    "untrusted": "t trusts the project's servers",
    "failed": "r starts it again",
    "disabled": "not started: disabled in its configuration",
}

Servers = tuple[ServerStatus, ...]


@dataclass(frozen=True)
class _Question:
    """What waits for a y: the act, in words, and the servers that it is about, as they were when it
    was asked."""

    act: ServerAct
    words: str
    servers: Servers
    note: str = ""
    """What the words do not have room for."""


async def mcp(chat: ChatScreen, argument: str) -> None:
    """Handle `/mcp`."""
    client = await chat.outbox.ready()
    servers = client.agent.part(ListedServers)
    if servers is None or not servers.list():
        chat.tell("no MCP server; codeagent mcp add NAME URL (or NAME -- COMMAND) adds one")
    else:
        await chat.app.push_screen_wait(ServersScreen(client, servers))


def servers_pieces(servers: Servers, chosen: str) -> tuple[Piece, ...]:
    """Return one piece for each server."""
    return tuple(partial(_lines, server, marked=server.name == chosen) for server in servers)


def servers_plain(servers: Servers) -> str:
    """Return the servers as text for the clipboard."""
    return "\n\n".join(
        "\n".join([_head(server), server.shown, *server.details, *_beside(server)])
        for server in servers
    )


def _lines(server: ServerStatus, width: int, palette: Palette, *, marked: bool) -> Iterator[Line]:
    styles: dict[str, Style] = {
        "ready": palette.success,
        "failed": palette.error,
        "untrusted": palette.warning,
    }
    lead = _MARK if marked else " " * len(_MARK)
    style = palette.warning if _needs(server) else styles.get(server.state, palette.muted)
    yield line([(lead, palette.accent), (_head(server), style)])
    yield from _whole(server.shown, width, palette)
    if server.state == "untrusted":
        yield from paragraph(TRUST, width, palette.muted, first=_INDENT)
    for text in server.details:
        yield from _whole(text, width, palette)
    for text in _beside(server):
        yield from paragraph(flat(text, len(text)), width, palette.muted, first=_INDENT)
    yield line([])


def _whole(text: str, width: int, palette: Palette) -> Iterator[Line]:
    """Return all of a text that the user may be asked about, with the variables in it pointed
    out."""
    for found in marked_lines(text, max(8, width - len(_INDENT)), palette, _VARIABLE):
        yield indented(found, Segment(_INDENT))


def _head(server: ServerStatus) -> str:
    tools = counted(len(server.tools), "tool") if server.state == "ready" else ""
    state = f"waits for {', '.join(needs)}" if (needs := _needs(server)) else server.state
    parts = (server.name, state, tools, server.transport, _WHOSE[server.place])
    return flat(" · ".join(part for part in parts if part))


def _needs(server: ServerStatus) -> tuple[str, ...]:
    """Return the names of the variables without which it was not started; empty if it failed for
    another reason."""
    if server.state != "failed":
        return ()
    return tuple(one.name for one in server.wants if not one.given and one.default is None)


def _beside(server: ServerStatus) -> Iterator[str]:
    """Return what is said of a server besides what it is given; the next step is below what is
    wrong."""
    yield from server.problems
    if needs := _needs(server):
        yield f"v gives it your {', '.join(needs)}"
    elif server.state in _NEXT:
        yield _NEXT[server.state]
    if server.tools:
        yield f"tools: {', '.join(name.removeprefix(f'mcp__{server.name}__') for name in server.tools)}"
    if server.changed:
        agrees = f"a agrees to {counted(len(server.changed), 'change')}:"
        yield "its program in the workspace:" if server.state == "untrusted" else agrees
        for diff in server.changed:
            yield from diff_lines(diff)
    if server.wrote:
        yield "the end of what it wrote:"
        yield from server.wrote[-_MOST_LINES:]


class ServersScreen(Page[None]):
    """Covers the conversation, which continues; shows changes of the servers as they happen."""

    BINDINGS = bindings("mcp", rows=page_rows(EXTENSION))

    def __init__(self, client: SessionClient, listed: ListedServers) -> None:
        self.pane: TextPane
        self._client = client
        self._listed = listed
        self._shown = servers = listed.list()
        self._chosen = servers[0].name if servers else ""
        hints = [
            "{mcp.next} next",
            "{mcp.give} gives variables",
            "{mcp.restart} restarts",
            "{mcp.trust} trusts",
            "{mcp.agree} agrees",
        ]
        pane = TextPane(servers_pieces(servers, self._chosen), servers_plain(servers))
        super().__init__("MCP servers", pane, _note(servers), hints)
        self._asked: _Question | None = None

    def on_mount(self) -> None:
        self.set_interval(_LOOK, self._look)

    def settle(self) -> None:
        asked = self._asked
        self._asked = None
        super().settle()
        if asked is not None:
            self._draw()

    def action_next(self) -> None:
        """Choose the next server; after the last one, the first."""
        self.settle()
        names = [server.name for server in self._shown]
        if names:
            at = names.index(self._chosen) if self._chosen in names else -1
            self._chosen = names[(at + 1) % len(names)]
            self._draw()

    def action_restart(self) -> None:
        self.settle()
        self.app.run_worker(
            self._change(RestartServer(self._chosen), f"{self._chosen} is being restarted")
        )

    def action_trust(self) -> None:
        self._look()
        waiting = tuple(server for server in self._shown if server.state == "untrusted")
        if not waiting:
            self.say("no server of this project waits for your trust")
            return
        seen = tuple(one.after for server in waiting for one in server.changed)
        words = f"start {counted(len(waiting), 'server')} of this project?"
        self._ask(_Question(TrustServers(True, seen), words, waiting))

    def action_give(self) -> None:
        """Ask whether to give the chosen server every variable that it wants and does not have."""
        server = self._look()
        names = () if server is None else tuple(one.name for one in server.wants if not one.given)
        if server is None or not names:
            self.say(f"{self._chosen} wants no variable that it does not have")
        elif server.state == "untrusted":
            self.say("trust the project's servers first")
        else:
            note = f"{server.name} would get your {', '.join(names)}: its value goes wherever the name is marked below."
            words = f"give {server.name} {counted(len(names), 'variable')} of yours?"
            self._ask(
                _Question(GiveVariables(server.name, names, server.said), words, (server,), note)
            )

    def action_distrust(self) -> None:
        self.settle()
        said = (
            "the project's servers are no longer trusted; running ones end with this conversation"
        )
        self.app.run_worker(self._change(TrustServers(False), said))

    def action_agree(self) -> None:
        server = self._look()
        if server is None or not server.changed or server.state == "untrusted":
            self.say(f"{self._chosen} has nothing that waits for your agreement")
            return
        act = AgreeToServer(server.name, tuple(one.after for one in server.changed))
        words = f"agree to {counted(len(server.changed), 'change')} of {server.name}?"
        self._ask(_Question(act, words, (server,)))

    def action_yes(self) -> None:
        """Confirm the question, once all of it was on screen and could be read; until then, turn a
        page."""
        asked = self._asked
        self._look()
        if asked is None or self._asked is None:
            return
        if not self.guard.admits("y"):
            self.say(TOO_SOON)
        elif self.pane.below or not self.pane.complete:
            self.pane.turn("pagedown")
            self.guard.close()
            self._say_question(asked)
        elif not wholly_on_screen(self.pane):
            self.say(TOO_SMALL)
        else:
            self.settle()
            self.app.run_worker(
                self._change(asked.act, "done")
            )  # a worker of the app, so that closing the page does not cancel it halfway

    def _ask(self, question: _Question) -> None:
        """Ask; as long as it waits, only what it is about is shown, from its beginning."""
        self._asked = question
        self._draw()
        self.guard.close()
        self._say_question(question)

    def _say_question(self, question: _Question) -> None:
        self.say(f"{question.words} y does it; any other key leaves it")

    async def _change(self, act: ServerAct, done: str) -> None:
        refused = await self._client.finish(act)
        self._look()
        self.say(done if refused is None else refused.reason)

    def _look(self) -> ServerStatus | None:
        """Draw what changed, and return the chosen server.

        A question about servers that have changed since is withdrawn.
        """
        servers = self._listed.list()
        if servers != self._shown:
            self._shown = servers
            self.title_row.tell(_note(servers))
            if self._asked is None:
                self._draw()
            elif _waits(self._about(self._asked)) != _waits(self._asked.servers):
                self.settle()
        return next((server for server in servers if server.name == self._chosen), None)

    def _about(self, question: _Question) -> Servers:
        """Return the servers that the question would be about if it were asked now."""
        if isinstance(question.act, TrustServers):
            return tuple(server for server in self._shown if server.state == "untrusted")
        names = {server.name for server in question.servers}
        return tuple(server for server in self._shown if server.name in names)

    def _draw(self) -> None:
        asked = self._asked
        servers = self._shown if asked is None else asked.servers
        lead = (wrapped_piece(asked.note, "strong"),) if asked is not None and asked.note else ()
        self.pane.change((*lead, *servers_pieces(servers, self._chosen)), servers_plain(servers))


def _waits(servers: Servers) -> tuple[object, ...]:
    """Return what a yes would apply to: the servers that would start, how, and the tools that would
    be used."""
    return tuple((one.name, one.state == "untrusted", one.said, one.changed) for one in servers)


def _note(servers: Servers) -> str:
    ready = sum(server.state == "ready" for server in servers)
    waiting = sum(server.state == "untrusted" for server in servers)
    return " · ".join(
        [f"{ready} of {len(servers)} ready", *([f"{waiting} not trusted"] if waiting else [])]
    )
