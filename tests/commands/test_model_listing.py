"""What `/model` lists: real servers on loopback answer for providers, and for those of this
machine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from codeagent.commands import model_listing, model_offers
from codeagent.commands.launcher import LocalLauncher
from codeagent.config.model_marks import MarkedModel
from codeagent.config.settings import PriceSetting, Settings
from codeagent.core.messages import UserMessage
from codeagent.core.model import ModelFacts, ModelRequest
from codeagent.llm.local_servers import LocalServer
from codeagent.tui.launcher import ModelOffer, ModelRow
from tests.commands.test_launching import KEY, Ring, launcher, product  # noqa: F401  # a fixture
from tests.e2e.product import Product
from tests.servers import FakeProvider, openai_server
from tests.table import for_each

SERVED = {
    "data": [{"id": "qwen3", "max_model_len": 32_768}, {"id": "gemma", "max_model_len": 8192}]
}


@pytest.fixture
async def provider() -> AsyncIterator[FakeProvider]:
    async with openai_server([]) as fake:
        yield fake


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> list[LocalServer]:
    """The servers that are found on this machine."""
    found: list[LocalServer] = []

    async def probe() -> tuple[LocalServer, ...]:
        return tuple(found)

    monkeypatch.setattr(model_offers, "local_servers", probe)
    return found


async def offered(
    here: LocalLauncher, settings: Settings, prompt: int | ModelRequest = 0
) -> list[ModelOffer]:
    return [offer async for offer in here.offers(settings, prompt)]


def named(offer: ModelOffer) -> dict[str, ModelRow]:
    assert len({(row.name, row.api_base) for row in offer.rows}) == len(offer.rows)
    return {row.name: row for row in offer.rows}


async def test_what_a_provider_lists_replaces_its_well_known_models(
    product: Product,  # noqa: F811  # the fixture
    provider: FakeProvider,
    local: list[LocalServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider.key = KEY
    provider.facts["/v1/models"] = {"data": [{"id": "gpt-5"}, {"id": "gpt-of-tomorrow"}]}
    monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
    first, last = await offered(launcher(product, Ring({"OPENAI_API_KEY": KEY})), Settings())
    assert "openai/gpt-5-mini" in named(first) and first.waiting == ("openai",)
    ready = [row.name for row in last.rows if row.ready]
    assert ready == ["openai/gpt-5", "openai/gpt-of-tomorrow", "demo"]
    assert named(last)["anthropic/claude-sonnet-5-5"].about == "hosted, needs ANTHROPIC_API_KEY"
    assert (last.waiting, last.problems) == ((), ())


async def test_a_provider_that_does_not_answer_is_reported_and_the_others_are_shown(
    product: Product,  # noqa: F811  # the fixture
    provider: FakeProvider,
    local: list[LocalServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider.key = "another"
    for variable, value in {
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": provider.base_url,
        "GROQ_API_KEY": KEY,
        "GROQ_API_BASE": "http://127.0.0.1:1",
    }.items():
        monkeypatch.setenv(variable, value)
    last = (await offered(launcher(product), Settings(model="openai/gpt-5")))[-1]
    host = provider.base_url[7:-3]
    assert sorted(last.problems) == [
        "groq: no answer from 127.0.0.1:1",
        f"openai: the key was refused by {host}",
    ]
    assert last.rows[0].name == "openai/gpt-5" and "openai/gpt-5-mini" in named(last)


async def test_local_servers_say_what_their_models_can_do(
    product: Product,  # noqa: F811  # the fixture
    provider: FakeProvider,
    local: list[LocalServer],
) -> None:
    provider.facts["/v1/models"] = SERVED
    provider.facts["/api/show"] = {"capabilities": ["tools"]}
    local.append(LocalServer("Ollama", provider.base_url, ("qwen3",)))
    local.append(LocalServer("vLLM", "http://127.0.0.1:1/v1", ("x",)))
    last = (await offered(launcher(product), Settings()))[-1]
    assert named(last)["ollama/qwen3"].facts == ModelFacts(32_768, True, False, False)
    assert named(last)["openai/x"].facts == ModelFacts()
    assert last.problems == ("vLLM on this machine: it does not say what its models can do",)


@for_each("written", ["qwen3", "openai/qwen3"])
@for_each("path", ["/v1", "", "/v1/chat/completions"])
async def test_the_server_in_use_is_asked_with_its_key_and_its_model_is_there_once(
    product: Product,  # noqa: F811  # the fixture
    local: list[LocalServer],
    written: str,
    path: str,
) -> None:
    async with openai_server([]) as server:
        server.facts["/v1/models"] = SERVED
        base = server.base_url.removesuffix("/v1") + path
        here = launcher(product, Ring())
        server.key = "s3cret"
        await here.keep_key(base, "s3cret")
        last = (await offered(here, Settings(model=written, api_base=base)))[-1]
    assert [(row.name, row.api_base, row.facts) for row in last.rows if row.api_base] == [
        (written, base, ModelFacts(32_768)),
        ("openai/gemma", base, ModelFacts(8192)),
    ]
    assert last.problems == ()


async def test_a_server_in_use_that_lists_models_and_then_is_silent_is_still_shown_with_them(
    product: Product,  # noqa: F811  # the fixture
    provider: FakeProvider,
    local: list[LocalServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def too_slow(*_: object) -> None:
        return None

    monkeypatch.setattr(model_listing, "ask_about", too_slow)
    provider.facts["/v1/models"] = SERVED
    used = Settings(model="openai/qwen3", api_base=provider.base_url)
    last = (await offered(launcher(product), used))[-1]
    assert [row.name for row in last.rows if row.api_base] == ["openai/qwen3", "openai/gemma"]
    assert last.problems == ()


@for_each(("model", "sent"), [("openai/m", True), ("m", True), ("anthropic/m", False)])
async def test_the_server_in_use_gets_no_key_that_requests_for_its_model_do_not_take_there(
    product: Product,  # noqa: F811  # the fixture
    local: list[LocalServer],
    model: str,
    sent: bool,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
        patch.delenv("ANTHROPIC_API_KEY", raising=False)
        async with openai_server([]) as server:
            server.facts["/v1/models"] = SERVED
            await offered(launcher(product), Settings(model=model, api_base=server.base_url))
            keys = {one.headers.get("authorization") for one in server.asked}
    assert keys == ({f"Bearer {KEY}"} if sent else {None})


@for_each(("key", "said"), [("sk-of-somebody-else", "it refused the key"), ("", "it wants a key")])
async def test_a_server_in_use_that_refuses_the_key_is_reported(
    product: Product,  # noqa: F811  # the fixture
    local: list[LocalServer],
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    said: str,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    async with openai_server([]) as server:
        server.key = "sk-mine"
        asked = Settings(model="openai/m", api_base=server.base_url)
        last = (await offered(launcher(product), asked))[-1]
    assert f"{server.base_url}: {said}" in last.problems


async def test_a_server_in_use_that_is_gone_is_reported(
    product: Product,  # noqa: F811  # the fixture
    local: list[LocalServer],
) -> None:
    base = "http://127.0.0.1:1/v1"
    last = (await offered(launcher(product), Settings(model="m", api_base=base)))[-1]
    assert last.problems == (f"{base}: it lists no models",)
    assert named(last)["m"].about == f"in use, at {base}"


async def test_a_marked_model_keeps_the_name_and_address_that_it_was_marked_with(
    product: Product,  # noqa: F811  # the fixture
    provider: FakeProvider,
    local: list[LocalServer],
) -> None:
    local.append(LocalServer("vLLM", provider.base_url, ("qwen3",)))
    here, base = launcher(product), provider.base_url.removesuffix("/v1")
    for name in ("qwen3", "gone"):
        here.model_marks.toggle(MarkedModel(name=name, api_base=base))
    last = (await offered(here, Settings()))[-1]
    assert named(last)["qwen3"].api_base == base and "openai/qwen3" not in named(last)
    assert named(last)["qwen3"].about == "vLLM on this machine"
    assert (named(last)["gone"].about, named(last)["gone"].api_base) == ("not listed", base)
    here.model_marks.file.write_text("{")
    assert "gone" not in named((await offered(here, Settings()))[-1])


@for_each(
    ("settings", "name", "cost"),
    [
        (Settings(), "nobody", None),
        (Settings(model="nobody/knows"), "nobody/knows", None),
        (Settings(prices={"demo": PriceSetting(input=2.0, output=9.0)}), "demo", 0.02),
        (
            Settings(
                prices={"openai/gpt-5": PriceSetting(input=7.0, output=9.0)}, model="openai/gpt-5"
            ),
            "openai/gpt-5",
            0.07,
        ),
    ],
)
async def test_the_next_request_costs_what_the_users_own_prices_say(
    product: Product,  # noqa: F811  # the fixture
    local: list[LocalServer],
    settings: Settings,
    name: str,
    cost: float | None,
) -> None:
    rows = named((await offered(launcher(product), settings, 10_000))[-1])
    assert (rows[name].next_cost if name in rows else None) == cost


async def test_a_first_request_is_priced_by_its_prompt_and_tools(
    product: Product,  # noqa: F811  # the fixture
    local: list[LocalServer],
) -> None:
    request = ModelRequest("word " * 10_000, (UserMessage.from_text("hi"),), ())
    rows = named((await offered(launcher(product), Settings(model="openai/gpt-5"), request))[-1])
    facts, cost = rows["openai/gpt-5"].facts, rows["openai/gpt-5"].next_cost
    assert facts is not None and facts.prices is not None and cost is not None
    assert 5_000 < cost * 1_000_000 / facts.prices[0] < 20_000


async def test_a_list_that_is_closed_leaves_no_request_behind(
    product: Product,  # noqa: F811  # the fixture
    local: list[LocalServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = asyncio.Event()

    async def never(*_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    monkeypatch.setattr(model_listing, "models_of", never)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with aclosing(launcher(product).offers(Settings(), 0)) as coming:  # type: ignore[type-var]  # it is a generator
        async for offer in coming:
            assert offer.waiting == ("openai",)
            await asyncio.sleep(0)
            break
    assert left.is_set()


@for_each(
    ("settings", "first", "last"),
    [
        (Settings(model="openai/gpt-4o-mini"), None, None),
        (
            Settings(model="openai/gpt-5"),
            ("off", "asked for as effort minimal"),
            ("high", "asked for as effort high"),
        ),
        (
            Settings(model="anthropic/claude-sonnet-4-5"),
            ("off", "it is not asked to think"),
            ("high", "up to 32,768 tokens of thinking"),
        ),
        (
            Settings(model="qwen3", api_base="http://127.0.0.1:1"),
            ("off", "asked for as effort none"),
            ("high", "asked for as effort high"),
        ),
        (Settings(model="bedrock/unknown"), ("off", ""), ("high", "")),
        (Settings(model="lm_studio/x"), ("off", ""), ("high", "")),
    ],
)
async def test_the_levels_of_thinking_are_those_that_the_model_takes(
    product: Product,  # noqa: F811  # the fixture
    settings: Settings,
    first: tuple[str, str] | None,
    last: tuple[str, str] | None,
) -> None:
    levels = await launcher(product).efforts(settings)
    assert (levels[:1], levels[-1:]) == ((first,) if first else (), (last,) if last else ())
    assert len(levels) in (0, 4)
