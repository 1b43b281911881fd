"""How many answers in a row the model asked for the very same call (FEATURES F32)."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from codeagent.core.messages import ToolCall

TOO_OFTEN = 3
"""The same call in so many answers in a row is asked about, or refused where nobody can be asked."""


class Repeats:
    """Counts answers, not calls: an answer that asks for the same thing twice is not stuck for that.

    Looking at a job again does not count as a repetition: time has passed.
    """

    def __init__(self, repeatable: Callable[[ToolCall], bool]) -> None:
        """`repeatable`: the call may give another result each time."""
        self._repeatable = repeatable
        self._rows: dict[tuple[str, str], int] = {}

    def note(self, calls: Sequence[ToolCall]) -> dict[str, int]:
        """For each call of an answer, by its id, the length of the row that ends with it, from 1."""
        keys = {call.id: (call.name, _canonical(call.arguments)) for call in calls if not self._repeatable(call)}
        self._rows = {key: self._rows.get(key, 0) + 1 for key in set(keys.values())}
        return {call.id: self._rows[keys[call.id]] if call.id in keys else 1 for call in calls}


def _canonical(arguments: str) -> str:
    """One text for every spelling of the same arguments."""
    try:
        decoded: Any = json.loads(arguments)
        return json.dumps(decoded, sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
