"""Secrets by reference: `${secret:NAME}` is filled in when a request is sent, and only for the
secret's hosts."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from codeagent.core.hosts import HostRule, is_loopback
from codeagent.core.redact import Redactor
from codeagent.core.tool import Denied
from codeagent.net.web.url import WebUrl

REFERENCE = re.compile(r"\$\{secret:([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_SHORTEST = 8
"""Characters of the shortest secret; the redactor ignores shorter texts, so these would be
printed."""
FindSecret = Callable[[str], str | None]
"""Returns the value of a variable, or of the stored key for it. May block. Raises ConfigError."""


def references_in(*values: Any) -> tuple[str, ...]:
    """Return the names of the secrets that texts, lists and objects refer to, each once."""
    found: dict[str, None] = {}
    for value in values:
        match value:
            case str():
                found |= dict.fromkeys(REFERENCE.findall(value))
            case Mapping():
                found |= dict.fromkeys(references_in(*value.keys(), *value.values()))
            case list() | tuple():
                found |= dict.fromkeys(references_in(*value))
            case _:
                pass
    return tuple(found)


class BoundSecrets:
    """The secrets for requests, each bound to hosts; values are registered for masking before they
    are used."""

    def __init__(
        self, bound: Mapping[str, tuple[str, ...]], find: FindSecret, redactor: Redactor
    ) -> None:
        """`bound` is hosts, as in rules, by the name of a secret. Raises ValueError for a host that
        is not one."""
        self._bound = {
            name: tuple(map(HostRule.configured, hosts)) for name, hosts in bound.items()
        }
        self._find = find
        self._redactor = redactor
        self._learned: set[str] = set()

    async def filled(self, value: Any, url: WebUrl) -> Any:
        """Return the value with all references in its texts filled in, for a request to `url`.
        Raises Denied."""
        values = {name: await self.value(name, url) for name in references_in(value)}
        return _replaced(value, values) if values else value

    async def value(self, name: str, url: WebUrl) -> str:
        """Return a secret. Raises Denied unless it is bound to the host, has a value, and would be
        sent encrypted."""
        self.refuse_unbound(name, url)
        found = await asyncio.to_thread(self._find, name)
        if not found:
            raise Denied(
                f"the secret {name} has no value here; set the variable {name}. Nothing was sent"
            )
        if len(found) < _SHORTEST:
            raise Denied(
                f"the secret {name} has fewer than {_SHORTEST} characters and could not be kept out of logs"
            )
        if found not in self._learned:
            self._learned.add(found)
            password = found.partition(":")[2]
            quoted = quote(found, safe=""), quote(found), quote_plus(found)
            for spelled in dict.fromkeys((found, *quoted, basic(found), password)):
                self._redactor.learn(name, spelled)
        return found

    def refuse_unbound(self, name: str, url: WebUrl) -> None:
        """Raise Denied unless the secret is bound to the host and would be sent encrypted."""
        if _NAME.fullmatch(name) is None:
            raise Denied(f"{name[:80]!r} is not the name of a secret; nothing was sent")
        rules = self._bound.get(name, ())
        if not any(rule.matches(url.host, url.port) for rule in rules):
            raise Denied(
                f"the secret {name} is not bound to {url.place}, so nothing was sent; the user binds it to hosts under "
                "[web.secrets] in their configuration"
            )
        if url.scheme != "https" and not is_loopback(url.host):
            raise Denied(
                f"the secret {name} is not sent without encryption; use https. Nothing was sent"
            )

    def clean(self, text: str) -> str:
        """Mask secrets in what a server sends back."""
        return self._redactor.clean(text)


def basic(login: str) -> str:
    """Return the credentials of HTTP basic authentication for `user:password`."""
    return b64encode(login.encode()).decode("ascii")


def _replaced(value: Any, values: Mapping[str, str]) -> Any:
    match value:
        case str():
            return REFERENCE.sub(lambda match: values[match[1]], value)
        case Mapping():
            return {_replaced(name, values): _replaced(one, values) for name, one in value.items()}
        case list() | tuple():
            return [_replaced(one, values) for one in value]
        case _:
            return value
