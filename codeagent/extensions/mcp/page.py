"""The list of MCP servers, and the page that asks about one."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rich.segment import Segment

from codeagent.core.acts import AgreeToServer, GiveVariables, RestartServer, ServerAct, TrustServers
from codeagent.core.dataclass import dataclass
from codeagent.extensions.mcp import EXTENSION
from codeagent.extensions.mcp.config import ListedServers, ServerStatus, diff_lines
from codeagent.tui.bindings import bindings
from codeagent.tui.commands import page_rows
from codeagent.tui.facts import Caption, Fact, FactRow, Facts, opened
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.facts import FactsPage
from codeagent.tui.pages.page import Page, TextPane
from codeagent.tui.parts.guard import TOO_SMALL, TOO_SOON, wholly_on_screen
from codeagent.tui.parts.line_pane import Piece, wrapped_piece
from codeagent.tui.parts.rows import Part
from codeagent.tui.rendering.lines import Line, flat, indented, line, paragraph
from codeagent.tui.rendering.marked import marked_lines
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.session_client import SessionClient
from codeagent.tui.transcript.spelling import counted

TRUST = (
    "They come with this project, and none of them was started. If you trust them, they are started as .mcp.json says "
    "now; you are asked again when it changes, or the files of their programs."
)
DISTRUSTED = "the project's servers are no longer trusted; running ones end with this conversation"
_ADD = ("codeagent mcp add NAME URL", "codeagent mcp add NAME -- COMMAND")
_INDENT = "    "
_MOST_LINES = 8
"""Lines shown of what a server wrote."""
_LOOK = 0.5
"""Seconds between two checks of the servers; nothing is drawn if nothing changed."""
_WHOSE = {"user": "you", "project": "the project"}
_VARIABLE = re.compile(r"\$\{[^}]*\}")

Servers = tuple[ServerStatus, ...]


@dataclass(frozen=True)
class _Question:
    """What the user has to decide about servers, all of which are shown with it."""

    act: ServerAct
    """What a yes does."""
    does: str
    """What Enter does in the list."""
    words: str
    """What a yes does, in words."""
    servers: Servers
    note: str = ""
    """What the words do not have room for."""

    @property
    def subject(self) -> object:
        """What a yes would apply to: the servers that would start, how, and the tools that would be
        used."""
        about = (
            (one.name, one.state == "untrusted", one.said, one.changed) for one in self.servers
        )
        return self.act, tuple(about)

    def pieces(self) -> tuple[Piece, ...]:
        lead = (wrapped_piece(self.note, "strong"),) if self.note else ()
        return (*lead, *(partial(_lines, server) for server in self.servers))

    def plain(self) -> str:
        return "\n\n".join(map(_plain, self.servers))


async def mcp(chat: ChatScreen, argument: str) -> None:
    """Handle `/mcp`."""
    client = await chat.outbox.ready()
    listed = client.agent.part(ListedServers) or ListedServers()
    await chat.app.push_screen_wait(ServersPage(client, listed))


def servers_facts(servers: Servers) -> Facts:
    """Return a row for each server; Enter asks what is to be decided about it, else opens it."""
    rows: list[FactRow] = [Caption(("server", "state", "tools", "from", "runs or reaches"))]
    for server in servers:
        tools = f"{len(server.tools):,}" if server.state == "ready" else ""
        asked = _question(server.name, servers)
        rows.append(
            Fact(
                cells=(server.name, _state(server), tools, _WHOSE[server.place], server.shown),
                about=" · ".join((*server.problems, *server.wrote[-1:])),
                does=asked.does if asked else "opens it",
                opens=opened(_plain(server)),
                style="warning" if asked else "error" if server.state == "failed" else "text",
            )
        )
    if not servers:
        rows = [Caption(("No servers yet. Add one in a shell:",))]
        rows += [Fact(cells=(command,), does="copies the command") for command in _ADD]
    ready = sum(server.state == "ready" for server in servers)
    waiting = sum(server.state == "untrusted" for server in servers)
    note = f"{ready} of {len(servers)} ready" + f" · {waiting} not trusted" * bool(waiting)
    return Facts("MCP servers", rows, note)


def _question(name: str, servers: Servers) -> _Question | None:
    """Return what is to be decided about a server; None if nothing is."""
    server = next((one for one in servers if one.name == name), None)
    if server is None:
        return None
    if server.state == "untrusted":
        waiting = tuple(one for one in servers if one.state == "untrusted")
        seen = tuple(diff.after for one in waiting for diff in one.changed)
        return _Question(
            TrustServers(True, seen),
            "asks whether to trust it",
            f"trusts this project and starts {counted(len(waiting), 'server')}",
            waiting,
        )
    if server.changed:
        changes = counted(len(server.changed), "change")
        agree = AgreeToServer(server.name, tuple(diff.after for diff in server.changed))
        return _Question(agree, f"shows {changes}", f"agrees to {changes}", (server,))
    if names := tuple(one.name for one in server.wants if not one.given):
        listed = ", ".join(names)
        return _Question(
            GiveVariables(server.name, names, server.said),
            f"asks whether to give it {listed}",
            f"gives it {counted(len(names), 'variable')} of yours",
            (server,),
            f"{server.name} would get your {listed}: its value goes wherever the name is marked below.",
        )
    return None


def _state(server: ServerStatus) -> str:
    """Return the state in words; a server that was not started for lack of variables waits for
    them."""
    lacks = [one.name for one in server.wants if not one.given and one.default is None]
    match server.state:
        case "failed" if lacks:
            return f"waits for {', '.join(lacks)}"
        case "untrusted":
            return "not trusted"
        case state:
            return f"{state}, {counted(len(server.changed), 'change')}" if server.changed else state


def _lines(server: ServerStatus, width: int, palette: Palette) -> Iterator[Line]:
    """Return all that the user may be asked about, with the variables in it pointed out, and what
    else is said of the server."""
    yield line([(_head(server), palette.strong)])
    for text in (server.shown, *server.details):
        for found in marked_lines(text, max(8, width - len(_INDENT)), palette, _VARIABLE):
            yield indented(found, Segment(_INDENT))
    for text in _beside(server):
        yield from paragraph(flat(text, len(text)), width, palette.muted, first=_INDENT)
    yield line([])


def _head(server: ServerStatus) -> str:
    return flat(f"{server.name} · {_state(server)} · {server.transport}")


def _plain(server: ServerStatus) -> str:
    return "\n".join((_head(server), server.shown, *server.details, *_beside(server)))


def _beside(server: ServerStatus) -> Iterator[str]:
    """Return what is said of a server besides what it is given."""
    if server.state == "untrusted":
        yield TRUST
    yield from server.problems
    if server.state == "disabled":
        yield "not started: disabled in its configuration"
    if server.tools:
        yield f"tools: {', '.join(name.removeprefix(f'mcp__{server.name}__') for name in server.tools)}"
    if server.changed:
        untrusted = server.state == "untrusted"
        yield "its program in the workspace:" if untrusted else "what changed:"
        for diff in server.changed:
            yield from diff_lines(diff)
    if server.wrote:
        yield "the end of what it wrote:"
        yield from server.wrote[-_MOST_LINES:]


class ServersPage(FactsPage):
    """Lists the servers as they change."""

    BINDINGS = bindings("mcp", rows=page_rows(EXTENSION))
    HINTS = (*FactsPage.HINTS[:2], "{mcp.restart} restarts")

    def __init__(self, client: SessionClient, listed: ListedServers) -> None:
        super().__init__(servers_facts(listed.list()))
        self._client = client
        self._listed = listed

    def on_mount(self) -> None:
        self.set_interval(_LOOK, lambda: self.show(servers_facts(self._listed.list())))

    @property
    def _marked_name(self) -> str:
        """The name of the marked server."""
        return marked.cells[0] if isinstance(marked := self.list.marked, Fact) else ""

    async def action_choose(self) -> None:
        name = self._marked_name

        def ask() -> _Question | None:
            return _question(name, self._listed.list())

        if (asked := ask()) is None:
            await super().action_choose()
        else:
            self.app.push_screen(ServerPage(asked, ask), self._do)

    def action_restart(self) -> None:
        self._do(RestartServer(self._marked_name), f"{self._marked_name} is being restarted")

    def action_distrust(self) -> None:
        self._do(TrustServers(False), DISTRUSTED)

    def _do(self, act: ServerAct | None, done: str = "") -> None:
        if act is not None:
            # A worker of the app, so that closing the page does not cancel it halfway.
            self.app.run_worker(self._change(act, done))

    async def _change(self, act: ServerAct, done: str) -> None:
        refused = await self._client.finish(act)
        self.hint_row.tell(refused.reason if refused else done)


class ServerPage(Page[ServerAct | None]):
    """Asks about servers, and shows everything that the answer is about; returns what the user
    agreed to."""

    BINDINGS = bindings("server", rows=page_rows(EXTENSION))

    def __init__(self, asked: _Question, ask: Callable[[], _Question | None]) -> None:
        """`ask` returns the question as it is now."""
        self.pane: TextPane
        super().__init__("MCP servers", TextPane(asked.pieces(), asked.plain()))
        self._asked = asked
        self._ask = ask

    def on_mount(self) -> None:
        self.set_interval(_LOOK, self._look)

    def show_hints(self, standing: Sequence[Part] = ()) -> None:
        words = f"{self.key('server.yes')} {self._asked.words}"
        super().show_hints((Part(words, len(self.hints), "text"), *standing))

    def action_yes(self) -> None:
        """Return the act, once all that it is about was on screen and could be read; until then,
        turn a page."""
        if not self._look():
            return
        if not self.guard.admits("y"):
            self.say(TOO_SOON)
        elif self.pane.below or not self.pane.complete:
            self.action_turn("pagedown")
            self.guard.close()
        elif not wholly_on_screen(self.pane):
            self.say(TOO_SMALL)
        else:
            self.dismiss(self._asked.act)

    def _look(self) -> bool:
        """Return whether what the question is about is as it was; if not, ask again from the
        beginning, or not at all."""
        asked = self._ask()
        if asked is None:
            if self.is_current:
                self.dismiss(None)
            return False
        same = asked.subject == self._asked.subject
        if not same:
            self._asked = asked
            self.guard.close()
            self.settle()
            self.show_hints()
            self.pane.change(asked.pieces(), asked.plain())
        return same
