"""The to-do list: the model's plan for work of several steps, which the user sees."""

from collections.abc import Sequence
from typing import Literal, Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.json_types import BaseEvent

TodoState = Literal["pending", "active", "done"]
MARKS: dict[TodoState, str] = {"pending": "[ ]", "active": "[>]", "done": "[x]"}
"""How an item begins where it is text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TodoItem:
    """One step of the plan."""

    text: str
    """One line."""
    state: TodoState = "pending"

    def __str__(self) -> str:
        return f"{MARKS[self.state]} {self.text}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TodoChanged(BaseEvent):
    """The list of the event's agent changed: the model wrote it, or the conversation went back to
    an earlier one."""

    type: Literal["todo.changed"] = "todo.changed"
    items: tuple[TodoItem, ...]
    """The whole list, in order."""


class TodoList(Protocol):
    """The to-do list of one agent."""

    @property
    def items(self) -> tuple[TodoItem, ...]:
        """The list as it is now."""

    def change(self, items: tuple[TodoItem, ...]) -> None:
        """Replace the whole list."""


def how_far(items: Sequence[TodoItem]) -> str:
    """Say how much of the list is done: `2 of 5 done`."""
    return f"{sum(item.state == 'done' for item in items)} of {len(items)} done"
