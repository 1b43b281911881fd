"""What the user is told if their own text fills the window, and how it is sent as a file after
that."""

from collections.abc import Callable, Collection, Iterator, Sequence

from codeagent.agent.compaction.plan import LARGE, TokenGauge, length_of, request_characters
from codeagent.core.compaction import (
    PREVIEW_UNSEEN,
    CompactionCause,
    ContextCompacted,
    MovedText,
    characters,
    is_kept,
    preview,
)
from codeagent.core.events import Notice
from codeagent.core.messages import Message, UserMessage, text_of
from codeagent.core.model import ModelRequest
from codeagent.core.notices import OWN_TEXT_FILLS
from codeagent.core.sanitize import one_line

_ENOUGH = 0.5
"""The share of the room that the user's own text may fill after it was moved."""
_STUB = 600
"""About how many characters are left of the messages that go into one file."""
_SHOWN = 0.25
"""The share of the room that the beginning of a moved text may fill; a small window gets a shorter
beginning."""
_WORDS = 60
"""Characters that are shown of a text, to say which one it is."""


def what_fills(request: ModelRequest, gauge: TokenGauge, window: int | None) -> Notice:
    """Return the notice about a conversation of which nothing but the user's own text could go."""
    held = length_of(request.messages)
    base = request_characters(request) - held
    room = f"the window has {window:,}" if window else "the model takes fewer"
    own = [message for message in request.messages if is_kept(message)]
    if not own or base > length_of(own):
        about = f"about {gauge.tokens(base):,} tokens, {room}; nothing was cut"
        text = f"the base prompt and {len(request.tools)} tools fill the window: {about}"
        text += ": choose a model with a larger window, or use fewer tools"
        return Notice(level="error", code="context.base_fills", text=text)
    longest = max(own, key=characters)
    words = one_line(text_of(longest.content), _WORDS) if isinstance(longest, UserMessage) else ""
    if characters(longest) > LARGE:
        where = f"most of it in “{words}” (about {gauge.tokens(characters(longest)):,})"
        moved = "it"
    else:
        where = f"in {len(own)} messages"
        moved = "the older ones"
    size = f"about {gauge.tokens(length_of(own)):,} tokens, {where}, {room}"
    text = (
        f"your own text fills the window: {size}; nothing was cut. Your next prompt sends {moved} as a file that the "
        "agent reads; /rewind takes it back; /model with a larger window sends it as it is"
    )
    return Notice(level="error", code=OWN_TEXT_FILLS, text=text)


def as_files(
    request: ModelRequest, cause: CompactionCause, room: int, save: Callable[[str], str]
) -> ContextCompacted | None:
    """Return the event that moves texts of the user to files, not yet measured; None if there is
    nothing to move."""
    if not (moved := _moved_texts(request.messages, room, save)):
        return None
    return ContextCompacted(
        cause=cause,
        tail=len(request.messages),
        note="",
        summary="",
        replaced=0,
        before_tokens=0,
        after_tokens=0,
        moved=moved,
    )


def _moved_texts(
    messages: Sequence[Message], room: int, save: Callable[[str], str]
) -> tuple[MovedText, ...]:
    """Move the user's longest texts to files, until the others leave half of the room free.

    If that is not enough, the older of the others follow. `save` keeps a text and returns the
    handle by which `output_read` finds it.
    """
    left = length_of(filter(is_kept, messages))
    moved: dict[int, MovedText] = {}
    places = [
        at
        for at, message in enumerate(messages)
        if is_kept(message) and characters(message) > LARGE
    ]
    for at in sorted(places, key=lambda at: characters(messages[at]), reverse=True):
        message = messages[at]
        if left <= room * _ENOUGH or not isinstance(message, UserMessage):
            break
        text = text_of(message.content)
        kept = preview(text, save(text), unseen=room * _SHOWN >= PREVIEW_UNSEEN)
        moved[at] = MovedText(place=len(messages) - at, length=characters(message), text=kept)
        left -= characters(message) - len(kept)
    left = length_of(messages) - sum(one.length - len(one.text) for one in moved.values())
    for first, ends in _older(messages, moved):
        if left <= room * _ENOUGH:
            break
        enough = (
            end for end in ends if left - length_of(messages[first:end]) + _STUB <= room * _ENOUGH
        )
        end = next(enough, ends[-1])
        if length_of(messages[first:end]) > _STUB:
            moved[first] = _as_one_file(messages, first, end, save)
            left -= moved[first].length - len(moved[first].text)
    return tuple(moved.values())


def _older(messages: Sequence[Message], moved: Collection[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield where messages of the user begin that may go into one file, and the places where that
    file may end.

    The newest of their messages, which the model has to answer, is never part of it; nor is a note
    of codeagent, or a text that is already a file.
    """
    newest = max((at for at, message in enumerate(messages) if is_kept(message)), default=0)
    first: int | None = None
    ends: list[int] = []
    for at in range(newest + 1):
        if not isinstance(messages[at], UserMessage):
            continue
        ends.append(at)
        alone = at in moved or at == newest or not is_kept(messages[at])
        if alone and first is not None:
            yield first, ends
        if alone or first is None:
            first = None if alone else at
            ends = []


def _as_one_file(
    messages: Sequence[Message], first: int, end: int, save: Callable[[str], str]
) -> MovedText:
    said = [message for message in messages[first:end] if isinstance(message, UserMessage)]
    text = "\n\n".join(text_of(message.content) for message in said)
    head = f"[{len(said)} messages of the user, moved to a file; the answers to them are left out:]"
    kept = f"{head}\n{preview(text, save(text), unseen=False)}"
    length = length_of(messages[first:end])
    return MovedText(place=len(messages) - first, length=length, text=kept, count=end - first)
