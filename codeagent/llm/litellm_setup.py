"""Sets litellm up: its import fetches nothing, reads no `.env` file and is quick, and its gaps are
patched.

What is patched serves models that only litellm reaches, and those that a user sends through it.
"""

import gc
import importlib
import ipaddress
import logging
import os
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
}
"""Read by litellm at import: its price map comes from the package, not from the network, and no
`.env` file of the working directory, which may be anybody's repository, is loaded."""
OPENED: ContextVar[list[Any]] = ContextVar("opened")
"""The responses that a request of this task has got, to close them: most of litellm's readers
cannot."""
_GATEWAY = "litellm.responses.mcp.litellm_proxy_mcp_handler"


def set_environment() -> None:
    os.environ.update(ENVIRONMENT)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause garbage collection, and never collect what was made in the meantime.

    litellm's import makes about a million objects that live as long as the process; walking them
    again and again is a third of its time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def silence(library: Any) -> None:
    """Keep the library from printing on any stream, and pydantic from warning about the library's
    objects."""
    library.suppress_debug_info = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings", category=UserWarning)
    warnings.filterwarnings(
        "ignore", message=".* using the `ReadOnly` qualifier", category=UserWarning
    )


def stub_proxy_gateway() -> None:
    """Keep the MCP gateway of litellm's proxy out of requests to responses APIs, such as Azure's.

    On that path it imports the gateway, 240 modules and 0.4 s of processor time, only to ask
    whether a tool belongs to it. None of ours ever does.
    """
    module = types.ModuleType(_GATEWAY)
    vars(module)["LiteLLM_Proxy_MCP_Handler"] = _NoGateway
    sys.modules.setdefault(_GATEWAY, module)


def patch_error_flags(library: Any) -> None:
    """Let a tool message's `is_error` reach Claude, such as in Vertex or Azure: litellm makes its
    `tool_result` without looking for it."""
    factory = importlib.import_module(
        f"{library.__name__}.litellm_core_utils.prompt_templates.factory"
    )
    made = factory.convert_to_anthropic_tool_result

    def with_error(message: Any, *args: Any, **options: Any) -> Any:
        result = made(message, *args, **options)
        return {**result, "is_error": True} if message.get("is_error") else result

    vars(factory)["convert_to_anthropic_tool_result"] = with_error


def patch_responses(library: Any) -> None:
    """Follow no redirect, and tell a 200 response that is not a stream from one that was cut."""
    from codeagent.llm.response_body import (
        watch_responses,
    )  # it needs httpx, which litellm has imported by now

    transport = importlib.import_module(f"{library.__name__}.llms.custom_httpx.aiohttp_transport")
    watch_responses(transport.LiteLLMAiohttpTransport, OPENED)


def verify_certificates(library: Any) -> None:
    """Verify certificates always: litellm would leave it if the variable SSL_VERIFY is false."""
    handler = importlib.import_module(f"{library.__name__}.llms.custom_httpx.http_handler")
    chosen = handler.get_ssl_verify

    def get_ssl_verify(*args: Any, **options: Any) -> bool | str:
        """Return the file of the certificates to trust, or True."""
        verify: bool | str = chosen(*args, **options)
        return verify or True

    vars(handler)["get_ssl_verify"] = get_ssl_verify


def reach_this_machine_directly(library: Any) -> None:
    """Use no proxy for loopback addresses; litellm does unless NO_PROXY names them."""
    transport = importlib.import_module(
        f"{library.__name__}.llms.custom_httpx.aiohttp_transport"
    ).LiteLLMAiohttpTransport
    chosen = transport._proxy_from_env

    def proxy_from_env(self: Any, url: Any) -> str | None:
        return None if _is_this_machine(url.host) else chosen(self, url)

    transport._proxy_from_env = proxy_from_env


def _is_this_machine(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.rstrip(".").rpartition(".")[2] == "localhost"
    return address.is_loopback or address.is_unspecified


def patch_native_streaming(library: Any) -> None:
    """Stream models of a responses API that litellm's table does not know, such as a deployment in
    Azure under a name of its own.

    litellm assumes that they cannot stream, asks for the whole answer and cuts it up.
    """
    config = importlib.import_module(
        f"{library.__name__}.llms.openai.responses.transformation"
    ).OpenAIResponsesAPIConfig
    fakes = config.should_fake_stream

    def should_fake_stream(self: Any, model: str | None, *args: Any, **options: Any) -> bool:
        known = model in library.model_cost or f"openai/{model}" in library.model_cost
        return known and bool(fakes(self, model, *args, **options))

    config.should_fake_stream = should_fake_stream


def defer_tokenizer(library: Any) -> None:
    """Load the tokenizer only if it is used: litellm loads it for each request, in case it has to
    count an answer."""
    main = importlib.import_module(f"{library.__name__}.main")
    load = main._get_encoding

    class Tokenizer:
        def __getattr__(self, name: str) -> Any:
            return getattr(load(), name)

    vars(main)["_get_encoding"] = Tokenizer


def send_as_given(client: Any) -> None:
    """Let OpenAI's client, the module of its chat completions, send a body as it is.

    It walks through all messages of each request, to write dates and files as JSON. There are none:
    what litellm hands over is JSON already, and in a long session that walk was two thirds of the
    time of a turn.
    """

    is_given = importlib.import_module(f"{client.__name__.partition('.')[0]}._utils").is_given

    async def as_given(body: dict[str, Any], expected: object) -> dict[str, Any]:
        return {name: value for name, value in body.items() if is_given(value)}

    client.async_maybe_transform = as_given


class _NoGateway:
    @staticmethod
    def should_use_litellm_mcp_gateway(tools: object) -> bool:
        return False
