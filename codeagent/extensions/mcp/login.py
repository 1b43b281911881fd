"""Logs in to a server over HTTP with OAuth: a login is made once, kept, used and refreshed."""

import asyncio
import base64
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from codeagent.config.keys import KeyStore
from codeagent.core.errors import ConfigError
from codeagent.core.sanitize import one_line
from codeagent.extensions.mcp.config import LoginClient, ServerConfig, login_name

Learn = Callable[[str, str], None]
"""Called with the name and value of a secret that must never be shown from now on."""
_LOOPBACK = "127.0.0.1"
_PATH = "/callback"
_LARGEST_REQUEST = 64 * 1024
_READ_SECONDS = 10.0
_DONE = "You are logged in; you can close this window."
_NO_SECRET = {"client_secret": None}
_FAILED = "The login did not succeed; codeagent says why."


class _Kept(BaseModel):
    """A stored login: all that a later session needs to use and refresh it."""

    tokens: OAuthToken
    expires: float | None
    """Seconds since the epoch."""
    client: OAuthClientInformationFull
    metadata: OAuthMetadata | None
    resource: ProtectedResourceMetadata | None
    issuer: str | None


class KeptLogin(httpx2.Auth):
    """Authenticates requests with the stored login of a server, if there is one, and stores
    refreshed tokens."""

    def __init__(self, config: ServerConfig, store: KeyStore, learn: Learn) -> None:
        self._config = config
        self._store = store
        self._learn = learn
        self._text: str | None = None
        self._provider: OAuthClientProvider | None = None
        self._looked = asyncio.Lock()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Authenticate a request. Raises OAuthFlowError if the server requires a login and there is
        none."""
        async with self._looked:
            if self._provider is None or not self._provider.context.is_token_valid():
                await self._look()  # another session may have refreshed it meanwhile
        if self._provider is None:
            response = yield request
            if response.status_code == 401:
                raise OAuthFlowError(
                    f"it wants you to log in: codeagent mcp login {self._config.name}"
                )
            return
        flow = self._provider.async_auth_flow(request)
        try:
            step = await flow.__anext__()
            while True:
                step = await flow.asend((yield step))
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _look(self) -> None:
        """Use the login that is stored now, if it differs. Raises ConfigError if it is not safe to
        trust."""
        text = await asyncio.to_thread(self._store.find, login_name(self._config))
        if text != self._text:
            self._text = text
            self._provider = self._made(text)

    def _made(self, text: str | None) -> OAuthClientProvider | None:
        if text is None:
            return None
        try:
            kept = _Kept.model_validate_json(base64.b64decode(text, validate=True))
        except (ValueError, ValidationError):
            return None  # treated as missing: the next step is to log in again
        client = self._config.client
        if client is not None and client.client_id != kept.client.client_id:
            return None  # it was made as another client

        async def log_in_again(url: str = "") -> AuthorizationCodeResult:
            raise OAuthFlowError(
                f"its login is no longer valid: codeagent mcp login {self._config.name}"
            )

        storage = LoginStorage(self._config, self._store, self._learn, kept)
        return storage.provider(f"http://{_LOOPBACK}{_PATH}", log_in_again, log_in_again)


def _registered(client: LoginClient, metadata: OAuthMetadata | None) -> OAuthClientInformationFull:
    """Return the client for the library; its secret goes into a header, unless the server says
    otherwise."""
    taken = None if metadata is None else metadata.token_endpoint_auth_methods_supported
    method = (
        "client_secret_post"
        if taken and "client_secret_basic" not in taken
        else "client_secret_basic"
    )
    return OAuthClientInformationFull(
        client_id=client.client_id,
        client_secret=client.secret or None,
        token_endpoint_auth_method=method if client.secret else "none",
    )


class LoginStorage:
    """Implements the SDK's TokenStorage; what a provider found out about a server is stored with
    the tokens."""

    def __init__(
        self, config: ServerConfig, store: KeyStore, learn: Learn, kept: _Kept | None = None
    ) -> None:
        self._config = config
        self._store = store
        self._learn = learn
        self._tokens = None if kept is None else kept.tokens
        self._client = None if kept is None else kept.client
        if config.client is not None:
            self._client = _registered(config.client, None if kept is None else kept.metadata)
        self._kept = kept
        self._provider: OAuthClientProvider | None = None
        self.where = ""
        """Where the login is stored, as a phrase; empty until it is."""

    def provider(
        self,
        redirect: str,
        show: Callable[[str], Awaitable[object]],
        wait: Callable[[], Awaitable[AuthorizationCodeResult]],
    ) -> OAuthClientProvider:
        async def redirect_to(url: str) -> None:
            context = provider.context
            if (
                self._config.client is not None
            ):  # only now is it known how the server wants its secret
                context.client_info = self._client = _registered(
                    self._config.client, context.oauth_metadata
                )
            await show(url)

        metadata = OAuthClientMetadata(client_name="codeagent", redirect_uris=[AnyUrl(redirect)])
        self._provider = provider = OAuthClientProvider(
            self._config.url, metadata, self, redirect_to, wait
        )
        if self._kept is not None:
            # The SDK restores neither of these, and could not tell that a token has expired, nor
            # where to refresh it.
            provider.context.token_expiry_time = self._kept.expires
            provider.context.oauth_metadata = self._kept.metadata
            provider.context.protected_resource_metadata = self._kept.resource
            provider.context.auth_server_url = self._kept.issuer
            self._mask(self._kept.tokens)
        return provider

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store the tokens. Raises ConfigError if that fails."""
        self._tokens = tokens
        self._mask(tokens)
        if self._provider is None or self._client is None:
            return
        context = self._provider.context
        expires = None if tokens.expires_in is None else time.time() + tokens.expires_in
        kept = _Kept(
            tokens=tokens,
            expires=expires,
            client=self._client
            if self._config.client is None
            else self._client.model_copy(update=_NO_SECRET),
            metadata=context.oauth_metadata,
            resource=context.protected_resource_metadata,
            issuer=context.auth_server_url,
        )
        text = base64.b64encode(kept.model_dump_json(exclude_none=True).encode()).decode()
        self.where = await asyncio.to_thread(
            self._store.keep_secret, login_name(self._config), text
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info

    def _mask(self, tokens: OAuthToken) -> None:
        for value in (tokens.access_token, tokens.refresh_token):
            if value:
                self._learn(f"{self._config.name} token", value)


async def begin_login(
    config: ServerConfig,
    store: KeyStore,
    learn: Learn,
    show: Callable[[str], None],
    callback: "Callback",
) -> tuple[OAuthClientProvider, "LoginStorage"]:
    """Prepare a login, and return what starts it as soon as the server requires one, and where it
    is stored.

    `show` gets the address for the user to open, and `callback` waits for the browser to return.
    """

    async def redirect(url: str) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise OAuthFlowError(
                f"the address to log in at is not a web address: {one_line(url, 100)}"
            )
        callback.expect(parse_qs(urlsplit(url).query).get("state", [""])[0])
        show(url)

    storage = LoginStorage(config, store, learn)
    return storage.provider(callback.url, redirect, callback.wait), storage


class Callback:
    """Waits on a loopback port of this machine for the browser to return from a login."""

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._state: str | None = None
        self._result: asyncio.Future[AuthorizationCodeResult] = (
            asyncio.get_running_loop().create_future()
        )

    async def __aenter__(self) -> "Callback":
        """Listen on the port. Raises ConfigError if it is taken."""
        try:
            self._server = await asyncio.start_server(
                self._answer, _LOOPBACK, self._port, limit=_LARGEST_REQUEST
            )
        except OSError as error:
            problem = f"port {self._port} of {_LOOPBACK}, to which the browser would return, cannot be used"
            raise ConfigError(
                f"{problem} ({error.strerror}): end what uses it, or change callbackPort"
            ) from error
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._server is not None:
            self._server.close()
        self._result.cancel()

    @property
    def url(self) -> str:
        port = 0 if self._server is None else self._server.sockets[0].getsockname()[1]
        return f"http://{_LOOPBACK}:{port}{_PATH}"

    def expect(self, state: str) -> None:
        """Accept only the answer to this request; anything else that arrives is refused."""
        self._state = state

    async def wait(self) -> AuthorizationCodeResult:
        """Return the code and state. Raises OAuthFlowError if the user or the server refused."""
        return await self._result

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                request = await reader.readuntil(b"\r\n\r\n")
            status, said = self._take(request)
            page = (
                f"<!doctype html><meta charset=utf-8><title>codeagent</title><p>{said}</p>".encode()
            )
            head = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(page)}\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n".encode() + page)
            await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not a returning browser
        finally:
            writer.close()

    def _take(self, request: bytes) -> tuple[str, str]:
        """Return the status and the text of the answer."""
        method, _, rest = request.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        address = urlsplit(rest.partition(" ")[0])
        given: dict[str, Any] = {
            name: values[0] for name, values in parse_qs(address.query).items()
        }
        is_ours = self._state and given.get("state") == self._state
        if method != "GET" or address.path != _PATH or not is_ours or self._result.done():
            return "404 Not Found", "There is nothing here."
        if given.get("code"):
            self._result.set_result(
                AuthorizationCodeResult(
                    code=given["code"], state=given["state"], iss=given.get("iss")
                )
            )
            return "200 OK", _DONE
        why = one_line(
            given.get("error_description") or given.get("error") or "no code was given", 200
        )
        self._result.set_exception(OAuthFlowError(f"the login was refused: {why}"))
        return "200 OK", _FAILED
