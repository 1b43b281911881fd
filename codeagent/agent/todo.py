"""The agent's to-do list: each change is logged, and going back in the conversation takes the list
along."""

from codeagent.agent.emitter import Emitter
from codeagent.core.events import CheckpointCreated
from codeagent.core.history import TodoTimeline
from codeagent.core.memory import TodoChanged, TodoItem


class Todo:
    """The to-do list of one agent (the TodoList of `core.memory`). Made before its tool, and empty
    until connected."""

    def __init__(self) -> None:
        self._timeline = TodoTimeline()

    def connect(self, emitter: Emitter, timeline: TodoTimeline) -> None:
        """`timeline` is what the session's log holds of the list so far."""
        self._emitter = emitter
        self._timeline = timeline
        emitter.observe(self._see, TodoChanged)
        emitter.observe(self._see, CheckpointCreated)

    @property
    def items(self) -> tuple[TodoItem, ...]:
        return self._timeline.items

    def change(self, items: tuple[TodoItem, ...]) -> None:
        if items != self.items:
            self._emitter.emit(TodoChanged(items=items))

    def go_back(self, checkpoint_id: str) -> None:
        """Make the list what it was at that checkpoint."""
        self.change(self._timeline.at(checkpoint_id))

    def _see(self, event: TodoChanged | CheckpointCreated) -> None:
        if event.agent == self._emitter.agent:
            self._timeline.add(event)
