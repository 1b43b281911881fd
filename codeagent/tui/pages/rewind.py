"""Going back with /undo, /redo and /rewind: shows what would change, does it, and says what was
done."""

import time
from collections.abc import Sequence

from codeagent.core.acts import Restore
from codeagent.core.checkpoints import ChangedFile, Changes, Point, Rewind
from codeagent.core.errors import CheckpointError
from codeagent.core.sanitize import one_line
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.picker import Picker
from codeagent.tui.pages.rewind_pages import (
    CURRENT,
    GoingBackPage,
    RewindPicker,
    changes_pieces,
    file_rows,
    nothing_changes,
)
from codeagent.tui.parts.line_pane import Piece, wrapped_piece
from codeagent.tui.parts.marked_list import PickerRow
from codeagent.tui.session_client import SessionClient
from codeagent.tui.transcript.blocks import Block, PromptBlock
from codeagent.tui.transcript.spelling import counted

_CUT = "…"
_LABEL = 60
_SHOWN = 40
"""Characters of a prompt or batch that a line about it shows."""
_WHY = 120
"""Characters shown of the reason why nothing was restored."""
_NOTHING = "no file has changed since; nothing was restored"


def point_rows(points: Sequence[Point]) -> list[PickerRow]:
    """Return rows for prompts, with the batches of their runs below them, and the present at the
    end."""
    rows = [_point_row(point) for point in points if point.cause in ("prompt", "batch")]
    return [*rows, PickerRow(CURRENT, "(current)")]


def way_rows(point: Point, changes: Changes, prompts: int) -> list[PickerRow]:
    """Return rows for what can go back to that point; the conversation would lose so many
    prompts."""
    count = len(changes.files)
    edited = sum(file.edited for file in changes.files)
    files = counted(count, "file") + (f", {edited} of them edited by you" if edited else "")
    talk = f"{counted(prompts, 'prompt')} and what followed"
    # Only at a prompt is the conversation at a point where the model would be asked.
    can_talk = point.cause == "prompt"
    rows = (
        [PickerRow("both", "files and conversation", f"{files}; {talk}", warn=bool(edited))]
        if can_talk
        else []
    )
    rows += [PickerRow("files", "files only", files, warn=bool(edited))]
    rows = rows if count else []
    return [*rows, PickerRow("conversation", "conversation only", talk)] if can_talk else rows


def prompts_since(points: Sequence[Point], point: Point) -> int:
    """Count the prompts at that point and after it."""
    return sum(other.cause == "prompt" for other in points[points.index(point) :])


def prompt_said(blocks: Sequence[Block], points: Sequence[Point], point: Point) -> str:
    """Return the prompt of a point as it was typed, if the conversation still shows it; else its
    one line."""
    later = points[points.index(point) + 1 :]
    same = sum(other.cause == "prompt" and other.label == point.label for other in later)
    found = [
        block.text
        for block in reversed(blocks)
        if isinstance(block, PromptBlock) and _begins(block.text, point.label)
    ]
    return found[same] if same < len(found) else point.label


def _point_row(point: Point) -> PickerRow:
    when = time.strftime("%H:%M", time.localtime(point.at))
    if point.cause == "prompt":
        return PickerRow(point.id, one_line(point.label, _LABEL) or "(nothing said)", when)
    number = f"batch {point.batch}" if point.batch else "batch"
    return PickerRow(point.id, f"└ {number}: {one_line(point.label, _LABEL)}", when)


def _begins(text: str, label: str) -> bool:
    """Whether the label is the text in one line, cut or not."""
    flat = " ".join(text.split())
    cut = label.removesuffix(_CUT)
    return flat.startswith(cut) if cut != label else flat == label


async def undo(chat: ChatScreen, argument: str) -> None:
    """Handle `/undo [batches]`: asks if the user's own edits would be lost. Raises
    CodeagentError."""
    client = await chat.outbox.ready()
    batches = int(argument or 1) if (argument or "1").isdecimal() else 0
    if not batches:
        chat.tell(f"/undo takes a number of batches, not '{one_line(argument, 20)}'")
        return
    point = await client.rewind.undo_target(batches)
    changes = await client.rewind.changes(point.id)
    if not changes.files:
        chat.tell(_nothing(changes))
        return
    title = "Undo the last batch" if batches == 1 else f"Undo the last {batches} batches"
    go, paths = await _asked(
        chat, client.rewind, point, changes, title=title, verb="undo it", always=batches > 1
    )
    if go:
        changed = await _restored(
            client, Restore(point.id, "undo", paths=paths, seen=changes.present)
        )
        chat.tell(f"undone: {_named(changed)} (/redo to restore){_unseen(changes)}")


async def redo(chat: ChatScreen, argument: str) -> None:
    """Handle `/redo`, which asks as `/undo` does. Raises CodeagentError."""
    client = await chat.outbox.ready()
    point = await client.rewind.redo_target()
    changes = await client.rewind.changes(point.id)
    go, paths = await _asked(
        chat, client.rewind, point, changes, title="Restore what was undone", verb="restore it"
    )
    if go:
        changed = await _restored(
            client, Restore(point.id, "redo", paths=paths, seen=changes.present)
        )
        chat.tell(f"restored: {_named(changed) if changed else 'the conversation'}")


async def rewind(chat: ChatScreen, argument: str) -> None:
    """Let the user choose a moment, and what goes back to it. Raises CodeagentError."""
    client = await chat.outbox.ready()
    points = client.rewind.points()
    if not points:
        chat.tell("no earlier moment to go back to yet")
        return
    while True:
        page = RewindPicker(point_rows(points), lambda key: _about(client.rewind, key))
        chosen = await chat.app.push_screen_wait(page)
        if chosen is None or chosen == CURRENT:
            return
        if await _gone_to(chat, client, next(point for point in points if point.id == chosen)):
            return


async def _gone_to(chat: ChatScreen, client: SessionClient, point: Point) -> bool:
    """Ask what should go back, and do it; False if the user wants to choose another moment."""
    changes = await client.rewind.changes(point.id)
    rows = way_rows(point, changes, prompts_since(client.rewind.points(), point))
    if not rows:
        chat.tell(_nothing(changes))
        return True
    title = f"Back to before: {one_line(point.label, _SHOWN)}"
    way = await chat.app.push_screen_wait(Picker(title, rows))
    if way is None:
        return False
    go, paths = True, None
    if way != "conversation":
        go, paths = await _asked(chat, client.rewind, point, changes, title=title, verb="goes back")
    if not go:
        return True
    talks = way != "files"
    said = prompt_said(chat.state.document.blocks, client.rewind.points(), point) if talks else ""
    act = Restore(
        point.id,
        "rewind",
        files=way != "conversation",
        conversation=talks,
        paths=paths,
        seen=changes.present,
    )
    changed = await _restored(client, act)
    chat.state.give_back(said)
    did = [_named(changed)] if changed else []
    did += ["the conversation"] if talks else []
    where = one_line(point.label, _SHOWN)
    chat.tell(f"back to before “{where}”: {' and '.join(did) or 'nothing'}; /redo returns")
    return True


async def _restored(client: SessionClient, act: Restore) -> Sequence[ChangedFile]:
    """Go back; returns the files that changed. Raises CheckpointError."""
    if (refused := await client.finish(act)) is not None:
        raise CheckpointError(refused.reason)
    return client.rewind.restored


async def _asked(
    chat: ChatScreen,
    past: Rewind,
    point: Point,
    changes: Changes,
    *,
    title: str,
    verb: str,
    always: bool = False,
) -> tuple[bool, Sequence[str] | None]:
    """Return whether to proceed, and with which files (None: all); asks if the user edited one, or
    if `always`."""
    if not always and not any(file.edited for file in changes.files):
        return True, None
    page = GoingBackPage(title, await file_rows(past, point.id, changes.files), changes, verb=verb)
    await chat.app.push_screen_wait(page)
    if not page.answer:
        chat.tell("nothing was changed")
    others = [file.path for file in changes.files if not file.edited]
    return bool(page.answer), others if page.answer == "not mine" else None


async def _about(past: Rewind, key: str) -> Sequence[Piece]:
    """Return what going back to a point would do, for the list."""
    if key == CURRENT:
        return nothing_changes()
    point = next(point for point in past.points() if point.id == key)
    try:
        changes = await past.changes(key)
        rows = await file_rows(past, key, changes.files)
    except CheckpointError as error:
        return (wrapped_piece(str(error), "error"),)
    lead = f"{counted(len(rows), 'file')} would change" if rows else "no file has changed since"
    prompts = prompts_since(past.points(), point)
    if point.cause == "prompt":
        lead += f"; {counted(prompts, 'prompt')} and what followed can be removed"
    return (wrapped_piece(lead, "strong"), *changes_pieces(rows, changes, diffs=False))


def _named(files: Sequence[ChangedFile]) -> str:
    return files[0].path if len(files) == 1 else counted(len(files), "file")


def _nothing(changes: Changes) -> str:
    return (
        f"nothing was restored: {one_line('; '.join(changes.refused), _WHY)}"
        if changes.refused
        else _NOTHING
    )


def _unseen(changes: Changes) -> str:
    return f"; not seen: {one_line(', '.join(changes.left_out), 60)}" if changes.left_out else ""
