"""Finds model servers on this machine: the usual ports of Ollama, llama.cpp, vLLM and LM Studio are asked."""

import asyncio
import json
from dataclasses import dataclass

_PORTS = {"Ollama": 11434, "llama.cpp": 8080, "vLLM": 8000, "LM Studio": 1234}
_HOSTS = ("127.0.0.1", "::1")
_SECONDS = 0.3
_LARGEST_ANSWER = 1 << 20
_MOST_MODELS = 50
_REQUEST = b"GET /v1/models HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n"
"""HTTP/1.0, so that the answer comes in one piece and ends with the connection."""


@dataclass(frozen=True)
class LocalServer:
    name: str
    """Whose usual port it is."""
    api_base: str
    """What `--api-base` takes."""
    models: tuple[str, ...]
    """As the server names them."""


async def local_servers(seconds: float = _SECONDS) -> tuple[LocalServer, ...]:
    """Those that answer within the time with at least one model; only loopback is asked, no redirect followed."""
    return await ask_ports(_PORTS, seconds)


async def ask_ports(ports: dict[str, int], seconds: float) -> tuple[LocalServer, ...]:
    """As `local_servers`, for other ports."""
    asked = [_server(name, port, seconds) for name, port in ports.items()]
    return tuple(server for server in await asyncio.gather(*asked) if server is not None)


async def _server(name: str, port: int, seconds: float) -> LocalServer | None:
    """IPv4 counts where both answer."""
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
    """The whole answer. Raises OSError, ValueError."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_REQUEST)
        answer = bytearray()
        while chunk := await reader.read(65536):
            answer += chunk
            if len(answer) > _LARGEST_ANSWER:
                raise ValueError("too long an answer")
        return bytes(answer)
    finally:
        writer.close()


def _names(answer: bytes) -> tuple[str, ...]:
    """Raises ValueError where this is no list of models."""
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b"\r\n")[0].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or words[1] != b"200":
        raise ValueError("no answer to the question")
    match json.loads(body):
        case {"data": list(models)}:
            named = [model["id"] for model in models if isinstance(model, dict) and isinstance(model.get("id"), str)]
            return tuple(name for name in named if name.isprintable() and 0 < len(name) <= 200)[:_MOST_MODELS]
        case _:
            raise ValueError("no list of models")
