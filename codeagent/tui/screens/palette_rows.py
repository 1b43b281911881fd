"""What the command palette offers: every command, and the themes and models one can go to directly."""

from collections.abc import Iterable

from codeagent.tui.commands import COMMANDS
from codeagent.tui.ports import ModelRow
from codeagent.tui.screens.picker_list import PickerRow


def palette_rows(themes: Iterable[str], models: Iterable[ModelRow], *, running: bool) -> tuple[PickerRow, ...]:
    """Rows whose key is the line that does it: `/theme paper`. `running`: only what works while the agent does."""
    commands = [
        PickerRow(f"/{row.name}", f"/{row.name}", row.about) for row in COMMANDS if row.while_running or not running
    ]
    looks = [PickerRow(f"/theme {name}", f"/theme {name}", "theme") for name in themes]
    ready = () if running else (row for row in models if row.ready)
    return (*commands, *looks, *(PickerRow(f"/model {row.name}", f"/model {row.name}", row.about) for row in ready))
