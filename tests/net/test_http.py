"""The client over real sockets: ways through proxies, certificates, connections that are kept,
limits."""

import asyncio
import gc
import gzip
import itertools
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pycurl
import pytest

from codeagent.core.errors import ModelError
from codeagent.llm.native.model import NativeModel
from codeagent.net import http
from codeagent.net.http import HttpClient, Response, trusted
from tests.llm.asking import ask
from tests.servers import Turn, behind_tls, openai_server, self_signed

BODY = json.dumps(
    {"model": "x", "messages": [{"role": "user", "content": "hi"}], "tools": [1]}
).encode()
KEY = {"Authorization": "Bearer canary", "Content-Type": "application/json"}
HOST = "model.invalid"
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        *VARIABLES,
        *(name.upper() for name in VARIABLES),
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    made = HttpClient(idle=5.0)
    yield made
    await made.close()


async def post(client: HttpClient, url: str, body: bytes = BODY) -> tuple[int, bytes]:
    async with client.send("POST", url, KEY, body) as response:
        read = b""
        while chunk := await response.read():
            read += chunk
        return response.status, read


class Proxy:
    """One for HTTPS (CONNECT) and SOCKS5; `heads` is what it was asked, and every way leads to
    `port`."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> None:
        self.heads: list[bytes] = []
        self.port = 0
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(1)
        if first == b"\5":
            await reader.readexactly((await reader.readexactly(1))[0])
            writer.write(b"\5\0")
            asked = await reader.readexactly(5)
            self.heads.append(await reader.readexactly(asked[4] + 2))
            writer.write(b"\5\0\0\1\0\0\0\0\0\0")
        else:
            self.heads.append(first + await reader.readuntil(b"\r\n\r\n"))
            writer.write(self._answer)
            if b" 200 " not in self._answer:
                writer.close()
                return
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.gather(self._pass_on(reader, back), self._pass_on(there, writer))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()


@asynccontextmanager
async def listening(proxy: Proxy) -> AsyncIterator[str]:
    """Yields its address without a scheme."""
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
async def test_the_proxy_of_the_environment_is_asked_for_plain_addresses(
    name: str, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with openai_server([Turn(text="through")]) as fake:
        monkeypatch.setenv(name, fake.base_url.removesuffix("/v1"))
        status, body = await post(client, f"http://{HOST}/v1/chat/completions")
    assert (status, b"throug" in body) == (200, True)
    assert [request.path for request in fake.requests] == [f"http://{HOST}/v1/chat/completions"]


@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY", "ALL_PROXY"])
async def test_a_secure_request_goes_through_the_proxy_unread(
    name: str, client: HttpClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificate = self_signed(tmp_path, f"DNS:{HOST}")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    proxy = Proxy()
    async with (
        openai_server([Turn(text="a"), Turn(text="b")]) as fake,
        behind_tls(fake, certificate) as proxy.port,
    ):
        async with listening(proxy) as address:
            monkeypatch.setenv(name, f"http://user:pass@{address}")
            assert [(await post(client, f"https://{HOST}/v1"))[0] for _ in range(2)] == [200, 200]
        assert fake.requests[0].headers["authorization"] == "Bearer canary"
        assert fake.connections == 1
    (head,) = proxy.heads
    assert head.startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\n".encode())
    assert b"Proxy-Authorization: Basic dXNlcjpwYXNz" in head and b"canary" not in head


async def test_a_socks_proxy_resolves_the_name(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Proxy()
    async with openai_server([Turn(text="a")]) as fake, listening(proxy) as address:
        proxy.port = int(fake.base_url.split(":")[2].removesuffix("/v1"))
        monkeypatch.setenv("ALL_PROXY", f"socks5h://{address}")
        assert (await post(client, f"http://{HOST}/v1"))[0] == 200
    assert proxy.heads == [HOST.encode() + b"\0\x50"]


@pytest.mark.parametrize("excepted", ["", HOST, "*", f"other,.{HOST.partition('.')[2]}"])
async def test_this_machine_and_the_excepted_hosts_are_reached_without_a_proxy(
    excepted: str, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Proxy(b"HTTP/1.1 503 No\r\n\r\n")
    async with openai_server([Turn(text="a")], repeat=True) as fake, listening(proxy) as address:
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.setenv("NO_PROXY", excepted)
        port = fake.base_url.split(":")[2].removesuffix("/v1")
        for host in ("127.0.0.1", "localhost", "0.0.0.0"):
            assert (await post(client, f"http://{host}:{port}/v1"))[0] == 200
        assert proxy.heads == []
        if excepted:
            with pytest.raises(OSError, match="Could not resolve host"):
                await post(client, f"http://{HOST}/v1")
        else:
            assert (await post(client, f"http://{HOST}/v1"))[0] == 503


@pytest.mark.parametrize(
    ("answer", "proxy", "said", "retryable"),
    [
        (
            b"HTTP/1.1 407 Who\r\n\r\n",
            "http://user:secret@{}",
            "it answered with status 407",
            False,
        ),
        (b"HTTP/1.1 502 Bad\r\n\r\n", "{}", "it answered with status 502", True),
        (b"", "http://user:secret@127.0.0.1:9", "Could not connect", True),
        (b"", "http://user:secret@proxy.invalid:1", "Could not resolve proxy: proxy.invalid", True),
    ],
    ids=["needs a password", "is broken", "is not there", "has no address"],
)
async def test_a_proxy_in_the_way_is_named_without_its_password(
    answer: bytes, proxy: str, said: str, retryable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(Proxy(answer)) as address:
        monkeypatch.setenv("https_proxy", proxy.format(address))
        model = NativeModel("fake", api_base=f"https://{HOST}/v1")
        with pytest.raises(
            ModelError, match=r"fake: no way through the proxy [a-z0-9.]+:"
        ) as caught:
            await ask(model)
        await model.close()
    assert said in str(caught.value) and "secret" not in str(caught.value)
    assert (caught.value.kind, caught.value.retryable) == ("connection", retryable)


def hashed_folder(certificate: Path) -> Path:
    """A folder as OpenSSL reads it: each certificate is named by a hash of whom it is for."""
    command = ["openssl", "x509", "-hash", "-noout", "-in", certificate]
    hashed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    folder = certificate.parent / "trusted"
    folder.mkdir()
    (folder / f"{hashed}.0").write_bytes(certificate.read_bytes())
    return folder


async def test_the_certificates_of_the_environment_are_trusted_and_no_others(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificate = self_signed(tmp_path, "IP:127.0.0.1")
    folder = hashed_folder(certificate)
    async with (
        openai_server([Turn(text="a")], repeat=True) as fake,
        behind_tls(fake, certificate) as port,
    ):
        for name, value in (("SSL_CERT_FILE", certificate), ("SSL_CERT_DIR", folder)):
            with monkeypatch.context() as patch:
                patch.setenv(name, str(value))
                assert (await post(client, f"https://127.0.0.1:{port}/v1"))[0] == 200
        await client.close()
        for value in ("", str(tmp_path / "missing.pem")):
            monkeypatch.setenv("SSL_CERT_FILE", value)
            with pytest.raises(OSError, match=r"certificate|missing\.pem"):
                await post(client, f"https://127.0.0.1:{port}/v1")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with pytest.raises(
            OSError, match=r"no alternative certificate subject name|does not match"
        ):
            await post(client, f"https://localhost:{port}/v1")
    assert len(fake.requests) == 2


def test_without_a_word_of_the_environment_the_systems_certificates_are_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.touch()
    monkeypatch.setattr(http, "_BUNDLES", (str(tmp_path / "none.pem"), str(bundle)))
    assert trusted({}) == (str(bundle), None)
    assert trusted({"SSL_CERT_FILE": "f", "SSL_CERT_DIR": "d"}) == ("f", "d")
    assert trusted({"SSL_CERT_FILE": "", "SSL_CERT_DIR": "d"}) == (None, "d")
    bundle.unlink()
    shipped, _ = trusted({})
    assert shipped is not None and "BEGIN CERTIFICATE" in Path(shipped).read_text()


async def test_an_address_that_is_not_one_of_http_is_not_guessed_at(client: HttpClient) -> None:
    for address in ("localhost:8000/v1", "file:///etc/passwd", "ftp://x/v1", ""):
        with pytest.raises(ValueError, match="is not an address that begins with http"):
            await post(client, address)


async def test_a_key_that_cannot_be_sent_is_neither_sent_nor_shown(client: HttpClient) -> None:
    async with openai_server([]) as fake:
        for key in ("secret\nX-More: 1", "secret\r", "“secret”"):
            with pytest.raises(
                ValueError, match="the header Authorization has characters that cannot be sent"
            ) as caught:
                async with client.send("POST", fake.base_url, {"Authorization": key}, BODY):
                    pass
            assert "secret" not in str(caught.value)
    assert fake.connections == 0


@asynccontextmanager
async def writing(
    *parts: bytes, head: str = "content-type: text/event-stream"
) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that answers every request with `parts`; yields its address and how many bytes were
    written."""
    written = [0]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with_head = f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode()
        try:
            await reader.readuntil(b"\r\n\r\n")
            for part in itertools.chain([with_head], parts):
                writer.write(part)
                await writer.drain()
                written[0] += len(part)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", written
    finally:
        server.close()


async def test_a_server_waits_for_a_slow_reader_and_nothing_gets_lost(client: HttpClient) -> None:
    part = bytes(range(256)) * 4096
    async with (
        writing(*[part] * 64) as (address, written),
        client.send("POST", address, {}, b"{}") as response,
    ):
        first, before = len(await response.read()), -1
        while written[0] > before:
            before = written[0]
            await asyncio.sleep(0.05)
        assert written[0] < 32 << 20
        rest = first
        while chunk := await response.read():
            rest += len(chunk)
            assert len(chunk) < 3 << 20
    assert rest == 64 << 20


async def test_a_compressed_stream_is_read_as_it_comes(client: HttpClient) -> None:
    packed = gzip.compress(b"data: {}\n\n" * 1000)
    async with writing(packed[:10], packed[10:], head="content-encoding: gzip") as (address, _):
        assert await post(client, address) == (200, b"data: {}\n\n" * 1000)


async def test_interim_responses_are_passed_over(client: HttpClient) -> None:
    async with writing(b"", head="x: 1\r\n\r\nHTTP/1.1 200 OK") as (address, _):
        assert (await post(client, address))[0] == 200
    early = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 201 Made\r\nX-One: 1\r\ncontent-length: 2\r\n\r\nok"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(early)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with client.send("POST", f"http://127.0.0.1:{port}/", {}, b"{}") as response:
        assert (response.status, response.headers) == (201, {"x-one": "1", "content-length": "2"})
        assert await response.read() == b"ok"
    server.close()


async def test_an_answer_is_there_though_its_server_never_ends_the_response() -> None:
    async with openai_server([Turn(text="done", stall=True), Turn(text="next")]) as fake:
        model = NativeModel("fake", api_base=fake.base_url)
        assert (await ask(model)).message.text == "done"
        await asyncio.wait_for(fake.client_left.wait(), 5)
        assert (await ask(model)).message.text == "next"
        await model.close()
    assert fake.connections == 2


async def test_a_connection_that_ended_while_it_was_idle_is_replaced(client: HttpClient) -> None:
    async with openai_server([Turn(text="a"), Turn(hang_up=True), Turn(text="b")]) as fake:
        url = f"{fake.base_url}/chat/completions"
        assert (await post(client, url))[0] == 200
        assert b'"b"' in (await post(client, url))[1]


async def test_a_failed_status_leaves_its_connection_open() -> None:
    async with openai_server([Turn(status=429), Turn(text="a")]) as fake:
        model = NativeModel("fake", api_base=fake.base_url)
        with pytest.raises(ModelError):
            await ask(model)
        assert (await ask(model)).message.text == "a"
        await model.close()
    assert fake.connections == 1


async def test_sending_a_large_request_is_not_silence() -> None:
    class Sending:
        """A transfer and its pool; says each time that more has left, then twice the same."""

        def __init__(self) -> None:
            self.sent = iter([100, 200, 300, 400, 400])

        def setopt(self, option: int, value: object) -> None:
            pass

        def getinfo(self, info: int) -> int:
            assert info == pycurl.SIZE_UPLOAD_T
            return next(self.sent)

        def add_handle(self, curl: object) -> asyncio.Future[object]:
            return asyncio.get_running_loop().create_future()

    curl = Sending()
    response = Response(curl, curl, 0.01, "")  # type: ignore[arg-type]  # the parts that are used
    with pytest.raises(TimeoutError):
        await response.begin()
    assert list(curl.sent) == []


async def test_a_reader_that_leaves_as_the_connection_breaks_leaves_no_warning(
    client: HttpClient,
) -> None:
    warnings: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: warnings.append(context))
    async with openai_server([Turn(text="x", cut_after=90)]) as fake:
        with pytest.raises(asyncio.CancelledError):
            async with client.send(
                "POST", f"{fake.base_url}/chat/completions", KEY, BODY
            ) as response:
                await asyncio.wait([response._done])
                raise asyncio.CancelledError
    del response
    gc.collect()
    assert warnings == []


async def test_a_password_in_the_address_is_not_shown() -> None:
    model = NativeModel("fake", api_base="http://user:passw0rd@127.0.0.1:1/v1")
    with pytest.raises(ModelError, match="nothing answers at http://") as caught:
        await ask(model)
    await model.close()
    assert "passw0rd" not in str(caught.value)


async def test_closing_the_client_ends_what_is_being_read(client: HttpClient) -> None:
    async with openai_server([Turn(text="x", cut_after=90, stall=True)]) as fake:
        async with client.send("POST", f"{fake.base_url}/chat/completions", KEY, BODY) as response:
            await response.read()
            reading = asyncio.create_task(response.read())
            await asyncio.sleep(0)
            await client.close()
            with pytest.raises(ConnectionAbortedError):
                await reading
        await asyncio.wait_for(fake.client_left.wait(), 5)
