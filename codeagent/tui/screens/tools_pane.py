"""The tools in use as rows: what waits for trust, what is wrong, and every tool below where it comes from."""

from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from codeagent.core.policy import Permission
from codeagent.core.toolbox import Toolbox, ToolFacts, ToolProblem
from codeagent.tui.rendering.lines import Line, line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.rendering.rows import wrap
from codeagent.tui.screens.permission_rows import WORDS
from codeagent.tui.widgets.fitting import cut_end, cut_middle, flat
from codeagent.tui.widgets.line_pane import LinePane

TRUST = (
    "Python tools of this project run on your machine, as you; they are loaded as they are now, "
    "and asked about again when they change."
)
_SOURCES = {"builtin": "Built in", "python": "From Python files and packages", "yaml": "From YAML files"}
_INDENT = "  "
_LONGEST_NAME = 20
_WORD = 5
"""Cells of `allow`, the longest word."""
_LEVEL = 7
"""Cells of `warning`."""


class ToolsPane(LinePane):
    DEFAULT_CSS = """
    ToolsPane { padding: 1 2 0 2; }
    """

    def __init__(self, toolbox: Toolbox) -> None:
        super().__init__()
        self._toolbox = toolbox

    def on_mount(self) -> None:
        super().on_mount()
        self.show([self._piece])

    def change(self, toolbox: Toolbox) -> None:
        """Show these instead."""
        self._toolbox = toolbox
        self.show([self._piece])

    def everything(self) -> str:
        box = self._toolbox
        untrusted = [f"not trusted: {path}" for path in box.untrusted]
        tools = [f"{tool.name}\t{WORDS[tool.permission]}\t{_about(tool)}\t{tool.description}" for tool in box.tools]
        return "\n".join([*untrusted, *(f"{problem.level}: {problem}" for problem in box.problems), *tools])

    def _piece(self, width: int, palette: Palette) -> Iterator[Line]:
        box = self._toolbox
        if box.untrusted:
            yield _heading("Not loaded: waits for your trust", palette.warning)
            for path in box.untrusted:
                yield line([(_INDENT, None), (cut_middle(flat(path), width - 2), palette.text)])
            yield from _wrapped(f"{TRUST} t trusts them.", palette.muted, width)
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


def _heading(text: str, style: Style) -> Line:
    return line([(text, style)])


def _tool(tool: ToolFacts, name: int, width: int, palette: Palette) -> Iterator[Line]:
    """What it is about stands beside its name where nothing else is to be said, else below."""
    styles: dict[Permission, Style] = {"auto": palette.success, "prompt": palette.warning, "deny": palette.error}
    lead = len(_INDENT) + name + 2 + _WORD + 2
    beside = max(8, width - lead)
    rows: list[list[tuple[str, Style | None]]] = []
    if about := _about(tool):
        rows += [row.parts for row in wrap([(about, palette.text)], beside)]
    if description := cut_end(flat(tool.description), beside):
        rows.append([(description, palette.muted)])
    first, others = (rows[0] if rows else []), rows[1:]
    yield line(
        [
            (_INDENT, None),
            (set_cell_size(cut_middle(flat(tool.name), name), name) + "  ", palette.strong),
            (f"{WORDS[tool.permission]:<{_WORD}}  ", styles[tool.permission]),
            *first,
        ]
    )
    for parts in others:
        yield line([(" " * lead, None), *parts])


def _about(tool: ToolFacts) -> str:
    """How it runs and where it comes from."""
    own = "" if tool.source == "builtin" else "on your machine"
    where = "in the sandbox" if tool.sandboxed else own
    mode = "" if tool.mode == "direct" else tool.mode
    return " · ".join(part for part in (mode, where, flat(tool.origin)) if part)


def _problem(problem: ToolProblem, width: int, palette: Palette) -> Iterator[Line]:
    """Where, and below it what: nothing of either is left out."""
    style = palette.error if problem.level == "error" else palette.warning
    beside = max(8, width - len(_INDENT) - _LEVEL - 2)
    rows = [
        *wrap([(flat(problem.where), palette.text)], beside, words=False),
        *wrap([(flat(problem.text), palette.muted)], beside),
    ]
    for number, row in enumerate(rows):
        level = problem.level if number == 0 else ""
        yield line([(f"{_INDENT}{level:<{_LEVEL}}  ", style), *row.parts])


def _wrapped(text: str, style: Style, width: int) -> Iterator[Line]:
    for row in wrap([(text, style)], max(8, width - len(_INDENT))):
        yield line([(_INDENT, None), *row.parts])
