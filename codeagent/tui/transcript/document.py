"""The conversation as blocks in order, with those that changed since they were last drawn."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from codeagent.core.dataclass import dataclass
from codeagent.tui.transcript.blocks import (
    ENDED,
    AnswerBlock,
    AnyBlock,
    Batch,
    Block,
    CallCard,
    CommandBlock,
    Ending,
    Greeting,
    Level,
    PromptBlock,
    Remark,
    Thoughts,
)

if TYPE_CHECKING:  # the first frame does not show a plan
    from codeagent.core.approval_events import PlannedCall
    from codeagent.core.messages import Attachment

BlockT = TypeVar("BlockT", bound=Block)
_EARLIER = "reading the earlier messages …"
_AT_A_TIME = 500
"""Recorded blocks that are inserted at once; readers have to estimate the height of each."""


@dataclass(frozen=True)
class BlockSplice:
    """Blocks `first` to `stop` were replaced by `count` others, the last of which correspond to the
    old ones."""

    first: int
    stop: int
    count: int

    @property
    def moved(self) -> int:
        """By how many places the blocks after them moved down."""
        return self.count - (self.stop - self.first)

    def place(self, index: int) -> int:
        """Return the new index of the block that was at `index`."""
        return index if index < self.first else max(self.first, index + self.moved)


class Document:
    """A list of blocks, which are added at the end or inserted by `replay`.

    `on_change` is called once per `take_changes`, however much changed; `on_splice` at once.
    Everything is in memory and cheap: a streamed piece costs an append, and readers decide when to
    draw.
    """

    def __init__(self) -> None:
        self.blocks: list[AnyBlock] = []
        self.on_change: Callable[[], None] = lambda: None
        self.on_splice: Callable[[BlockSplice], None] = lambda splice: None
        self.partial = False
        """Earlier blocks are still to come."""
        self._recorded = range(0)
        self._changed: set[int] = set()
        self._answer: AnswerBlock | None = None
        self._thoughts: Thoughts | None = None
        self._cards: dict[str, tuple[Batch | CommandBlock, CallCard]] = {}
        self._early: Batch | None = None
        """The calls of this turn that began before their batch was planned."""

    def take_changes(self) -> frozenset[int]:
        """Return the keys of the blocks that are new or changed since the last call."""
        changed = frozenset(self._changed)
        self._changed = set()
        return changed

    def show_end(self, end: "Document") -> None:
        """Show the end of a recorded conversation, until `replay` shows all of it; `end` is used
        up."""
        place = len(self.blocks)
        self._put(range(place, place), [Remark(place, text=_EARLIER), *end.blocks])
        self._cards |= end._cards
        self._recorded = range(place, len(self.blocks))
        self.partial = True

    def replay(self, recorded: "Document") -> Iterator[None]:
        """Show a recorded conversation, in place of its end if that is shown; `recorded` is used
        up.

        The newest blocks come first, in slices so that other tasks can run in between.
        """
        shown, blocks = self._recorded or range(len(self.blocks), len(self.blocks)), recorded.blocks
        above = range(shown.start, shown.start + self.partial)
        notice = self.blocks[above.start : above.stop]
        for new, old in zip(
            reversed(blocks), reversed(self.blocks[above.stop : shown.stop]), strict=False
        ):
            new.detail = old.detail
        rest = max(0, len(blocks) - max(_AT_A_TIME, len(shown)))
        self._recorded = range(0)
        self._cards = self._cards | recorded._cards
        self._put(shown, [*notice, *blocks[rest:]])
        while rest:
            yield
            first = max(0, rest - _AT_A_TIME)
            self._put(above, [*notice, *blocks[first:rest]])
            rest = first
        self.partial = False
        if notice:
            self._put(above, ())

    def forget_recorded(self) -> None:
        """Remove the end of a conversation that will not be continued, if one is shown."""
        for _ in self.replay(Document()) if self.partial else ():
            pass

    def greet(self, rows: Sequence[tuple[str, str]]) -> None:
        """Show the greeting of a new session; only before the first prompt."""
        if any(isinstance(block, PromptBlock) for block in self.blocks):
            return
        known = next((block for block in self.blocks if isinstance(block, Greeting)), None)
        greeting = known or self._add(Greeting(len(self.blocks)))
        if greeting.rows != tuple(rows):
            greeting.rows = tuple(rows)
            self.touch(greeting)

    def say(self, text: str, source: str = "prompt") -> None:
        """Add what the user said."""
        self.close()
        self._add(PromptBlock(len(self.blocks), text=text, source=source))

    def attach(self, attached: "tuple[Attachment, ...]") -> None:
        """Add what the user's last text brought with it."""
        said = next((each for each in reversed(self.blocks) if isinstance(each, PromptBlock)), None)
        if said is not None:
            said.attached += attached
            self.touch(said)

    def stream_text(self, piece: str, now: float | None = None) -> None:
        """Append to the answer, which ends the thoughts before it; `now` in seconds since the
        epoch."""
        self.close_thoughts(now)
        self._drop_stale()
        if self._answer is None:
            self._answer = self._add_above_calls(AnswerBlock(len(self.blocks)))
        self._answer.pieces.append(piece)
        self.touch(self._answer)

    def stream_thoughts(self, piece: str, now: float) -> None:
        """Append to the thoughts; `now` in seconds since the epoch."""
        self._drop_stale()
        if self._thoughts is None:
            self._thoughts = self._add_above_calls(Thoughts(len(self.blocks), began=now))
        self._thoughts.pieces.append(piece)
        self.touch(self._thoughts)

    def finish_answer(self, text: str, *, cut: bool = False) -> None:
        """End the answer with its whole text, which replaces what was streamed if they differ."""
        if text.strip() and self._answer is None:
            self._answer = self._add_above_calls(AnswerBlock(len(self.blocks)))
        if self._answer is not None:
            if text.strip() and self._answer.text != text:
                self._answer.pieces.replace(text)
            self._answer.cut = cut
            self._answer.stale = self._answer.stale and not text.strip()
        self.close()

    def break_off_answer(self) -> None:
        """Mark what was shown of an answer that is requested again; it stays until something else
        replaces it."""
        self.close_thoughts(None)
        self._finish_early()
        if self._answer is not None:
            self._answer.stale = True
            self.touch(self._answer)

    def drop_answer(self) -> None:
        """Clear what was shown of an answer that another model will give."""
        self.break_off_answer()
        self.close()

    def close_thoughts(self, now: float | None) -> None:
        """End the open thoughts; `now` is None if the time is unknown."""
        if self._thoughts is not None:
            self._thoughts.open = False
            self._thoughts.ended = now
            self.touch(self._thoughts)
            self._thoughts = None

    def close(self) -> None:
        """End what is still open; the next piece begins a new block."""
        self.close_thoughts(None)
        if self._answer is not None:
            if self._answer.stale:
                self._answer.pieces.replace("")
            self._answer.open = self._answer.stale = False
            self.touch(self._answer)
            self._answer = None

    def plan(self, number: int, calls: "Sequence[PlannedCall]") -> None:
        """Add a batch, before it runs, or before the rest of it does: its first calls may have
        begun."""
        self.close()
        batch = self._early_batch()
        begun = () if batch is None else {card.call_id for card in batch.cards}
        if batch is None or all(call.call_id not in begun for call in calls):
            batch = self._add(Batch(len(self.blocks)))
        batch.number = number
        self._early = None
        for call in calls:
            if call.call_id not in begun:
                self._place(
                    batch,
                    CallCard(
                        call.call_id, call.name, call.target, asks=call.permission == "prompt"
                    ),
                )
        self.touch(batch)

    def begin_turn(self) -> None:
        """Add what comes below all that is there, even if the plan of a batch was lost."""
        self._early = None

    def begin_call(self, call_id: str, name: str) -> CallCard:
        """Return the card of a call that begins; one that was not planned is the first of a batch,
        or follows it."""
        if call_id not in self._cards:
            self._early = self._early_batch() or self._add(Batch(len(self.blocks)))
            self._place(self._early, CallCard(call_id, name, ""))
        return self._cards[call_id][1]

    def card(self, call_id: str, name: str, target: str = "") -> CallCard:
        """Return the card of a call; a call that was not planned gets a batch of its own."""
        if call_id not in self._cards:
            batch = self._last_batch() or self._add(Batch(len(self.blocks)))
            self._place(batch, CallCard(call_id, name, target))
        return self._cards[call_id][1]

    def find_card(self, call_id: str) -> CallCard | None:
        """Return the card of a call, or None."""
        found = self._cards.get(call_id)
        return None if found is None else found[1]

    def running_calls(self) -> tuple[CallCard, ...]:
        """Return the calls that the agent waits for, the earliest first."""
        cards = (
            card
            for block, card in self._cards.values()
            if isinstance(block, Batch) and card.state == "running"
        )
        return tuple(sorted(cards, key=lambda card: card.began or 0.0))

    def running_child(self, name: str) -> str | None:
        """Return the id of the running call with that child agent, or with that id; None if there
        is none."""
        named = (
            (card.call_id, card.child.name)
            for _, card in self._cards.values()
            if card.child is not None and card.state not in ENDED
        )
        return next((call_id for call_id, child in named if name in (call_id, child)), None)

    def running_call_of(self, child: str, tool: str) -> str | None:
        """Return the id of the first call of this tool that the child of this name waits for; None
        if there is none."""
        views = (
            card.child
            for _, card in self._cards.values()
            if card.child is not None and card.child.name == child
        )
        batches = (block for view in views for block in view.blocks if isinstance(block, Batch))
        cards = (card for batch in batches for card in batch.cards)
        return next(
            (card.call_id for card in cards if card.name == tool and card.state == "running"), None
        )

    def touch_card(self, call_id: str) -> None:
        """Mark a card as changed."""
        self.touch(self._cards[call_id][0])

    def finish_batch(self, number: int, duration_ms: int) -> None:
        batch = self._last_batch()
        if batch is not None and batch.number == number:
            batch.finished = True
            batch.duration_ms = duration_ms
            self.touch(batch)

    def run_command(self, call_id: str, command: str, *, shared: bool) -> None:
        """Add a shell command that the user runs."""
        self.close()
        block = CommandBlock(
            len(self.blocks), card=CallCard(call_id, "shell", command), shared=shared
        )
        self._cards[call_id] = (block, block.card)
        self._add(block)

    def running_commands(self) -> tuple[str, ...]:
        """Return the call ids of the user's own shell commands that are still running."""
        blocks = (block for block, _ in self._cards.values() if isinstance(block, CommandBlock))
        return tuple(block.card.call_id for block in blocks if block.card.state not in ENDED)

    def remark(self, text: str, level: Level = "info") -> None:
        self._add(Remark(len(self.blocks), text=text, level=level))

    def remark_above(self, text: str, now: float) -> None:
        """Add a provider's remark above the answer being written, which it is about; this ends thoughts."""
        self.close_thoughts(now)
        if self._answer is None:
            self.remark(text, "provider")
            return
        place = self._answer.key
        remark = Remark(place, text=text, level="provider")
        self._put(range(place, place), [remark])
        self.touch(remark)

    def end(self, reason: str, text: str, lines: Sequence[str]) -> None:
        self.close()
        self._finish_early()
        self._add(Ending(len(self.blocks), reason=reason, text=text, lines=tuple(lines)))

    def last_answer(self) -> str:
        """Return the Markdown of the newest answer; empty if there is no answer yet."""
        answers = (block.text for block in reversed(self.blocks) if isinstance(block, AnswerBlock))
        return next((text for text in answers if text.strip()), "")

    def _drop_stale(self) -> None:
        if self._answer is not None and self._answer.stale:
            self.close()

    def _early_batch(self) -> Batch | None:
        """Return the batch of the calls that began before it was planned, if there is one."""
        batch = self._last_batch()
        return None if batch is not self._early or (batch and batch.finished) else batch

    def _finish_early(self) -> None:
        """End that batch: the answer that asked for its calls was discarded."""
        if (batch := self._early_batch()) is not None:
            batch.finished = True
            self.touch(batch)

    def _last_batch(self) -> Batch | None:
        found = next(
            (block for block in reversed(self.blocks) if isinstance(block, Batch | PromptBlock)),
            None,
        )
        return found if isinstance(found, Batch) else None

    def _place(self, batch: Batch, card: CallCard) -> None:
        batch.cards.append(card)
        self._cards[card.call_id] = (batch, card)

    def _add(self, block: BlockT) -> BlockT:
        self.blocks.append(block)  # type: ignore[arg-type]  # every subclass of Block is one of AnyBlock
        self.touch(block)
        return block

    def _add_above_calls(self, block: BlockT) -> BlockT:
        """Add a part of an answer above those of its calls that began before it was complete."""
        if (batch := self._early_batch()) is None:
            return self._add(block)
        self._put(range(batch.key, batch.key), [block])  # type: ignore[list-item]  # as in `_add`
        self.touch(block)
        return block

    def _put(self, places: range, blocks: Sequence[AnyBlock]) -> None:
        """Replace the blocks at these indices."""
        splice = BlockSplice(places.start, places.stop, len(blocks))
        self.blocks[places.start : places.stop] = blocks
        for key in range(places.start, len(self.blocks)):
            self.blocks[key].key = key
        self._changed = {splice.place(key) for key in self._changed if key not in places}
        self.on_splice(splice)

    def touch(self, block: Block) -> None:
        """Mark a block as changed, even if only its detail changed."""
        block.version += 1
        first = not self._changed
        self._changed.add(block.key)
        if first:
            self.on_change()
