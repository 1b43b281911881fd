"""The models that a user can choose from, on this machine and at providers, and the keys that they
need."""

import asyncio
import os
from collections.abc import Iterable
from dataclasses import replace

from codeagent.config.keys import KeyStore, is_address, server_variable
from codeagent.config.settings import Settings
from codeagent.core.errors import ConfigError
from codeagent.llm.catalog import is_scripted
from codeagent.llm.key_trial import try_key
from codeagent.llm.local_servers import KeyWanted, LocalServer, local_servers, server_at
from codeagent.llm.providers import OFFERED, key_variables
from codeagent.tui.launcher import Missing, ModelRow

_OLLAMA = "Ollama"
_DEMO = ModelRow("demo", "scripted, needs no key; made for the repository of codeagent demo", True)


class ModelOffers:
    """What can be chosen now, with the keys that are set or kept."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys

    async def offered(
        self, settings: Settings
    ) -> tuple[tuple[ModelRow, ...], tuple[LocalServer, ...]]:
        """Return the models worth offering: the one in use, hosted ones with a key, and those of
        local servers; and these servers."""
        names = [] if settings.model in (None, _DEMO.name) else [settings.model]
        names += [name for name in OFFERED if name != settings.model]
        probing = asyncio.ensure_future(local_servers())
        rows = await asyncio.gather(
            *(self._row(name, settings) for name in names if name is not None)
        )
        first = [row for row in rows if row.name == settings.model]
        servers = await probing
        return (*first, *rows_of(servers), *rows[len(first) :], _DEMO), servers

    async def keep_key(self, variable: str, value: str) -> str:
        """Try a key with its provider, then keep it; returns one line about both. Raises
        ConfigError."""
        if is_address(variable):
            return await self._keep_key_of(variable, value.strip())
        tried = await try_key(variable, value.strip(), os.environ)
        if tried.outcome == "refused":
            raise ConfigError(f"key {tried.said}; not kept: paste another one")
        where = await asyncio.to_thread(self._keys.keep, variable, value)
        first = f"; {variable} in the environment wins over it" if os.environ.get(variable) else ""
        return f"{variable}: {tried.said}; kept in {where}{first}"

    async def _keep_key_of(self, address: str, value: str) -> str:
        """Do what `keep_key` does for the user's own server; the key goes to no other one."""
        server = await server_at(address, value)
        if isinstance(server, KeyWanted):
            raise ConfigError(f"{server.name} refused the key; not kept: paste another one")
        tried = "not tried: it lists no models" if server is None else f"accepted by {server.name}"
        where = await asyncio.to_thread(self._keys.keep_secret, server_variable(address), value)
        return f"the key of {address}: {tried}; kept in {where}"

    async def has_key(self, variables: Iterable[str]) -> bool:
        """Whether one of the variables is set, or a key is kept for it. Raises ConfigError."""
        wanted = tuple(variables)
        return any(map(os.environ.get, wanted)) or await self.kept_key(wanted) is not None

    async def kept_key(self, variables: Iterable[str]) -> str | None:
        """Return the key that is kept for the first variable that has one. Raises ConfigError."""
        found = [asyncio.to_thread(self._keys.find, variable) for variable in variables]
        return next(filter(None, await asyncio.gather(*found)), None)

    async def missing(self, settings: Settings) -> Missing:
        """Say that no model is set, and list those of the given server, or else those of this
        machine and of the providers whose keys are set."""
        api_base = settings.api_base
        if api_base is None:
            probing = asyncio.ensure_future(local_servers())
            hosted = await asyncio.gather(*(self._row(name, settings) for name in OFFERED))
            ready = (replace(row, about="hosted, with your key") for row in hosted if row.ready)
            return Missing(
                "model", "No model configured yet", servers=(*rows_of(await probing), *ready)
            )
        kept = await asyncio.to_thread(self._keys.find, server_variable(api_base))
        key = kept or os.environ.get("OPENAI_API_KEY")
        match await server_at(api_base, key):
            case None:
                return Missing(
                    "model",
                    f"{api_base} lists no models: check the address, or give --model as well",
                )
            case KeyWanted(name):
                wanted = "a key"
                if key:
                    wanted = f"another key than {'the kept one' if kept else 'OPENAI_API_KEY'}"
                return Missing(
                    "key", f"{name} wants {wanted}; it goes to this server only", variable=api_base
                )
            case LocalServer(name, base) as server:
                return Missing(
                    "model", f"Choose a model of {name}", servers=rows_at(server, f"at {base}")
                )

    async def _row(self, name: str, settings: Settings) -> ModelRow:
        current = name == settings.model
        api_base = settings.api_base if current else None
        variables = await asyncio.to_thread(key_variables, name, api_base)
        try:
            ready = not variables or await self.has_key(variables)
        except ConfigError:
            ready = False
        where = "scripted" if is_scripted(name) else f"at {api_base}" if api_base else "hosted"
        about = where if ready else f"hosted, needs {variables[0]}"
        return ModelRow(name, f"in use, {about}" if current else about, ready, api_base)


def rows_of(servers: Iterable[LocalServer]) -> tuple[ModelRow, ...]:
    """Return rows for local servers: Ollama has its own protocol, the others speak OpenAI's at an
    address."""
    return tuple(
        row
        for server in servers
        for row in (
            [ModelRow(f"ollama/{model}", "Ollama on this machine", True) for model in server.models]
            if server.name == _OLLAMA
            else rows_at(server, f"{server.name} on this machine")
        )
    )


def rows_at(server: LocalServer, about: str) -> tuple[ModelRow, ...]:
    return tuple(
        ModelRow(f"openai/{model}", about, True, server.api_base) for model in server.models
    )
