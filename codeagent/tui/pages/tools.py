"""The page of tools: what the agent can use, problems in tool files, and files that wait for
trust."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from codeagent.core.acts import TrustTools
from codeagent.core.toolbox import SourceState, Toolbox, ToolProblem, ToolsetSummary, ToolSummary
from codeagent.tui.bindings import bindings
from codeagent.tui.pages.page import Page, TextPane, beside
from codeagent.tui.pages.permissions import WORDS
from codeagent.tui.parts.guard import TOO_SOON
from codeagent.tui.parts.line_pane import Piece
from codeagent.tui.rendering.lines import Line, Parts, cut_end, cut_middle, flat, line, paragraph
from codeagent.tui.rendering.palette import PERMISSION, Palette
from codeagent.tui.session_client import SessionClient
from codeagent.tui.transcript.spelling import counted

_AS_NOW = "They are loaded as they are now, and you are asked again when they change."
_SOURCES = {
    "builtin": "Built in",
    "python": "From Python files and packages",
    "yaml": "From YAML files",
}
_INDENT = "  "
_LONGEST_NAME = 20
_WORD = 5
"""The width of `allow`, the longest word, in cells."""
_LEVEL = 7
"""The width of `warning`, in cells."""
_LATER = "trusted; loaded before the next request of the current run"
DISTRUSTED = "the tool files of this project are no longer loaded"
_NOTHING = "no tool files wait for your trust"
_LOOK = 0.5
"""Seconds between two checks for changed files; nothing is drawn if none changed."""


def tools_pieces(box: Toolbox) -> tuple[Piece, ...]:
    """Return the tools as rows."""
    return (lambda width, palette: _lines(box, width, palette),)


def tools_plain(box: Toolbox) -> str:
    """Return the tools as text for the clipboard."""
    untrusted = [f"not trusted: {path}" for path in box.untrusted]
    tools = [
        f"{tool.name}\t{WORDS[tool.permission]}\t{_about(tool)}\t{tool.description}"
        for tool in box.tools
    ]
    sets = [f"{one.name}\t{_state(one)}\t{one.about}" for one in box.toolsets]
    return "\n".join(
        [*untrusted, *(f"{problem.level}: {problem}" for problem in box.problems), *tools, *sets]
    )


def _lines(box: Toolbox, width: int, palette: Palette) -> Iterator[Line]:
    if box.untrusted:
        yield _heading("Not loaded: waiting for your trust", palette.warning)
        for path in box.untrusted:
            yield line([(_INDENT, None), (cut_middle(flat(path), width - 2), palette.text)])
        yield from paragraph(
            f"{trust_text(box.untrusted)} t trusts them.", width, palette.muted, first=_INDENT
        )
        yield line([])
    if box.problems:
        yield _heading("Problems", palette.error)
        for problem in box.problems:
            yield from _problem(problem, width, palette)
        yield line([])
    name = min(_LONGEST_NAME, max((cell_len(flat(tool.name)) for tool in box.tools), default=0))
    sources = dict.fromkeys(["builtin", *(tool.source for tool in box.tools)])
    for source in sources:
        tools = [tool for tool in box.tools if tool.source == source]
        if tools:
            yield _heading(_SOURCES.get(source, flat(source)), palette.heading)
            for tool in tools:
                yield from _tool(tool, name, width, palette)
            yield line([])
    if box.toolsets:
        yield _heading("Toolsets, which the model turns on when it needs them", palette.heading)
        for toolset in box.toolsets:
            yield from _toolset(toolset, width, palette)
        yield line([])


def trust_text(paths: Sequence[str]) -> str:
    """Say what trusting these files would allow: a sentence for each kind of file among them."""
    python = [path for path in paths if path.endswith(".py")]
    agents = [path for path in paths if "agents/" in path]
    said = (
        (python, "Python tools of this project run on your machine, as you."),
        (agents, "Agents of this project get the instructions and tools that their files name."),
        ({*paths} - {*python, *agents}, "Tool files of this project say what their tools run."),
    )
    return " ".join([*(words for found, words in said if found), _AS_NOW])


def _heading(text: str, style: Style) -> Line:
    return line([(text, style)])


def _tool(tool: ToolSummary, name: int, width: int, palette: Palette) -> Iterator[Line]:
    """Return a row with name, permission and how the tool runs, and below it the description."""
    lead: Parts = [
        (_INDENT, None),
        (set_cell_size(cut_middle(flat(tool.name), name), name) + "  ", palette.strong),
        (f"{WORDS[tool.permission]:<{_WORD}}  ", palette.named(PERMISSION[tool.permission])),
    ]
    room = max(8, width - len(_INDENT) - name - 2 - _WORD - 2)
    texts = [(_about(tool), palette.text), (cut_end(flat(tool.description), room), palette.muted)]
    return beside(lead, texts, room)


def _about(tool: ToolSummary) -> str:
    """Return how the tool runs and where it comes from."""
    own = "" if tool.source == "builtin" else "on your machine"
    where = "in the sandbox" if tool.sandboxed else own
    mode = "" if tool.mode == "direct" else tool.mode
    toolset = f"toolset {flat(tool.toolset)}" if tool.toolset else ""
    return " · ".join(part for part in (mode, where, toolset, flat(tool.origin)) if part)


def _toolset(toolset: ToolsetSummary, width: int, palette: Palette) -> Iterator[Line]:
    """Return name and state, and below them what the toolset is for, or why it failed."""
    styles: dict[SourceState, Style] = {"failed": palette.error, "starting": palette.warning}
    style = palette.success if toolset.in_use else styles.get(toolset.state, palette.muted)
    lead: Parts = [
        (_INDENT, None),
        (
            set_cell_size(cut_middle(flat(toolset.name), _LONGEST_NAME), _LONGEST_NAME) + "  ",
            palette.strong,
        ),
    ]
    room = max(8, width - len(_INDENT) - _LONGEST_NAME - 2)
    about = toolset.reason if toolset.state == "failed" else toolset.about
    return beside(
        lead, [(_state(toolset), style), (cut_end(flat(about), room), palette.muted)], room
    )


def _state(toolset: ToolsetSummary) -> str:
    on = f"{toolset.in_use} of " if toolset.in_use else ""
    state = {
        "waiting": "off",
        "ready": "off",
        "starting": "starting",
        "failed": "failed, will be tried again",
    }
    said = (
        "on" if toolset.in_use and toolset.state in ("waiting", "ready") else state[toolset.state]
    )
    return f"{said} · {on}{counted(toolset.tools, 'tool')}"


def _problem(problem: ToolProblem, width: int, palette: Palette) -> Iterator[Line]:
    """Return where the problem is and, below, what it is, both in full."""
    style = palette.error if problem.level == "error" else palette.warning
    where, text = (flat(part, len(part)) for part in (problem.where, problem.text))
    texts = [(where, palette.text), (text, palette.muted)]
    return beside(
        [(f"{_INDENT}{problem.level:<{_LEVEL}}  ", style)], texts, width - len(_INDENT) - _LEVEL - 2
    )


class ToolsScreen(Page[None]):
    """Covers the conversation, which continues; shows changes of the tool files as they happen."""

    BINDINGS = bindings("tools")

    def __init__(self, client: SessionClient, toolbox: Toolbox, *, ask: bool = False) -> None:
        """If `ask`, begin with the question whether to trust the files."""
        hints = [
            *(["{tools.trust} trusts"] if toolbox.untrusted else []),
            "{tools.distrust} distrusts",
        ]
        self.pane: TextPane
        super().__init__(
            "Tools", TextPane(tools_pieces(toolbox), tools_plain(toolbox)), _note(toolbox), hints
        )
        self._client = client
        self._shown = toolbox
        self._asked: tuple[str, ...] = ()
        """The files that the pending question about trust is for."""
        self._seen = ""
        """The digest of their content when it was asked."""
        self._ask = ask

    def on_mount(self) -> None:
        self.set_interval(_LOOK, self._look)
        if self._ask:
            self.action_trust()

    def settle(self) -> None:
        self._asked = ()
        super().settle()

    def action_trust(self) -> None:
        self._look()
        self.pane.turn("home")  # it says there what trusting means
        self._asked = self._shown.untrusted
        self._seen = self._shown.digest
        self.guard.close()
        files = counted(len(self._asked), "file")
        self.say(
            f"trust {files}? y loads them; any other key leaves it" if self._asked else _NOTHING
        )

    def action_yes(self) -> None:
        """Load the files, unless the key was pressed before the question could be read."""
        asked = self._asked
        self._look()
        if not asked or not self._asked:
            return
        if self.guard.admits("y"):
            self._change(TrustTools(True, self._seen))
        else:
            self.say(TOO_SOON)

    def action_distrust(self) -> None:
        self._change(TrustTools(False))

    def _change(self, act: TrustTools) -> None:
        self.settle()
        self.app.run_worker(
            self._trust(act)
        )  # a worker of the app, so that closing the page does not cancel it halfway

    async def _trust(self, act: TrustTools) -> None:
        if (refused := await self._client.finish(act)) is not None:
            self.say(refused.reason)
            return
        self._look()
        loaded = _LATER if self._shown.untrusted else "loaded"
        self.say(loaded if act.trusted else DISTRUSTED)

    def _look(self) -> None:
        """Draw what changed; if the files in question changed, ask again."""
        toolbox = self._client.toolbox
        if toolbox is None or toolbox == self._shown:
            return
        if self._asked and (toolbox.untrusted, toolbox.digest) != (self._asked, self._seen):
            self.settle()
        self._shown = toolbox
        self.title_row.tell(_note(toolbox))
        self.pane.change(tools_pieces(toolbox), tools_plain(toolbox))


def _note(toolbox: Toolbox) -> str:
    problems = counted(len(toolbox.problems), "problem") if toolbox.problems else ""
    untrusted = (
        f"{counted(len(toolbox.untrusted), 'file waits', 'files wait')} for trust"
        if toolbox.untrusted
        else ""
    )
    return " · ".join(
        part for part in (counted(len(toolbox.tools), "tool"), problems, untrusted) if part
    )
