"""The journal port: where every durable event goes before anything acts on it."""

from typing import Protocol

from codeagent.core.events import KnownEvent


class Journal(Protocol):
    """One session's log, as its writer sees it."""

    @property
    def session_id(self) -> str: ...

    @property
    def next_seq(self) -> int:
        """The number the next event gets; counts on after a resume."""

    def append(self, event: KnownEvent) -> None:
        """Take one durable event. What cannot be written is kept and reported by `sync`."""

    async def sync(self) -> None:
        """Return once everything appended is on disk. Raises SessionWriteError: run nothing then."""

    def close(self) -> None: ...
