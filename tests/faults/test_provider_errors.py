"""The matrix of provider failures: each has its kind, whether it is worth repeating, and one line
that helps."""

import gzip
import json
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from email.utils import formatdate
from pathlib import Path

import pytest

from codeagent.core.errors import ModelError
from codeagent.core.messages import AssistantMessage, ToolCall, UserMessage
from codeagent.core.model import Retrying
from codeagent.llm.errors import FailedRequest, ProviderError, model_error, retry_after
from codeagent.llm.litellm_model import LitellmModel
from codeagent.llm.native.model import NativeModel
from codeagent.llm.provider_model import ProviderModel
from codeagent.llm.providers import native_target
from codeagent.llm.retry import RetryingModel
from codeagent.net.http import ProxyError
from tests.faults.provider_wires import WIRES
from tests.llm.asking import LANES, LITELLM_WORKER, Heard, ask, request, result
from tests.servers import (
    FakeProvider,
    Turn,
    anthropic_server,
    behind_tls,
    openai_server,
    self_signed,
)
from tests.table import for_each

Server = Callable[..., AbstractAsyncContextManager[FakeProvider]]
BOTH = pytest.mark.parametrize(
    ("server", "name"),
    [(openai_server, "fake"), (anthropic_server, "anthropic/claude-sonnet-4-5")],
    ids=["openai", "anthropic"],
)
CANARY = "sk-canary-0123456789"
Lane = type[ProviderModel]


@pytest.fixture(params=LANES)
def lane(request: pytest.FixtureRequest) -> Lane:
    chosen: Lane = request.param
    return chosen


def said(message: str, **fields: str) -> str:
    return json.dumps(
        {"type": "error", "error": {"type": "some_error", "message": message, **fields}}
    )


async def failures(
    lane: Lane, server: Server, name: str, turns: Sequence[Turn], **options: float
) -> list[ModelError]:
    """What one model makes of each turn, asked one after the other."""
    errors = []
    async with server(turns) as fake:
        model = lane(name, api_base=fake.base_url, api_key=CANARY, **options)  # type: ignore[arg-type]  # as given
        for turn in turns:
            with pytest.raises(ModelError) as caught:
                await ask(model)
            said = str(caught.value)
            assert "\n" not in said and "litellm" not in said.lower() and CANARY not in said, turn
            errors.append(caught.value)
        await model.close()
    return errors


async def failure(
    lane: Lane, server: Server, name: str, turn: Turn, **options: float
) -> ModelError:
    (error,) = await failures(lane, server, name, [turn], **options)
    return error


STATUSES: list[tuple[Turn, str, bool, str]] = [
    (Turn(status=401, body=said("invalid x-api-key")), "auth", False, ": invalid x-api-key"),
    (
        Turn(status=403, body=said("not for you")),
        "auth",
        False,
        "may not use this model: not for you; choose another model with /model, or --model",
    ),
    (
        Turn(status=404, body=said("model: nope")),
        "bad_request",
        False,
        "model: nope; check the model's name, or choose one with /model",
    ),
    (
        Turn(status=400, body=said("temperature is bad")),
        "bad_request",
        False,
        "rejected: temperature is bad",
    ),
    (
        Turn(status=422, body=said("cannot be processed")),
        "bad_request",
        False,
        "cannot be processed",
    ),
    (
        Turn(status=400, body=said("prompt is too long: 9 tokens > 8 maximum")),
        "context_window",
        False,
        "too long",
    ),
    (
        Turn(
            status=400,
            body=said(
                "This model's maximum context length is 8 tokens", code="context_length_exceeded"
            ),
        ),
        "context_window",
        False,
        "maximum context length",
    ),
    (Turn(status=413, body=said("Request too large")), "context_window", False, "too long"),
    (Turn(status=429, body=said("slow down")), "rate_limit", True, "too many requests: slow down"),
    (
        Turn(status=429, body=said("You exceeded your current quota.")),
        "rate_limit",
        False,
        "no quota left: You exceeded your current quota; choose another model with /model",
    ),
    (
        Turn(status=400, body=said("Your credit balance is too low")),
        "rate_limit",
        False,
        "no quota left: Your credit balance is too low; choose another model",
    ),
    (
        Turn(status=400, body=said("Invalid schema for function 'read_billing'")),
        "bad_request",
        False,
        "rejected: Invalid schema for function 'read_billing'",
    ),
    (
        Turn(status=402, body=said("Insufficient Balance")),
        "rate_limit",
        False,
        "no quota left: Insufficient Balance",
    ),
    (Turn(status=500, body=said("oops")), "server", True, "status 500: oops"),
    (
        Turn(status=502, body="<html><body>Bad Gateway</body></html>"),
        "server",
        True,
        "status 502: an HTML page",
    ),
    (Turn(status=503, body=said("busy")), "server", True, "status 503: busy"),
    (Turn(status=504, body=""), "server", True, "status 504"),
    (
        Turn(status=529, body=said("Overloaded")),
        "overloaded",
        True,
        "the provider is overloaded: Overloaded",
    ),
]
"""What the provider answers; then the error's kind, whether asking again may help, and a part of
its line."""


@BOTH
async def test_each_status_has_its_kind(server: Server, name: str, lane: Lane) -> None:
    errors = await failures(lane, server, name, [turn for turn, *_ in STATUSES])
    for error, (turn, kind, retryable, text) in zip(errors, STATUSES, strict=True):
        assert (error.status, error.kind, error.retryable) == (turn.status, kind, retryable), turn
        assert str(error).startswith(f"{name}: ") and text in str(error), turn


async def test_refused_content_is_told_from_a_bad_request(lane: Lane) -> None:
    body = said("Your request was rejected by our safety system", code="content_policy_violation")
    error = await failure(lane, openai_server, "fake", Turn(status=400, body=body))
    assert (error.kind, error.retryable) == ("content_policy", False)


@BOTH
async def test_a_server_that_is_not_there_is_named(server: Server, name: str, lane: Lane) -> None:
    async with server([]) as fake:
        address = fake.base_url
    model = lane(name, api_base=address, api_key="k")
    with pytest.raises(ModelError) as caught:
        await ask(model)
    await model.close()
    assert str(caught.value) == f"{name}: nothing answers at {address}; is the server running?"
    assert (caught.value.kind, caught.value.retryable, caught.value.status) == (
        "connection",
        True,
        None,
    )


@pytest.mark.parametrize("name", ["fake", "anthropic/x"])
async def test_a_host_without_an_address_is_named(name: str, lane: Lane) -> None:
    model = lane(name, api_base="http://no-such-host.invalid/v1", api_key="k")
    with pytest.raises(
        ModelError, match=r"cannot reach http://no-such-host.invalid/v1: are you offline"
    ) as caught:
        await ask(model)
    await model.close()
    assert (caught.value.kind, caught.value.retryable) == ("connection", True)


@LITELLM_WORKER
async def test_a_provider_that_cannot_be_reached_is_named_by_its_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    for name in ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    model = LitellmModel("anthropic/claude-sonnet-4-5", api_key="k")
    with pytest.raises(ModelError) as caught:
        await ask(model)
    await model.close()
    assert (
        str(caught.value)
        == "anthropic/claude-sonnet-4-5: cannot reach api.anthropic.com: are you offline?"
    )


async def test_a_server_named_by_the_providers_variable_is_named_by_its_address(
    monkeypatch: pytest.MonkeyPatch, lane: Lane
) -> None:
    async with anthropic_server([Turn(status=401, body=said("invalid x-api-key"))]) as fake:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.base_url)
        model = lane("anthropic/claude-sonnet-4-5", api_key="k")
        with pytest.raises(ModelError, match=f"key refused by {fake.base_url}: invalid x-api-key"):
            await ask(model)
        await model.close()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ProviderError({"message": "no"}, 401), "key refused by anthropic: no"),
        (
            socket.gaierror(socket.EAI_AGAIN, "no"),
            "cannot reach api.anthropic.com: are you offline?",
        ),
        (
            ProxyError("proxy:3128", "it answered with status 407", 407),
            "no way through the proxy proxy:3128: it",
        ),
    ],
)
def test_a_failure_names_the_provider_it_happened_with(error: Exception, text: str) -> None:
    name = "anthropic/claude-sonnet-4-5"
    target = native_target(name, None, "k", {})
    assert target is not None
    failed = FailedRequest(name, target.address, target.owner, 1.0)
    assert str(model_error(error, failed, streaming=False, clean=str)).startswith(f"{name}: {text}")


@BOTH
async def test_a_certificate_nobody_signed_is_not_tried_again(
    server: Server, name: str, lane: Lane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No variable changes that, not even litellm's own."""
    monkeypatch.setenv("SSL_VERIFY", "False")
    certificate = self_signed(tmp_path, "IP:127.0.0.1")
    async with server([]) as fake, behind_tls(fake, certificate) as port:
        model = lane(name, api_base=f"https://127.0.0.1:{port}", api_key="k")
        with pytest.raises(
            ModelError, match=rf"no secure connection to https://127\.0\.0\.1:{port}: "
        ) as caught:
            await ask(model)
        await model.close()
        assert fake.requests == []
    assert (caught.value.kind, caught.value.retryable) == ("connection", False)


@BOTH
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_reported_and_not_followed(
    server: Server, name: str, status: int, lane: Lane
) -> None:
    async with server([Turn(text="a")]) as other:
        moved = Turn(status=status, headers={"location": f"{other.base_url}/elsewhere"}, body="")
        error = await failure(lane, server, name, moved)
        assert other.requests == []
    assert str(error).endswith(
        f" sent no answer but a redirect to {other.base_url}/elsewhere; check the address"
    )
    assert not error.retryable


@BOTH
@pytest.mark.parametrize("after", [0, 600], ids=["before the first byte", "in mid-answer"])
async def test_silence_ends_the_request(server: Server, name: str, after: int, lane: Lane) -> None:
    error = await failure(
        lane, server, name, Turn(text="word " * 50, cut_after=after, stall=True), idle_timeout=0.3
    )
    assert (error.kind, error.retryable) == ("timeout", True)
    assert "sent nothing for 0.3 s" in str(error)


@BOTH
async def test_an_answer_may_take_longer_than_the_limit_of_silence(
    server: Server, name: str, lane: Lane
) -> None:
    async with server([Turn(text="word " * 20)], chunk=300, delay=0.1) as fake:
        model = lane(name, api_base=fake.base_url, api_key="k", idle_timeout=0.4)
        assert (await ask(model)).message.text == "word " * 20
        await model.close()


async def test_an_error_in_the_middle_of_an_openai_stream(lane: Lane) -> None:
    cases = {
        '{"error":{"message":"Overloaded, try later","code":"x"}}': ("overloaded", True),
        '{"error":{"message":"Token limit reached","code":400}}': ("bad_request", False),
        '{"error":{"message":"Internal trouble"}}': ("server", True),
    }
    begun = 'data: {"id":"1","choices":[{"index":0,"delta":{"content":"ha"}}]}'
    turns = [Turn(raw=f"{begun}\n\ndata: {event}\n\n".encode()) for event in cases]
    errors = await failures(lane, openai_server, "fake", turns)
    assert [(error.kind, error.retryable) for error in errors] == [*cases.values()]


async def test_an_error_in_the_middle_of_an_anthropic_stream(lane: Lane) -> None:
    raw = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    error = await failure(lane, anthropic_server, "anthropic/x", Turn(raw=raw))
    assert (error.kind, error.retryable) == ("overloaded", True)


NAMED = {
    "rate_limit_exceeded": ("rate_limit", True),
    "overloaded_error": ("overloaded", True),
    "server_error": ("server", True),
    "timeout_error": ("server", True),
    "insufficient_quota": ("rate_limit", False),
    "authentication_error": ("auth", False),
    "permission_error": ("auth", False),
    "invalid_prompt": ("bad_request", False),
    "invalid_request_error": ("bad_request", False),
    "of_a_new_kind": ("server", True),
}
"""What an error in the middle of a stream calls itself; its kind, and whether asking again may
help."""


@for_each("name, expected", NAMED.items())
async def test_an_error_in_the_middle_of_any_stream_is_known_by_its_name(
    name: str, expected: tuple[str, bool]
) -> None:
    for wire in WIRES:
        error = await failure(NativeModel, wire.server, wire.model, wire.broken(name, "it says no"))
        assert (error.kind, error.retryable) == expected, (wire.name, error)


HTML = "content-type: text/html; charset=utf-8"
JSON = "content-type: application/json"
LOGIN = b"<!doctype html>\n<html><head><title>Sign in to the\n network</title></head><body>words</body></html>"


NO_STREAMS: list[tuple[tuple[str, bytes], str]] = [
    (
        (HTML, LOGIN),
        "a web page titled 'Sign in to the network' that begins: <!doctype html>; check the address",
    ),
    (
        (HTML + "\r\ncontent-encoding: gzip", gzip.compress(LOGIN)),
        "a web page titled 'Sign in to the network'",
    ),
    (("content-type: text/event-stream", LOGIN), "a web page titled 'Sign in to the network'"),
    (
        (JSON, b'{"error": {"message": "no model is loaded"}}'),
        'JSON that begins: {"error": {"message": "no model',
    ),
    (
        (JSON, b'{\n  "detail": "not signed in"\n}\n'),
        'JSON that begins: {"detail": "not signed in"}',
    ),
    ((JSON, b'["queued"]'), 'JSON that begins: ["queued"]'),
    (
        ("content-type: text/plain", b"upstream is starting\ntry later\n"),
        "text that begins: upstream is starting",
    ),
]
"""A page, and what is said of it."""


@BOTH
async def test_a_200_that_is_no_stream_says_what_came_and_is_not_tried_again(
    server: Server, name: str, lane: Lane
) -> None:
    errors = await failures(lane, server, name, [Turn(page=page) for page, _ in NO_STREAMS])
    for error, (page, text) in zip(errors, NO_STREAMS, strict=True):
        assert (error.kind, error.retryable) == ("server", False), page
        assert f"sent no answer but {text}" in str(error), page


TOO_LONG = [
    (400, "prompt is too long: 215000 tokens > 200000 maximum"),  # Anthropic
    (
        400,
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    ),  # Anthropic
    (413, "Request exceeds the maximum size"),  # Anthropic, in bytes
    (
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens",
    ),
    (
        None,
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),  # responses
    (
        400,
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)",
    ),  # Gemini
    (
        400,
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens",
    ),  # xAI
    (400, "Input is too long for requested model."),  # Bedrock
    (400, "Please reduce the length of the messages or completion."),  # Groq
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096"),  # TGI
    (400, "the request exceeds the available context size, try increasing it"),  # llama.cpp
    (500, "Context size has been exceeded."),  # llama.cpp, older
    (
        400,
        "Trying to keep the first 9000 tokens, but it is loaded with context length of only 4096",
    ),  # LM Studio
    (400, "prompt token count of 140000 exceeds the limit of 128000"),  # GitHub Copilot
    (400, "Invalid request: Your request exceeded model token limit: 262144"),  # Moonshot
    (400, "Request tokens exceed the maximum length"),  # Zhipu
    (400, "Current length is 9000 while limit is 8192"),  # Cerebras
    (
        400,
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.",
    ),
    (400, "tokens to keep from the initial prompt is greater than the context length"),  # LM Studio
    (400, "invalid params, context window exceeds limit (2013)"),  # MiniMax
    (400, "Range of input length should be [1, 30720]"),  # Qwen
    (400, "Prompt tokens (9000) exceeds context size (8192)"),  # ds4
    (400, "too many tokens: total number of tokens in the prompt cannot exceed 4081"),  # Cohere
    (400, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
    (
        400,
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    ),  # Mistral
]
"""How providers and local servers say that a request is too long, with which status."""


@for_each(
    ("words", "tokens"),
    [
        (
            "request (7268 tokens) exceeds the available context size (2048 tokens), try increasing it",
            7268,
        ),
        ("prompt is too long: 215000 tokens > 200000 maximum", 215_000),
        ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", 190_000),
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens",
            9000,
        ),
        (
            "maximum context length is 8192 tokens. You requested 9500 tokens (9000 in the messages, 500 in the",
            9000,
        ),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)",
            1_200_000,
        ),
        (
            "This model's maximum prompt length is 131072 but the request contains 140000 tokens",
            140_000,
        ),
        ("prompt token count of 140000 exceeds the limit of 128000", 140_000),
        ("Current length is 9000 while limit is 8192", 9000),
        (
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            40_000,
        ),
        ("Invalid request: Your request exceeded model token limit: 262144", None),
        ("Context size has been exceeded.", None),
    ],
)
def test_what_a_provider_counted_is_known_from_its_refusal(words: str, tokens: int | None) -> None:
    request = FailedRequest("m", "https://api.example", "api.example", 300)
    body = json.dumps({"error": {"message": words}}).encode()
    error = model_error(
        ProviderError.of_response(400, {}, body), request, streaming=False, clean=str
    )
    assert (error.kind, error.prompt_tokens) == ("context_window", tokens)


@for_each("status, words", TOO_LONG)
def test_a_request_that_is_too_long_is_known_by_the_words_of_each_provider(
    status: int | None, words: str
) -> None:
    request = FailedRequest("m", "https://api.example", "api.example", 300)
    for streaming in (False, True):
        error = model_error(
            ProviderError({"message": words}, status), request, streaming=streaming, clean=str
        )
        assert (error.kind, error.retryable) == ("context_window", False)


OF_OTHER_SIZES = [
    (429, "Request too large for gpt-5 on tokens per min (TPM)"),
    (400, "max_tokens is too large"),
    (400, "Invalid 'user': string too long (string_above_max_length): too many tokens"),
    (400, "max_tokens: 100000 exceeds the limit of 8192 output tokens"),
    (400, "the image exceeds the maximum size"),
]


@for_each("status, words", OF_OTHER_SIZES)
def test_other_complaints_about_size_are_not_taken_for_it(status: int, words: str) -> None:
    request = FailedRequest("m", "https://api.example", "api.example", 300)
    error = model_error(
        ProviderError({"message": words}, status), request, streaming=False, clean=str
    )
    assert error.kind in ("rate_limit", "bad_request")


async def test_the_responses_api_says_it_in_its_stream(lane: Lane) -> None:
    said = {"code": "context_length_exceeded", "message": TOO_LONG[4][1]}
    failed = {"type": "response.failed", "response": {"error": said}}
    page = ("content-type: text/event-stream", f"data: {json.dumps(failed)}\n\n".encode())
    error = await failure(lane, openai_server, "openai/responses/gpt-5", Turn(page=page))
    assert error.kind == "context_window"


@BOTH
async def test_an_error_with_status_200_is_read_like_any_other(
    server: Server, name: str, lane: Lane
) -> None:
    cases = {
        '{"error": {"message": "Overloaded, try later"}}': ("overloaded", True),
        '{"error": {"message": "busy", "code": 503}}': ("server", True),
        '{"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}': (
            "context_window",
            False,
        ),
    }
    errors = await failures(
        lane, server, name, [Turn(page=(JSON, body.encode())) for body in cases]
    )
    assert [(error.kind, error.retryable) for error in errors] == [*cases.values()]


@BOTH
async def test_a_reset_before_the_first_byte_is_a_broken_connection_and_has_no_status(
    server: Server, name: str, lane: Lane
) -> None:
    error = await failure(lane, server, name, Turn(hang_up=True))
    assert (error.kind, error.retryable, error.status) == ("connection", True, None)
    assert str(error).endswith("closed the connection before it answered")


@BOTH
async def test_a_key_in_the_providers_answer_is_masked(
    server: Server, name: str, lane: Lane
) -> None:
    error = await failure(
        lane, server, name, Turn(status=401, body=said(f"Incorrect API key provided: {CANARY}"))
    )
    assert "Incorrect API key provided: " in str(error)


@BOTH
async def test_the_providers_pause_is_read(server: Server, name: str, lane: Lane) -> None:
    pauses: dict[str | None, float | None] = {"7": 7.0, "1e9": 120.0, "soon": None, None: None}
    turns = [
        Turn(status=429, headers={} if value is None else {"retry-after": value})
        for value in pauses
    ]
    errors = await failures(lane, server, name, turns)
    assert [error.retry_after for error in errors] == [*pauses.values()]


@for_each(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("2.5", 2.5),
        ("-3", 0.0),
        ("inf", 120.0),
        ("nan", None),
        ("", None),
        (formatdate(1000, usegmt=True), 0.0),
        (formatdate(1030, usegmt=True), 30.0),
        (formatdate(9999, usegmt=True), 120.0),
        ("Mon, 99 Foo 2026", None),
    ],
)
def test_a_pause_is_seconds_or_a_date_and_never_over_two_minutes(
    value: str | None, seconds: float | None
) -> None:
    assert retry_after(value, lambda: 1000.0) == seconds


@BOTH
async def test_a_failure_that_passes_leaves_one_whole_answer(
    server: Server, name: str, lane: Lane
) -> None:
    """At the first request and after tools: busy, cut in the middle of a call, then well."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    call = ToolCall(id="call_0001", name="read", arguments="{}")
    after_tools = request(
        UserMessage.from_text("hi"), AssistantMessage(calls=(call,)), result(call, "x")
    )
    good = Turn(text="all good", calls=(("read", {"path": "a"}),))
    turns = [
        Turn(status=429, headers={"retry-after": "9"}),
        Turn(text="all go", cut_after=420),
        good,
    ]
    for asked in (request(), after_tools):
        async with server(turns) as fake:
            model = RetryingModel(
                lane(name, api_base=fake.base_url, api_key="k"), sleep=sleep, jitter=lambda: 1.0
            )
            heard = await ask(model, asked)
            await model.close()
        last = max(n for n, event in enumerate(heard.events) if isinstance(event, Retrying))
        assert Heard(heard.events[last + 1 :]).text == heard.message.text == "all good"
        assert [retry.attempt for retry in heard.retries] == [2, 3]
    assert slept == [9.0, 4.0, 9.0, 4.0]
