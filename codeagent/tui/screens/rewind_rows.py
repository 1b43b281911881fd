"""What the lists of /rewind show, and what the person had said at a moment."""

import time
from collections.abc import Sequence

from codeagent.core.rewind import Changes, Point
from codeagent.core.sanitize import one_line
from codeagent.tui.screens.going_back_files import counted
from codeagent.tui.screens.picker_list import PickerRow
from codeagent.tui.screens.rewind_picker import CURRENT
from codeagent.tui.transcript.blocks import Block, Prompt

_CUT = "…"
_LABEL = 60


def point_rows(points: Sequence[Point]) -> list[PickerRow]:
    """Prompts with the batches of their runs below them, and the present at the end."""
    rows = [_point_row(point) for point in points if point.cause in ("prompt", "batch")]
    return [*rows, PickerRow(CURRENT, "(current)")]


def way_rows(point: Point, changes: Changes, prompts: int) -> list[PickerRow]:
    """What can go back to that point; `prompts` is how many the conversation would lose."""
    count = len(changes.files)
    edited = sum(file.edited for file in changes.files)
    files = counted(count, "file") + (f", {edited} of them edited by you" if edited else "")
    talk = f"{counted(prompts, 'prompt')} and what followed"
    # Only at a prompt does the conversation stand at a point where the model would be asked.
    can_talk = point.cause == "prompt"
    rows = [PickerRow("both", "files and conversation", f"{files}; {talk}", warn=bool(edited))] if can_talk else []
    rows += [PickerRow("files", "files only", files, warn=bool(edited))]
    rows = rows if count else []
    return [*rows, PickerRow("conversation", "conversation only", talk)] if can_talk else rows


def prompts_since(points: Sequence[Point], point: Point) -> int:
    """Prompts at that moment and after it."""
    return sum(other.cause == "prompt" for other in points[points.index(point) :])


def prompt_said(blocks: Sequence[Block], points: Sequence[Point], point: Point) -> str:
    """The prompt of a point as it was written, where the conversation still shows it; else its one line."""
    later = points[points.index(point) + 1 :]
    same = sum(other.cause == "prompt" and other.label == point.label for other in later)
    found = [block.text for block in reversed(blocks) if isinstance(block, Prompt) and _begins(block.text, point.label)]
    return found[same] if same < len(found) else point.label


def _point_row(point: Point) -> PickerRow:
    when = time.strftime("%H:%M", time.localtime(point.at))
    if point.cause == "prompt":
        return PickerRow(point.id, one_line(point.label, _LABEL) or "(nothing said)", when)
    number = f"batch {point.batch}" if point.batch else "batch"
    return PickerRow(point.id, f"└ {number}: {one_line(point.label, _LABEL)}", when)


def _begins(text: str, label: str) -> bool:
    """The label is the text in one line, cut or not."""
    flat = " ".join(text.split())
    cut = label.removesuffix(_CUT)
    return flat.startswith(cut) if cut != label else flat == label
