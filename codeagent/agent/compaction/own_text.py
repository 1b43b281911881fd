"""What the user is told if their own text fills the window, and how it is sent as a file after that."""

from collections.abc import Callable, Sequence

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
_SHOWN = 0.25
"""The share of the room that the beginning of one moved text may fill: a small window gets a short one."""
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
    text = (
        f"your own text fills the window: about {gauge.tokens(length_of(own)):,} tokens, most of it in “{words}” "
        f"(about {gauge.tokens(characters(longest)):,}), {room}; nothing was cut. Your next prompt sends it as a file "
        "that the agent reads; /rewind takes it back; /model with a larger window sends it as it is"
    )
    return Notice(level="error", code=OWN_TEXT_FILLS, text=text)


def as_files(
    request: ModelRequest, cause: CompactionCause, room: int, save: Callable[[str], str]
) -> ContextCompacted | None:
    """Return the event that makes files of the user's longest texts, not yet measured; None if there are none."""
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


def _moved_texts(messages: Sequence[Message], room: int, save: Callable[[str], str]) -> tuple[MovedText, ...]:
    """Return the user's longest texts as files, until the others leave half of the room free.

    `save` keeps a text and returns the handle by which `output_read` finds it.
    """
    left = length_of(filter(is_kept, messages))
    moved: list[MovedText] = []
    places = [at for at, message in enumerate(messages) if is_kept(message) and characters(message) > LARGE]
    for at in sorted(places, key=lambda at: characters(messages[at]), reverse=True):
        message = messages[at]
        if left <= room * _ENOUGH or not isinstance(message, UserMessage):
            break
        text = text_of(message.content)
        kept = preview(text, save(text), unseen=room * _SHOWN >= PREVIEW_UNSEEN)
        moved.append(MovedText(place=len(messages) - at, length=characters(message), text=kept))
        left -= characters(message) - len(kept)
    return tuple(moved)
