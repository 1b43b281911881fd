"""The page of MCP servers: their state, their tools, what is wrong, and what waits for the user."""

from collections.abc import Iterator
from difflib import unified_diff

from rich.style import Style

from codeagent.core.acts import AgreeToServer, RestartServer, ServerAct, TrustServers
from codeagent.core.display import DiffBlock
from codeagent.core.mcp import ServerBook, ServerFacts
from codeagent.tui.actions import bindings
from codeagent.tui.pages.page import Page, TextPane
from codeagent.tui.parts.guard import TOO_SOON
from codeagent.tui.parts.line_pane import Piece
from codeagent.tui.rendering.lines import Line, cut_middle, flat, line, paragraph
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
_NEXT = {
    "untrusted": "t trusts the project's servers",
    "failed": "r starts it again",
    "disabled": "not started: disabled in its configuration",
}

Servers = tuple[ServerFacts, ...]


def servers_pieces(servers: Servers, chosen: str) -> tuple[Piece, ...]:
    """Return one piece for each server."""
    return tuple(_piece(server, marked=server.name == chosen) for server in servers)


def servers_plain(servers: Servers) -> str:
    """Return the servers as text for the clipboard."""
    return "\n\n".join("\n".join([_head(server), server.shown, *_said(server)]) for server in servers)


def _piece(server: ServerFacts, *, marked: bool) -> Piece:
    return lambda width, palette: _lines(server, width, palette, marked=marked)


def _lines(server: ServerFacts, width: int, palette: Palette, *, marked: bool) -> Iterator[Line]:
    styles: dict[str, Style] = {"ready": palette.success, "failed": palette.error, "untrusted": palette.warning}
    lead = _MARK if marked else " " * len(_MARK)
    yield line([(lead, palette.accent), (_head(server), styles.get(server.state, palette.muted))])
    yield line([(_INDENT, None), (cut_middle(flat(server.shown), max(8, width - len(_INDENT))), palette.text)])
    if server.state == "untrusted":
        yield from paragraph(TRUST, width, palette.muted, first=_INDENT)
    for text in _said(server):
        yield from paragraph(flat(text, len(text)), width, palette.muted, first=_INDENT)
    yield line([])


def _head(server: ServerFacts) -> str:
    tools = counted(len(server.tools), "tool") if server.state == "ready" else ""
    parts = (server.name, server.state, tools, server.transport, _WHOSE[server.place])
    return flat(" · ".join(part for part in parts if part))


def _said(server: ServerFacts) -> Iterator[str]:
    """Return the paragraphs about a server; the next step is below what is wrong."""
    yield from server.details
    yield from server.problems
    if server.state in _NEXT:
        yield _NEXT[server.state]
    if server.tools:
        yield f"tools: {', '.join(name.removeprefix(f'mcp__{server.name}__') for name in server.tools)}"
    if server.changed:
        agrees = f"a agrees to {counted(len(server.changed), 'change')}:"
        yield "its program in the workspace:" if server.state == "untrusted" else agrees
        for diff in server.changed:
            yield from _diff(diff)
    if server.wrote:
        yield "the end of what it wrote:"
        yield from server.wrote[-_MOST_LINES:]


def _diff(diff: DiffBlock) -> Iterator[str]:
    names = (f"{diff.path} as you agreed to it", f"{diff.path} as it is now")
    return unified_diff(diff.before.splitlines(), diff.after.splitlines(), *names, lineterm="")


class ServersScreen(Page[None]):
    """Covers the conversation, which continues; shows changes of the servers as they happen."""

    BINDINGS = bindings("mcp")

    def __init__(self, client: SessionClient, book: ServerBook) -> None:
        self.pane: TextPane
        self._client = client
        self._book = book
        self._shown = servers = book.list()
        self._chosen = servers[0].name if servers else ""
        hints = ["{mcp.next} next", "{mcp.restart} restarts", "{mcp.trust} trusts", "{mcp.agree} agrees"]
        pane = TextPane(servers_pieces(servers, self._chosen), servers_plain(servers))
        super().__init__("MCP servers", pane, _note(servers), hints)
        self._asked: tuple[ServerAct, Servers] | None = None
        """The pending question, and the servers as they were when it was asked."""

    def on_mount(self) -> None:
        self.set_interval(_LOOK, self._look)

    def settle(self) -> None:
        self._asked = None
        super().settle()

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
        self.app.run_worker(self._change(RestartServer(self._chosen), f"{self._chosen} is being restarted"))

    def action_trust(self) -> None:
        waiting = [server for server in self._shown if server.state == "untrusted"]
        if not waiting:
            self.say("no server of this project waits for your trust")
            return
        seen = tuple(one.after for server in waiting for one in server.changed)
        self._ask(TrustServers(True, seen), f"start {counted(len(waiting), 'server')} of this project?")

    def action_distrust(self) -> None:
        self.settle()
        said = "the project's servers are no longer trusted; running ones end with this conversation"
        self.app.run_worker(self._change(TrustServers(False), said))

    def action_agree(self) -> None:
        server = next((server for server in self._shown if server.name == self._chosen), None)
        if server is None or not server.changed or server.state == "untrusted":
            self.say(f"{self._chosen} has nothing that waits for your agreement")
            return
        seen = tuple(one.after for one in server.changed)
        self._ask(
            AgreeToServer(server.name, seen), f"agree to {counted(len(server.changed), 'change')} of {server.name}?"
        )

    def action_yes(self) -> None:
        """Confirm the question, unless the key was pressed before it could be read."""
        asked = self._asked
        self._look()
        if asked is None or self._asked is None:
            return
        if not self.guard.admits("y"):
            self.say(TOO_SOON)
            return
        self.settle()
        self.app.run_worker(
            self._change(asked[0], "done")
        )  # a worker of the app, so that closing the page does not cancel it halfway

    def _ask(self, act: ServerAct, question: str) -> None:
        self._look()
        self.guard.close()
        self._asked = act, self._shown
        self.say(f"{question} y does it; any other key leaves it")

    async def _change(self, act: ServerAct, done: str) -> None:
        refused = await self._client.finish(act)
        self._look()
        self.say(done if refused is None else refused.reason)

    def _look(self) -> None:
        """Draw what changed. A question about servers that have changed since is withdrawn."""
        servers = self._book.list()
        if servers == self._shown:
            return
        if self._asked is not None and _waits(servers) != _waits(self._asked[1]):
            self.settle()
        self._shown = servers
        self.title_row.tell(_note(servers))
        self._draw()

    def _draw(self) -> None:
        self.pane.change(servers_pieces(self._shown, self._chosen), servers_plain(self._shown))


def _waits(servers: Servers) -> tuple[object, ...]:
    """Return what a yes would apply to: the servers that would start, how, and the tools that would be used."""
    return tuple((one.name, one.state == "untrusted", one.shown, one.details, one.changed) for one in servers)


def _note(servers: Servers) -> str:
    ready = sum(server.state == "ready" for server in servers)
    waiting = sum(server.state == "untrusted" for server in servers)
    return " · ".join([f"{ready} of {len(servers)} ready", *([f"{waiting} not trusted"] if waiting else [])])
