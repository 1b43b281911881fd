"""How many answers in a row the model asked for the very same call (FEATURES F32)."""

import json
from collections.abc import Iterable
from typing import Any

from codeagent.core.job_note import JOB_WAIT
from codeagent.core.messages import ToolCall

TOO_OFTEN = 3
"""The same call in so many answers in a row is asked about, or refused where nobody can be asked."""


class Repeats:
    """Counts answers, not calls: an answer that asks for the same thing twice is not stuck for that.

    To wait for a job again is no repetition: time has passed.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], int] = {}

    def note(self, calls: Iterable[ToolCall]) -> dict[str, int]:
        """For each call of an answer, by its id, the length of the row that ends with it, from 1."""
        keys = {call.id: (call.name, _canonical(call.arguments)) for call in calls}
        self._rows = {key: self._rows.get(key, 0) + 1 for key in set(keys.values())}
        self._rows |= {key: 1 for key in self._rows if key[0] == JOB_WAIT}
        return {call_id: self._rows[key] for call_id, key in keys.items()}


def _canonical(arguments: str) -> str:
    """One text for every spelling of the same arguments."""
    try:
        decoded: Any = json.loads(arguments)
        return json.dumps(decoded, sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
