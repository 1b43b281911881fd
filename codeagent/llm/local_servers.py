"""Finds model servers on this machine (Ollama, llama.cpp, vLLM, LM Studio), and the models of one
that is named."""

import asyncio
import json
from urllib.parse import urlsplit

from codeagent.core.dataclass import dataclass

_PORTS = {"Ollama": 11434, "llama.cpp": 8080, "vLLM": 8000, "LM Studio": 1234}
_HOSTS = ("127.0.0.1", "::1")
_SECONDS = 0.3
_NAMED_SECONDS = 5.0
"""For a server that the user named, which may be far away."""
_LARGEST_ANSWER = 1 << 20
_MOST_MODELS = 50
_REQUEST = b"GET /v1/models HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n"
"""HTTP/1.0, so that the answer comes whole and ends with the connection."""


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
    asked = [_server(name, port, seconds) for name, port in ports.items()]
    return tuple(server for server in await asyncio.gather(*asked) if server is not None)


@dataclass(frozen=True)
class KeyWanted:
    """A server that does not list its models without a key, or with the one that it was given."""

    name: str
    """Its host."""


async def server_at(address: str, key: str | None = None) -> LocalServer | KeyWanted | None:
    """Ask the server at this address, as the user may give it, for its models; None if it does not
    list any."""
    from codeagent.llm.providers import server_root  # not needed before a server is named
    from codeagent.llm.server_facts import answer_of, object_of
    from codeagent.net.http import HttpClient

    root, query = server_root(address)
    name = urlsplit(root).netloc
    refused = False
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    client = HttpClient(_NAMED_SECONDS)
    try:
        async with asyncio.timeout(_NAMED_SECONDS):
            for base in (f"{root}/v1", root):
                status, body = await answer_of(client, "GET", f"{base}/models{query}", headers)
                if status == 200 and (models := _listed(object_of(body))):
                    return LocalServer(name, base + query, models)
                refused = refused or status in (401, 403)
    except TimeoutError:
        pass
    finally:
        await client.close()
    return KeyWanted(name) if refused else None


async def _server(name: str, port: int, seconds: float) -> LocalServer | None:
    """Ask over IPv4 and IPv6; IPv4 counts if both answer."""
    found = await asyncio.gather(*(_models(host, port, seconds) for host in _HOSTS))
    for host, models in zip(_HOSTS, found, strict=True):
        if models:
            address = f"[{host}]" if ":" in host else host
            return LocalServer(name, f"http://{address}:{port}/v1", models)
    return None


async def _models(host: str, port: int, seconds: float) -> tuple[str, ...]:
    try:
        async with asyncio.timeout(seconds):
            return _names(await _answer(host, port))
    except (OSError, ValueError, RecursionError):
        return ()


async def _answer(host: str, port: int) -> bytes:
    """Read the whole answer. Raises OSError, ValueError."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_REQUEST)
        answer = bytearray()
        while chunk := await reader.read(65536):
            answer += chunk
            if len(answer) > _LARGEST_ANSWER:
                raise ValueError("the answer is too long")
        return bytes(answer)
    finally:
        writer.close()


def _names(answer: bytes) -> tuple[str, ...]:
    """Read the names of the models. Raises ValueError if the answer is not JSON."""
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b"\r\n")[0].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or words[1] != b"200":
        raise ValueError("not a successful answer")
    return _listed(json.loads(body))


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
