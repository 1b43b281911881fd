"""What was learned about one model at one server, shared by all that talk to it in this process."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:  # only those who have a server of their own ask it
    from codeagent.core.model import ModelFacts

_FRESH = 30.0
"""Seconds for which what the server said is trusted after a reconnection, unless the connection
failed."""


class Pacing(Protocol):
    """Lets requests begin no faster than a provider allows all those that share its limits."""

    async def may_begin(self, tokens: int, seconds: float) -> bool:
        """Wait until a request of about so many tokens may begin, so long at most; whether it
        may."""

    def answered(self, headers: Mapping[str, str]) -> None:
        """Take note of what the headers of an answer, of whichever status, say about the limits."""

    def refused(self, retry_after: float | None) -> None:
        """Take note that a request came too early; `retry_after` in seconds, if the provider said
        so."""


class ServerKnowledge:
    """Kept for as long as the process lives."""

    pacing_of: ClassVar[Callable[[str], Pacing] | None] = None
    """Makes what the requests to the model of this name wait for, in a process that shares limits
    with others."""

    def __init__(
        self, base: str | None = None, headers: Mapping[str, str] | None = None, model: str = ""
    ) -> None:
        """`base` is the address of the user's own server, None for others, which are not asked;
        `model` is its name there."""
        self._base = base
        self._headers = headers or {}
        self._model = model
        self._facts: ModelFacts | None = None
        self._stale = base is not None
        self.asked = 0
        """How often the server has said what it can do; each time, what was known before may be out
        of date."""
        self._asked_at = 0.0
        self.folds_roles = False
        """The model's template takes no messages but those of the user and the assistant."""
        self.refused_images = False

    @property
    def window(self) -> int | None:
        return self._facts.window if self._facts else None

    @property
    def lacks_tools(self) -> bool:
        return self._facts is not None and self._facts.tools is False

    @property
    def images(self) -> bool | None:
        """Whether the model sees images; None if the server does not say."""
        if self.refused_images:
            return False
        return self._facts.images if self._facts else None

    def lost(self) -> None:
        """Take note that the connection ended: what answers next may be another server, or have
        other settings."""
        self._stale = self._base is not None

    def reconnected(self) -> None:
        """Take note of a new connection; as many servers close idle ones, it means nothing soon
        after an answer."""
        if time.monotonic() - self._asked_at > _FRESH:
            self.lost()

    async def look(self) -> None:
        """Ask the server, if it has not answered yet or was lost since."""
        if not self._stale or self._base is None:
            return
        from codeagent.llm.server_details import ask_server

        found = await ask_server(self._base, self._headers, self._model)
        if found is not None:
            self._facts = found
            self._stale = False
            self.asked += 1
            self._asked_at = time.monotonic()
