"""The top row: where the agent works, and what it may do there."""

from rich.cells import cell_len

from codeagent.tui.parts.rows import SEPARATOR, Part, RowWidget, fit, joined_width, styled
from codeagent.tui.rendering.lines import Line, cut_end, cut_middle, flat, line
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.state import Status, StatusBoard

_GAP = 2
_LABEL = "sandbox: "
_LONGEST_NAME = 40
_SHORTEST_NAME = 8


class Header(RowWidget):
    """Workspace and branch on the left; model and sandbox on the right, the sandbox kept longest."""

    DEFAULT_CSS = """
    Header {
        dock: top;
    }
    """

    def __init__(self, board: StatusBoard) -> None:
        super().__init__()
        self._board = board

    def on_mount(self) -> None:
        self._board.watch(self.sync)

    def sync(self) -> None:
        """Draw the board as it is now."""
        if self.is_attached:
            self.refresh()

    def row(self, width: int, palette: Palette) -> Line:
        room = max(1, width - 2)
        model = Part(cut_middle(flat(self._board.now.model), _LONGEST_NAME), 40)
        right = fit((model, _sandbox(self._board.now.sandbox)), room)
        if joined_width(right) > room:
            return line([(" ", None), (cut_end(right[0].text.removeprefix(_LABEL), room), right[0].style(palette))])
        left = _left(self._board.now, room - joined_width(right) - _GAP)
        used = joined_width(left, "  ") + joined_width(right)
        pad = " " * max(0, room - used)
        return line([(" ", None), *styled(left, palette, "  "), (pad, None), *styled(right, palette, SEPARATOR)])


def _left(status: Status, room: int) -> tuple[Part, ...]:
    """As much of workspace and branch as fits `room` cells; names give way before they go."""
    changes = f" ±{status.changes}" if status.changes else ""
    name, branch = flat(status.workspace), flat(status.branch)
    over = cell_len(name) + (2 + cell_len(branch + changes) if branch else 0) - room
    if over > 0 and branch:
        branch = cut_middle(branch, max(_SHORTEST_NAME, cell_len(branch) - over))
    over = cell_len(name) + (2 + cell_len(branch + changes) if branch else 0) - room
    if over > 0:
        name = cut_middle(name, max(_SHORTEST_NAME, cell_len(name) - over))
    parts = fit((Part(name, 90, lambda palette: palette.strong), Part(branch + changes, 50)), room, "  ")
    return parts if joined_width(parts, "  ") <= room else ()


def _sandbox(sandbox: str) -> Part:
    """Without one the commands are held back by nothing, or there are none."""
    match sandbox:
        case "none":
            return Part("no sandbox: bash disabled", 90, lambda palette: palette.warning)
        case "off":
            return Part("no sandbox: commands run on this machine", 90, lambda palette: palette.error)
        case _:
            return Part(f"{_LABEL}{flat(sandbox)}" if sandbox else "", 90)
