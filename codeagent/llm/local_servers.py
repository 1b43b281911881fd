"""Finds model servers on this machine (Ollama, llama.cpp, vLLM, LM Studio), and the models of one
that is named."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from codeagent.core.dataclass import dataclass

if TYPE_CHECKING:
    from codeagent.net.http import HttpClient

_PORTS = {"Ollama": 11434, "llama.cpp": 8080, "vLLM": 8000, "LM Studio": 1234}
_SECONDS = 0.3
_NAMED_SECONDS = 5.0
"""For a server that the user named, which may be far away."""
_MOST_MODELS = 50


@dataclass(frozen=True)
class LocalServer:
    """A model server on this machine, or at the address that the user gave."""

    name: str
    """The product whose usual port it has, or its host."""
    api_base: str
    """The value for `--api-base`."""
    models: tuple[str, ...]
    """As the server names them."""


async def local_servers(seconds: float = _SECONDS) -> tuple[LocalServer, ...]:
    """Find the servers that name at least one model in time, on the usual ports of the products
    that we know.

    Only loopback is asked, and no redirect is followed.
    """
    return await ask_ports(_PORTS, seconds)


async def ask_ports(ports: dict[str, int], seconds: float) -> tuple[LocalServer, ...]:
    """Do as `local_servers`, for other ports."""
    from codeagent.net.http import HttpClient  # libcurl is loaded with the first request

    client = HttpClient(seconds)
    try:
        asked = [_server(client, name, port, seconds) for name, port in ports.items()]
        return tuple(server for server in await asyncio.gather(*asked) if server is not None)
    finally:
        await client.close()


@dataclass(frozen=True)
class KeyWanted:
    """A server that does not list its models without a key, or with the one that it was given."""

    name: str
    """Its host."""


async def server_at(address: str, key: str | None = None) -> LocalServer | KeyWanted | None:
    """Ask the server at this address, as the user may give it, for its models; None if it does not
    list any."""
    from codeagent.llm.providers import server_root  # not needed before a server is named
    from codeagent.llm.server_details import answer_of, object_of
    from codeagent.net.http import http_client

    root, query = server_root(address)
    name = urlsplit(root).netloc
    refused = False
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    with suppress(TimeoutError):
        async with http_client(_NAMED_SECONDS) as client:
            for base in (f"{root}/v1", root):
                status, body = await answer_of(client, "GET", f"{base}/models{query}", headers)
                if status == 200 and (models := _listed(object_of(body))):
                    return LocalServer(name, base + query, models)
                refused = refused or status in (401, 403)
    return KeyWanted(name) if refused else None


async def _server(client: "HttpClient", name: str, port: int, seconds: float) -> LocalServer | None:
    """Ask over IPv4 and IPv6; IPv4 counts if both answer."""
    bases = [f"http://{host}:{port}/v1" for host in ("127.0.0.1", "[::1]")]
    found = await asyncio.gather(*(_models(client, base, seconds) for base in bases))
    answered = zip(bases, found, strict=True)
    return next((LocalServer(name, base, models) for base, models in answered if models), None)


async def _models(client: "HttpClient", base: str, seconds: float) -> tuple[str, ...]:
    from codeagent.llm.server_details import json_of  # as below

    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return _listed(await json_of(client, "GET", f"{base}/models", {}))
    return ()


def _listed(answer: object) -> tuple[str, ...]:
    """Return the names in a list of models; none if the answer is not one."""
    match answer:
        case {"data": list(models)}:
            named = [
                model["id"]
                for model in models
                if isinstance(model, dict) and isinstance(model.get("id"), str)
            ]
            return tuple(name for name in named if name.isprintable() and 0 < len(name) <= 200)[
                :_MOST_MODELS
            ]
        case _:
            return ()
