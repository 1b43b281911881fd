"""Tools as text: chosen in the settings, or found out when the provider refuses native calls, over
real HTTP."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codeagent.app.models import model_options
from codeagent.config.settings import ExtensionSettings, Settings
from codeagent.core.errors import ModelError
from codeagent.core.messages import UserMessage
from codeagent.core.model import Adapted
from codeagent.extensions.text_calls.native_first import wrapped
from codeagent.extensions.text_calls.settings import TextToolSetting, TextToolSettings
from codeagent.llm.factory import ModelOptions, open_model
from codeagent.llm.refusals import refuses_tools
from codeagent.llm.retry import RetryingModel
from codeagent.llm.server_knowledge import ServerKnowledge
from tests.extensions.text_calls.reading import HERMES, JSON, call
from tests.extensions.text_calls.text_server import text_server
from tests.llm.asking import LITELLM_WORKER, ask, request, result
from tests.servers import FakeProvider, Turn
from tests.table import for_each

LS = '{"command": "ls"}'
FENCED = JSON.render_call(call("bash", LS))
REFUSALS = [
    (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
    (500, "tools param requires --jinja flag"),
    (500, "Unsupported param: tools"),
    (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    (
        404,
        "No endpoints found that support tool use. To learn more about provider routing, visit: https://x",
    ),
    (
        400,
        "tools is not supported in this model. For a list of supported models, refer to https://x",
    ),
    (400, "Function calling is not enabled for models/gemma-3-27b-it"),
    (400, "`tool calling` is not supported with this model"),
    (400, "This model doesn't support tool use in streaming mode."),
    (400, "Unrecognized request argument supplied: tools"),
    (501, "The model does not support function calling."),
]
OTHERS = [
    (400, "Unknown parameter: 'tools[0].function.strict'"),
    (400, "Invalid 'tools': array too long. Expected an array with maximum length 128"),
    (400, "tools.0.custom.input_schema: JSON schema is invalid"),
    (404, "The model `x` does not exist"),
    (400, "this model does not support images"),
]


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


def telling(text_tools: TextToolSettings | None = None) -> ModelOptions:
    """The options of a start with these settings."""
    settings = Settings(sections={"text_tools": text_tools or TextToolSettings()})
    return ModelOptions([lambda model, learned: wrapped(model, learned, settings)])


def chosen(*choices: tuple[str, Any]) -> TextToolSettings:
    """Settings with a protocol for each pattern over the model's name."""
    rows = (TextToolSetting(model=model, protocol=protocol) for model, protocol in choices)
    return TextToolSettings(models=tuple(rows))


@pytest.fixture(params=["auto", pytest.param("litellm", marks=LITELLM_WORKER)])
async def model_at(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., RetryingModel]]:
    """Of both lanes."""
    opened: list[RetryingModel] = []

    def make(server: FakeProvider, text_tools: TextToolSettings | None = None) -> RetryingModel:
        options = replace(telling(text_tools), wire=request.param)
        opened.append(open_model("openai/fake", api_base=server.base_url, options=options))
        return opened[-1]

    yield make
    for model in opened:
        await model.close()


def refusal(status: int, message: str) -> Turn:
    return Turn(
        status=status,
        body=json.dumps({"error": {"message": message, "type": "invalid_request_error"}}),
    )


@pytest.mark.parametrize(("status", "message"), REFUSALS)
async def test_a_provider_that_refuses_tools_is_asked_again_with_text(
    status: int, message: str, model_at: Callable[..., RetryingModel]
) -> None:
    async with text_server(
        [refusal(status, message), Turn(text=f"So:\n{FENCED}")], chunk=5
    ) as server:
        heard = await ask(model_at(server))
        native, text = server.requests
        assert "tools" in native.body and "tools" not in text.body
        assert "# Tools" in text.body["messages"][0]["content"]
    [retry] = heard.retries
    assert (retry.attempt, retry.delay) == (2, 0.0)
    assert message[:30] in retry.reason and "written as text from here on (json)" in retry.reason
    assert [(made.name, made.arguments) for made in heard.message.calls] == [("bash", LS)]


@pytest.mark.parametrize(("status", "message"), OTHERS)
async def test_any_other_refusal_stays_an_error(
    status: int, message: str, model_at: Callable[..., RetryingModel]
) -> None:
    async with text_server([refusal(status, message)]) as server:
        with pytest.raises(ModelError):
            await ask(model_at(server))
        assert len(server.requests) == 1


async def test_what_was_found_out_holds_for_the_conversation(
    model_at: Callable[..., RetryingModel],
) -> None:
    turns = [refusal(*REFUSALS[0]), Turn(text=FENCED), Turn(text="Done.")]
    async with text_server(turns) as server:
        model = model_at(server)
        first = await ask(model)
        [made] = first.message.calls
        history = (UserMessage.from_text("hi"), first.message, result(made, "a.py"))
        second = await ask(model, request(*history))
        assert (second.text, second.retries) == ("Done.", [])
        assert ["tools" in sent.body for sent in server.requests] == [True, False, False]
        assert [message["role"] for message in server.requests[2].body["messages"]] == [
            "system",
            "user",
            "assistant",
            "user",
        ]


async def test_the_settings_choose_before_anything_is_asked(
    model_at: Callable[..., RetryingModel],
) -> None:
    settings = chosen(("other/*", "xml"), ("openai/*", "hermes"))
    async with text_server([Turn(text=HERMES.render_call(call("bash", LS)))], chunk=3) as server:
        heard = await ask(model_at(server, settings))
        assert "tools" not in server.requests[0].body
    assert [made.name for made in heard.closed] == ["bash"]


async def test_native_in_the_settings_means_native_whatever_the_provider_says(
    model_at: Callable[..., RetryingModel],
) -> None:
    async with text_server([refusal(*REFUSALS[0])]) as server:
        with pytest.raises(ModelError, match="does not support tools"):
            await ask(model_at(server, chosen(("*", "native"))))


async def test_the_settings_say_what_follows_a_refusal(
    model_at: Callable[..., RetryingModel],
) -> None:
    turns = [refusal(*REFUSALS[0]), Turn(text=HERMES.render_call(call("bash", LS)))]
    async with text_server(turns) as server:
        heard = await ask(model_at(server, TextToolSettings(when_refused="hermes")))
    assert [made.name for made in heard.message.calls] == ["bash"]


async def test_a_failure_that_passes_is_still_repeated(tmp_path: Path) -> None:
    script = tmp_path / "s.json"
    script.write_text(json.dumps([{"error": {"status": 529}}, {"text": FENCED}]))
    model = open_model(f"script:{script}", options=telling(chosen(("script:*", "json"))))
    heard = await ask(model)
    assert [retry.attempt for retry in heard.retries] == [2]
    assert [made.name for made in heard.message.calls] == ["bash"]


@pytest.mark.parametrize("kind", ["auth", "rate_limit", "context_window"])
def test_only_a_rejected_request_is_a_refusal(kind: str) -> None:
    assert not refuses_tools(ModelError("x does not support tools", kind=kind))  # type: ignore[arg-type]  # a parameter


LACKING = {"/props": {"chat_template_caps": {"supports_tools": False}}}
"""What llama-server says whose model has a template without tools."""


def open_at(fake: FakeProvider, learned: ServerKnowledge | None = None) -> RetryingModel:
    learned = learned or ServerKnowledge(fake.base_url, {}, "fake")
    return open_model("openai/fake", api_base=fake.base_url, options=telling(), learned=learned)


async def test_a_model_whose_template_has_no_tools_gets_them_as_text_and_the_user_is_told_once() -> (
    None
):
    block = FENCED
    async with text_server([Turn(text=block), Turn(text="done")]) as fake:
        fake.facts |= LACKING
        model = open_at(fake)
        first, second = await ask(model), await ask(model)
        await model.close()
    told = [event for event in first.events if isinstance(event, Adapted)]
    assert len(told) == 1 and "template has no tools" in told[0].text
    assert not [event for event in second.events if isinstance(event, Adapted)]
    assert [each.name for each in first.message.calls] == ["bash"]
    assert all("tools" not in each.body for each in fake.requests)


async def test_a_server_that_was_started_again_with_a_template_with_tools_gets_them_natively() -> (
    None
):
    async with text_server([Turn(text="a"), Turn(text="b")]) as fake:
        fake.facts |= LACKING
        learned = ServerKnowledge(fake.base_url, {}, "fake")
        model = open_at(fake, learned)
        await ask(model)
        fake.facts["/props"] = {"chat_template_caps": {"supports_tools": True}}
        learned.lost()
        second = await ask(model)
        await model.close()
    assert ["tools" in each.body for each in fake.requests] == [False, True]
    assert [event.text for event in second.events if isinstance(event, Adapted)] == [
        "openai/fake: its server says that its template has tools; they are sent as such"
    ]


async def test_a_template_that_refuses_results_of_tools_gets_them_as_text() -> None:
    refusal = Turn(
        status=400,
        body='{"error": {"message": "Conversation roles must alternate user/assistant"}}',
    )
    async with text_server(
        [Turn(calls=(("bash", {"command": "ls"}),)), refusal, refusal, Turn(text="ok")]
    ) as fake:
        model = open_at(fake, ServerKnowledge())
        first = (await ask(model)).message
        history = request(
            UserMessage.from_text("hi"), first, *(result(each, "out") for each in first.calls)
        )
        assert (await ask(model, history)).message.text == "ok"
        await model.close()
    assert [message["role"] for message in fake.requests[-1].body["messages"]] == [
        "user",
        "assistant",
        "user",
    ]


@for_each(("off", "wraps"), [((), 1), (("text_calls",), 0)])
def test_a_model_is_asked_as_it_is_while_the_extension_is_off(
    off: tuple[str, ...], wraps: int
) -> None:
    settings = Settings(extensions=ExtensionSettings(off=off))
    assert len(model_options(settings).wraps) == wraps
