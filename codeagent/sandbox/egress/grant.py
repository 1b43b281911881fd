"""What one command may reach while it runs, and what became of its requests."""

import asyncio
import secrets
from collections import Counter

from codeagent.core.hosts import WEB_PORTS, HostRule, Reach
from codeagent.core.sanitize import first_few
from codeagent.net.addresses import Address
from codeagent.sandbox.tasks import GIB

MOST_CONNECTIONS = 128
_MOST_NAMED = 8
MOST_HOSTS = 1000
"""Hosts that are looked up, and counted one by one; a command may ask for as many as it likes."""
_OTHERS = "other hosts"
_UNREADABLE = "a host that could not be read"


class RequestRefused(Exception):
    """A request is not passed on; the text says why, as a phrase for the model.

    `status` is the HTTP answer to it, 0 if an answer has begun already.
    """

    def __init__(self, reason: str, status: int = 403) -> None:
        super().__init__(reason)
        self.status = status


class Grant:
    """What one command may reach: its token opens the proxy until `end`, which also ends its
    connections."""

    def __init__(
        self, rules: tuple[HostRule, ...], reach: Reach | None = None, byte_limit: int = GIB
    ) -> None:
        """`reach` decides about each host that a rule allows; `byte_limit` is for both directions
        together."""
        self.token = secrets.token_hex(24)
        self.ended = False
        self.pinned: dict[str, tuple[Address, ...]] = {}
        """The addresses of a name when it was first resolved; it is not resolved again."""
        self._rules = rules
        self._reach = reach
        self._left = byte_limit
        self._limit = byte_limit
        self._connections: set[asyncio.Task[None]] = set()
        self._allowed: Counter[str] = Counter()
        self._refused: Counter[tuple[str, str]] = Counter()

    async def rule_for(self, name: str, port: int) -> HostRule:
        """Return the narrowest rule that allows it; may wait until the user has decided. Raises
        RequestRefused."""
        matching = [rule for rule in self._rules if rule.matches(name, port)]
        if not matching:
            raise RequestRefused("not among the hosts of this command")
        rule = min(matching, key=lambda rule: (rule.is_any, rule.below, rule.port is None))
        if self._reach is None:
            return rule
        if (why := await self._reach.admit(name, port, named=not rule.is_any)) is not None:
            raise RequestRefused(why)
        return HostRule(name) if rule.is_any and not self._reach.is_open else rule

    def join(self, connection: asyncio.Task[None]) -> None:
        """Add a connection. Raises RequestRefused if the command has ended, or has too many."""
        if self.ended:
            raise RequestRefused("the command has ended")
        if self._left < 0:
            raise RequestRefused(self._spent)
        if len(self._connections) >= MOST_CONNECTIONS:
            raise RequestRefused(f"more than {MOST_CONNECTIONS} connections at a time")
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    def spend(self, size: int) -> None:
        """Count bytes that are passed on. Raises RequestRefused past the limit, and once the
        network is off."""
        self._left -= size
        if self._left < 0:
            raise RequestRefused(self._spent)
        if self._reach is not None and self._reach.is_off:
            raise RequestRefused("the network was turned off")

    @property
    def _spent(self) -> str:
        return f"more than {_size(self._limit)} in one command: nothing more is passed on"

    def allowed(self, name: str, port: int) -> None:
        key = _label(name, port)
        key = key if key in self._allowed or len(self._allowed) < MOST_HOSTS else _OTHERS
        self._allowed[key] += 1
        if self._reach is not None and self._allowed[key] == 1:
            self._reach.note(key, None)

    def refused(self, name: str | None, port: int, reason: str) -> None:
        key = _UNREADABLE if name is None else _label(name, port), reason
        key = (
            key
            if key in self._refused or len(self._refused) < MOST_HOSTS
            else (_OTHERS, "too many")
        )
        self._refused[key] += 1
        if self._reach is not None and self._refused[key] == 1:
            self._reach.note(*key)

    def end(self) -> None:
        """Idempotent."""
        self.ended = True
        for connection in self._connections:
            connection.cancel()

    def notice(self) -> str:
        """Return one line about all requests."""
        allowed = [f"{_requests(count)} to {name}" for name, count in self._allowed.most_common()]
        refused = [
            f"{_requests(count)} to {name} refused ({why})"
            for (name, why), count in self._refused.most_common()
        ]
        said = [f"{_listed(allowed)} allowed"] if allowed else []
        said += [_listed(refused)] if refused else []
        return f"network: {'; '.join(said) or 'no request was made'}"


def _size(count: int) -> str:
    return f"{count // GIB} GiB" if count % GIB == 0 else f"{count} bytes"


def _label(name: str, port: int) -> str:
    return name if port in WEB_PORTS else f"{name}:{port}"


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"


def _listed(texts: list[str]) -> str:
    return first_few(texts, _MOST_NAMED, " hosts")
