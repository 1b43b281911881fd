"""The conversation as the screen keeps it: blocks in order, and which of them changed since they were last drawn."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

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

if TYPE_CHECKING:  # the first frame shows no plan
    from codeagent.core.approval_events import PlannedCall

BlockT = TypeVar("BlockT", bound=Block)


class Document:
    """Blocks are only added at the end. `on_change` is called once per `take_changes`, however much changed.

    Everything is in memory and cheap: a streamed piece costs an append, a reader decides when to draw.
    """

    def __init__(self) -> None:
        self.blocks: list[AnyBlock] = []
        self.on_change: Callable[[], None] = lambda: None
        self._changed: set[int] = set()
        self._answer: AnswerBlock | None = None
        self._thoughts: Thoughts | None = None
        self._cards: dict[str, tuple[Batch | CommandBlock, CallCard]] = {}

    def take_changes(self) -> frozenset[int]:
        """Keys of the blocks that are new or changed since the last time."""
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def greet(self, rows: Sequence[tuple[str, str]]) -> None:
        """Show what a new session begins with; only before the first prompt."""
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

    def stream_text(self, piece: str, now: float | None = None) -> None:
        """Append to the answer; this ends the thoughts before it, at `now` in seconds since the epoch."""
        self.close_thoughts(now)
        if self._answer is None:
            self._answer = self._add(AnswerBlock(len(self.blocks)))
        self._answer.pieces.append(piece)
        self.touch(self._answer)

    def stream_thoughts(self, piece: str, now: float) -> None:
        """Append to the thoughts; `now` in seconds since the epoch."""
        if self._thoughts is None:
            self._thoughts = self._add(Thoughts(len(self.blocks), began=now))
        self._thoughts.pieces.append(piece)
        self.touch(self._thoughts)

    def finish_answer(self, text: str, *, cut: bool = False) -> None:
        """End the answer with its whole text, which replaces what was streamed if they differ."""
        if text.strip() and self._answer is None:
            self._answer = self._add(AnswerBlock(len(self.blocks)))
        if self._answer is not None:
            if text.strip() and self._answer.text != text:
                self._answer.pieces.replace(text)
            self._answer.cut = cut
        self.close()

    def drop_answer(self) -> None:
        """Clear what was shown of an answer whose stream broke off and is requested again."""
        if self._answer is not None:
            self._answer.pieces.replace("")
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
            self._answer.open = False
            self.touch(self._answer)
            self._answer = None

    def plan(self, number: int, calls: "Sequence[PlannedCall]") -> None:
        """Add a batch, before it runs."""
        self.close()
        batch = self._add(Batch(len(self.blocks), number=number))
        for call in calls:
            self._place(batch, CallCard(call.call_id, call.name, call.target, asks=call.permission == "prompt"))
        self.touch(batch)

    def card(self, call_id: str, name: str, target: str = "") -> CallCard:
        """The card of a call; one that no plan announced gets a batch of its own."""
        if call_id not in self._cards:
            batch = self._last_batch() or self._add(Batch(len(self.blocks)))
            self._place(batch, CallCard(call_id, name, target))
        return self._cards[call_id][1]

    def find_card(self, call_id: str) -> CallCard | None:
        """The card of a call, or None."""
        found = self._cards.get(call_id)
        return None if found is None else found[1]

    def running_calls(self) -> tuple[CallCard, ...]:
        """The calls that the agent waits for, the earliest first."""
        cards = (card for block, card in self._cards.values() if isinstance(block, Batch) and card.state == "running")
        return tuple(sorted(cards, key=lambda card: card.began or 0.0))

    def touch_card(self, call_id: str) -> None:
        """Mark a card as changed."""
        self.touch(self._cards[call_id][0])

    def finish_batch(self, number: int, duration_ms: int) -> None:
        batch = self._last_batch()
        if batch is not None and batch.number == number:
            batch.finished, batch.duration_ms = True, duration_ms
            self.touch(batch)

    def run_command(self, call_id: str, command: str, *, shared: bool) -> None:
        """Add a shell command that the user runs."""
        self.close()
        block = CommandBlock(len(self.blocks), card=CallCard(call_id, "shell", command), shared=shared)
        self._cards[call_id] = (block, block.card)
        self._add(block)

    def running_commands(self) -> tuple[str, ...]:
        """Call ids of the user's own shell commands that still run."""
        blocks = (block for block, _ in self._cards.values() if isinstance(block, CommandBlock))
        return tuple(block.card.call_id for block in blocks if block.card.state not in ENDED)

    def remark(self, text: str, level: Level = "info") -> None:
        self._add(Remark(len(self.blocks), text=text, level=level))

    def end(self, reason: str, text: str, lines: Sequence[str]) -> None:
        self.close()
        self._add(Ending(len(self.blocks), reason=reason, text=text, lines=tuple(lines)))

    def last_answer(self) -> str:
        """The Markdown of the newest answer; empty if there is no answer yet."""
        answers = (block.text for block in reversed(self.blocks) if isinstance(block, AnswerBlock))
        return next((text for text in answers if text.strip()), "")

    def _last_batch(self) -> Batch | None:
        found = next((block for block in reversed(self.blocks) if isinstance(block, Batch | PromptBlock)), None)
        return found if isinstance(found, Batch) else None

    def _place(self, batch: Batch, card: CallCard) -> None:
        batch.cards.append(card)
        self._cards[card.call_id] = (batch, card)

    def _add(self, block: BlockT) -> BlockT:
        self.blocks.append(block)  # type: ignore[arg-type]  # every subclass of Block is one of AnyBlock
        self.touch(block)
        return block

    def touch(self, block: Block) -> None:
        """Mark a block as changed, even if only its detail changed."""
        block.version += 1
        first = not self._changed
        self._changed.add(block.key)
        if first:
            self.on_change()
