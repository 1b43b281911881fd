"""Plans a compaction: messages in, plan out. Nothing here asks a model, reads a file or changes a
conversation."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from codeagent.agent.limits import RunMeter
from codeagent.core.compaction import (
    PREVIEW,
    PREVIEW_UNSEEN,
    TOKENS_PER_CHARACTER,
    ContextCompacted,
    characters,
    compacted,
    is_kept,
)
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError
from codeagent.core.messages import AssistantMessage, Message, TextPart, ToolMessage, Usage, text_of
from codeagent.core.model import Model, ModelRequest
from codeagent.core.sanitize import on_one_line, quoted
from codeagent.core.tool import ToolDefinition

LARGE = 2_000
"""Characters from which an old result is pruned."""
_TAIL_SHARE = 0.25
"""The share of the room, or of the present conversation, that stays unchanged at its end."""
_ENOUGH = 0.5
"""The share of the room to which pruning has to get, so that nothing is summarized."""
_GROWN = 0.05
"""The share of the window that must be added after an attempt before the next one is made
unasked."""
_HELPED = 0.1
"""The share of the window that a compaction has to free to be of any help."""
_LONGEST_PAUSE = 5
"""How often the pause before the next paid attempt doubles, if one after the other is of no
help."""
_TO_READ_SHARE = 0.85
"""The share of the room that is sent to be summarized."""
_SHORTENED = (LARGE, 500, 100)
"""Characters to which results are shortened, step by step, until the text to summarize fits."""
_SEARCHED = "[… what the provider's own tools brought is left out here …]"
_RATIOS = (0.1, 2.0)


@dataclass(frozen=True)
class Asking:
    """What a compaction works with: the request that would be sent now, the model it goes to, and
    its meter."""

    request: ModelRequest
    model: Model
    meter: RunMeter
    attended: bool
    """Whether the user reads this conversation; they do not read a child's."""


class NotCompacted(CodeagentError):
    """Why nothing was replaced, as a phrase."""


class NoSummary(NotCompacted):
    """Why the model wrote no summary that can be used; there is room to be made without one."""


@dataclass(frozen=True)
class CompactionPlan:
    """What of a conversation stays."""

    tail: int
    """Messages at the end that stay; all of them if pruning is enough."""
    pruned: tuple[ToolMessage, ...]
    """The results at the end of which only the beginning is kept."""
    unseen: bool = False
    """The pruned results are the newest: the model has not read them yet."""


class Attempts:
    """Decides when a conversation is compacted unasked, and whether a summary is paid for. Sizes
    are in tokens."""

    def __init__(self) -> None:
        self._rested_at = 0
        """The size after the last attempt; a smaller conversation was taken back."""
        self._quiet_until = 0
        """The size below which nothing is tried."""
        self._unpaid_until = 0
        """The size below which no summary is paid for: it is larger after an attempt that was of no
        help."""
        self._helpless = 0
        """How many attempts in a row were of no help."""
        self._fits = True
        """Whether a request was answered since the last one that was refused as too long."""

    def answered(self) -> None:
        """Take note that a request was answered."""
        self._fits = True

    def refused(self) -> None:
        """Take note that a request was refused as too long."""
        self._helpless += not self._fits
        self._fits = False

    def is_due(self, size: int, window: int, share: float) -> bool:
        """Whether to compact now: from this share of the window on, and if it has grown since the
        last attempt."""
        if size < self._rested_at:
            self._quiet_until = self._unpaid_until = 0
        quiet = self._quiet_until if size >= window else self._unpaid_until
        return size >= max(window * share, quiet)

    def pays(self, size: int) -> bool:
        """Whether a summary is worth its price."""
        return not self._helpless or size >= self._unpaid_until

    def made(self, before: int, after: int, window: int, *, summarized: bool) -> None:
        """Try nothing until the request has grown, and pay for nothing until it has grown well
        beyond."""
        helped = summarized and before - after >= window * _HELPED and self._fits
        self._helpless = 0 if helped else self._helpless + 1
        pause = 2 ** min(self._helpless, _LONGEST_PAUSE) if self._helpless else 1
        self._rested_at = after
        self._quiet_until = after + round(window * _GROWN)
        self._unpaid_until = after + round(window * _GROWN * pause)


class TokenGauge:
    """Estimates the tokens of a request from its characters, and learns from what the provider
    counted."""

    def __init__(self) -> None:
        self._ratio = TOKENS_PER_CHARACTER

    def learn(self, sent: int, usage: Usage) -> None:
        """Learn from an answered request of this many characters; one that was not counted teaches
        nothing."""
        if usage.input_tokens > 0 and sent > 0:
            self._ratio = min(max(usage.input_tokens / sent, _RATIOS[0]), _RATIOS[1])

    def tokens(self, length: int) -> int:
        return round(length * self._ratio)

    def characters(self, tokens: float) -> int:
        return round(tokens / self._ratio)


class GrowingLength:
    """Counts the characters of a growing conversation without counting old messages again."""

    def __init__(self) -> None:
        self._messages: Sequence[Message] = ()
        self._count = self._length = self._prompt = 0
        self._tools: tuple[ToolDefinition, ...] | None = None

    def of(self, messages: list[Message], request: ModelRequest) -> int:
        """Return the characters of a request with these messages, a list that is only ever appended
        to."""
        if messages is not self._messages:
            self._messages = messages
            self._count = 0
            self._length = 0
        self._length += length_of(messages[self._count :])
        self._count = len(messages)
        if request.tools != self._tools:  # mostly the same tools, in a new tuple
            self._tools = request.tools
            self._prompt = _tool_characters(request)
        return len(request.system) + self._prompt + self._length


def request_characters(request: ModelRequest) -> int:
    """Return how many characters a request sends in all."""
    return len(request.system) + _tool_characters(request) + length_of(request.messages)


def _tool_characters(request: ModelRequest) -> int:
    return sum(
        len(tool.name) + len(tool.description) + len(str(tool.parameters)) for tool in request.tools
    )


def length_of(messages: Iterable[Message]) -> int:
    return sum(map(characters, messages))


def make_plan(messages: Sequence[Message], room: int, *, summarize: bool) -> CompactionPlan | None:
    """Return what stays of the messages; None if nothing can go.

    `room`: how many characters the messages may fill. `summarize`: even if pruning alone would be
    enough.
    """
    start = _start_of_tail(messages, round(min(room, length_of(messages)) * _TAIL_SHARE))
    old = [message for message in messages[:start] if _is_large(message, LARGE)]
    gained = sum(characters(message) - PREVIEW for message in old)
    if not summarize and old and length_of(messages) - gained <= room * _ENOUGH:
        return CompactionPlan(
            len(messages), tuple(message for message in old if isinstance(message, ToolMessage))
        )
    if all(is_kept(message) for message in messages[:start]):
        return _only_the_newest(messages, start, room)
    return CompactionPlan(len(messages) - start, _too_large(messages[start:], room), unseen=True)


def _only_the_newest(messages: Sequence[Message], start: int, room: int) -> CompactionPlan | None:
    """Prune results that the model has not read yet: there is nothing else."""
    pruned = _too_large(messages[start:], room)
    return CompactionPlan(len(messages), pruned, unseen=True) if pruned else None


def make_cut(messages: Sequence[Message], room: int) -> CompactionPlan | None:
    """Return what stays without a summary; None if there are only the user's own messages to leave
    out.

    Old results are pruned first; if that is not enough, the oldest turns go, until half of the room
    is free. The newest turn goes only if nothing else makes the rest fit.
    """
    newest = _start_of_tail(messages, 0)
    old = {
        at: one
        for at, one in enumerate(messages[:newest])
        if isinstance(one, ToolMessage) and _is_large(one, LARGE)
    }
    left = length_of(messages) - sum(characters(one) - PREVIEW for one in old.values())
    if old and left <= room * _ENOUGH:
        return CompactionPlan(len(messages), tuple(old.values()))
    for start in range(1, newest):
        before = messages[start - 1]
        if not is_kept(before):
            left -= PREVIEW if start - 1 in old else characters(before)
        if left <= room * _ENOUGH and not isinstance(messages[start], ToolMessage):
            return CompactionPlan(
                len(messages) - start, tuple(one for at, one in old.items() if at >= start)
            )
    return _newest_turn(messages, newest, room)


def _newest_turn(messages: Sequence[Message], newest: int, room: int) -> CompactionPlan | None:
    """Keep nothing but the newest turn, of its results what fits, and not even that if only the
    user's words fit."""
    head, tail = messages[:newest], messages[newest:]
    said = length_of(filter(is_kept, head))
    pruned = _too_large(tail, max(1, room - said))
    gained = sum(characters(one) - PREVIEW_UNSEEN for one in pruned)
    if said + length_of(tail) - gained > room > length_of(filter(is_kept, messages)):
        return CompactionPlan(0, ())
    if not pruned and all(map(is_kept, head)):
        return None
    return CompactionPlan(len(tail), pruned, unseen=True)


def _start_of_tail(messages: Sequence[Message], room: int) -> int:
    """Return where the kept part begins: never between a call and its result, nor after what the
    model has not read."""
    newest = next(
        (at for at in reversed(range(len(messages))) if isinstance(messages[at], AssistantMessage)),
        0,
    )
    start = len(messages) if newest == len(messages) - 1 else newest
    length = length_of(messages[start:])
    for at in reversed(range(start)):
        length += characters(messages[at])
        if length > room:
            break
        if not isinstance(messages[at], ToolMessage):
            start = at
    return start


def _too_large(tail: Sequence[Message], room: int) -> tuple[ToolMessage, ...]:
    """Return the results to prune so that the tail fills at most `_ENOUGH` of the room, the largest
    first."""
    excess = length_of(tail) - room * _ENOUGH
    found: list[ToolMessage] = []
    for message in sorted(tail, key=characters, reverse=True):
        if excess <= 0:
            break
        if isinstance(message, ToolMessage) and _is_large(message, LARGE):
            found.append(message)
            excess -= characters(message) - PREVIEW_UNSEEN
    return tuple(found)


def _is_large(message: Message, limit: int) -> bool:
    return isinstance(message, ToolMessage) and characters(message) > limit


def to_summarize(messages: Sequence[Message], tail: int, room: int) -> tuple[Message, ...] | None:
    """Return the messages that the model has to summarize; None if they do not fit even when
    shortened."""
    head = tuple(messages[: len(messages) - tail])
    most = room * _TO_READ_SHARE
    for limit in _SHORTENED:
        if length_of(head) <= most:
            break
        head = tuple(_shortened(message, limit) for message in head)
    return head if length_of(head) <= most else None


def measured(
    event: ContextCompacted, request: ModelRequest, gauge: TokenGauge
) -> ContextCompacted | None:
    """Return the event, with what it replaces and gains; None if the conversation would not become
    shorter."""
    after = replace(request, messages=tuple(compacted(request.messages, event)))
    if length_of(after.messages) >= length_of(request.messages):
        return None
    added = 1 + len(event.pins or ()) if event.note else 0
    replaced = len(request.messages) - (len(after.messages) - added)
    before, now = (gauge.tokens(request_characters(each)) for each in (request, after))
    return replace(event, replaced=replaced, before_tokens=before, after_tokens=now)


def _shortened(message: Message, limit: int) -> Message:
    if characters(message) <= limit:
        return message
    if isinstance(message, AssistantMessage):
        return replace(message, provider_content=None, text=message.text or _SEARCHED)
    if not isinstance(message, ToolMessage):
        return message
    text = text_of(message.content)
    return replace(message, content=(TextPart(text=f"{text[:limit]}\n[… shortened here …]"),))


_COMPACTED = (
    "(The conversation so far was compacted: the user's own messages are above, word for word, and what they pinned, "
    "each in a message of its own. Your answers, calls and results up to here are replaced by this note, in which no "
    "line is the user's. You no longer have what you read then: read a file again before you change it."
)

_NO_SUMMARY = "No summary of it could be written: read again what you need."


@dataclass(frozen=True)
class SummaryContext:
    """What stays beside the user's own messages and pins, one line for each."""

    todo: tuple[str, ...] = ()
    """The items of the to-do list, with their states."""
    questions: tuple[str, ...] = ()
    """The model's, that nobody answered."""
    files: tuple[str, ...] = ()
    """Those read or changed, with their state."""


def note_of(kept: SummaryContext, summary: str) -> str:
    """Return the message that replaces what is left out; whatever is not codeagent's own sentence
    is quoted.

    `summary` is empty if none could be written.
    """
    named = (
        ("Your to-do list:", kept.todo),
        ("Your questions that nobody answered:", kept.questions),
        ("Files you read or changed:", kept.files),
    )
    lists = [
        "\n".join([title, *map(quoted, map(on_one_line, lines))]) for title, lines in named if lines
    ]
    said = (
        f"The summary that you wrote:\n{quoted(summary.strip())}\n)"
        if summary
        else f"{_NO_SUMMARY}\n)"
    )
    parts = [_COMPACTED, *lists, said]
    return "\n\n".join(parts)
