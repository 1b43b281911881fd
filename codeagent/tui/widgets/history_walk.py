"""Going through earlier prompts with Up and Down while what was typed is kept."""

from collections.abc import Sequence


class HistoryWalk:
    """Stands at the text being typed until `older` is called; changes made on the way are kept until it ends."""

    def __init__(self, entries: Sequence[str]) -> None:
        """`entries`: the oldest first."""
        self._entries = entries
        self._at = len(entries)
        self._changed: dict[int, str] = {}

    @property
    def at_typed(self) -> bool:
        """At the text being typed, not at an earlier one."""
        return self._at == len(self._entries)

    def older(self, current: str) -> str | None:
        """The text before; None at the oldest. `current` is what the composer shows now."""
        return self._go(self._at - 1, current)

    def newer(self, current: str) -> str | None:
        """The text after, at last what was being typed; None where that is shown already."""
        return self._go(self._at + 1, current)

    def _go(self, to: int, current: str) -> str | None:
        if not 0 <= to <= len(self._entries):
            return None
        self._changed[self._at] = current
        self._at = to
        return self._changed.get(to, "") if self.at_typed else self._changed.get(to, self._entries[to])
