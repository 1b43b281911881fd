"""`/merge`: the files of a worktree that can be taken back, and the review of each."""

from collections.abc import Sequence
from pathlib import Path

from codeagent.core.errors import WorkspaceError
from codeagent.core.sanitize import one_line
from codeagent.extensions.worktrees.merging import MergeBack, MergeOffer, merge_of
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.hunk_review import HunkReview
from codeagent.tui.pages.picker import Picker
from codeagent.tui.parts.marked_list import PickerRow
from codeagent.tui.transcript.spelling import counted

_EVERY = "\0"
"""The key of the row that reviews every file, which cannot be a path."""
_CLASH = "both changed these lines: its hunks begin as left out"


async def merge(chat: ChatScreen, argument: str) -> None:
    """Handle `/merge`. Raises CheckpointError."""
    client = await chat.outbox.ready()
    taken: list[str] = []
    async with merge_of(client.launcher.workspace) as merge:
        while offers := await merge.offers():
            key = await chat.app.push_screen_wait(merge_picker(merge.origin, offers))
            if key is None:
                break
            chosen = [offer for offer in offers if key in (offer.path, _EVERY)]
            for at, offer in enumerate(chosen):
                if not await _review(chat, merge, offer, (at + 1, len(chosen)), taken):
                    break
    left = (
        f"{counted(len(offers), 'file')} left in the worktree"
        if offers
        else "nothing is left to merge"
    )
    if merge.left_out:
        left += f"; not compared: {one_line(', '.join(merge.left_out), 200)}"
    chat.tell(
        f"merged: {one_line(', '.join(dict.fromkeys(taken)), 100)}; {left}" if taken else left
    )


def merge_picker(origin: Path, offers: Sequence[MergeOffer]) -> Picker:
    """Return the panel that lists the files which can be taken into a folder."""
    return Picker(f"Merge into {one_line(str(origin), 60)}", _rows(offers))


def _rows(offers: Sequence[MergeOffer]) -> list[PickerRow]:
    rows = [
        PickerRow(offer.path, one_line(offer.path, 200), _about(offer), warn=offer.clashes)
        for offer in offers
    ]
    every = PickerRow(_EVERY, f"review all {len(offers)} files", "one after the other")
    return [every, *rows] if len(rows) > 1 else rows


def _about(offer: MergeOffer) -> str:
    return f"{offer.change.kind}; {_CLASH}" if offer.clashes else offer.change.kind


async def _review(
    chat: ChatScreen, merge: MergeBack, offer: MergeOffer, place: tuple[int, int], taken: list[str]
) -> bool:
    """Ask about one file, and take what was chosen; False if the user went back."""
    diff = offer.diff
    try:
        if diff is None:
            rows = [
                PickerRow("leave", "leave it in the worktree"),
                PickerRow("take", f"take it: {offer.change.kind} {offer.change.note}".rstrip()),
            ]
            answer = await chat.app.push_screen_wait(Picker(one_line(offer.path, 60), rows))
            if answer == "take" and await merge.take(offer):
                taken.append(offer.path)
            return answer is not None
        review = HunkReview(diff, *place)
        if offer.clashes:
            for at in range(review.count):
                review.sheet.reject(at)
        answers = await chat.app.push_screen_wait(review)
        if answers is not None and await merge.take(offer, answers):
            taken.append(offer.path)
        return answers is not None
    except WorkspaceError as error:
        said = f"{one_line(offer.path, 60)} was not merged: {error}"
        chat.state.document.remark(said, "error")
        return False
