"""A provider's figures are read under whatever name it gives them, priced as litellm does, or
estimated."""

import math
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codeagent.core.messages import AssistantMessage, ImagePart, TextPart, Usage, UserMessage
from codeagent.llm import litellm_model
from codeagent.llm.catalog import entry
from codeagent.llm.providers import Target, native_target
from codeagent.llm.usage import (
    estimated_usage,
    off_peak_rates,
    read_usage,
    to_usage,
    tokens,
    with_cost,
)
from tests.effort import FACTOR, part
from tests.llm.asking import request
from tests.table import for_each


def test_usage_is_read_where_the_provider_sent_figures() -> None:
    assert read_usage(SimpleNamespace(usage=None)) is None
    assert read_usage(SimpleNamespace(usage={"prompt_tokens": 0, "completion_tokens": 0})) is None
    figures = {"prompt_tokens": 3, "completion_tokens": 1}
    counted = Usage(input_tokens=3, output_tokens=1)
    assert read_usage(SimpleNamespace(usage=figures)) == counted
    assert read_usage(SimpleNamespace(x_groq={"usage": figures})) == counted
    assert read_usage({"usage": {**figures, "cost": 0.5}}) == replace(counted, cost_usd=0.5)


def test_usage_counts_the_cache_under_each_providers_names() -> None:
    openai = {
        "prompt_tokens": 100,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
    assert to_usage(openai) == Usage(
        input_tokens=100, output_tokens=9, cache_read_tokens=64, reasoning_tokens=4
    )
    anthropic = {
        "prompt_tokens": 1000,
        "completion_tokens": 9,
        "cache_read_input_tokens": 700,
        "cache_creation_input_tokens": 200,
    }
    assert to_usage(anthropic) == Usage(
        input_tokens=1000, output_tokens=9, cache_read_tokens=700, cache_write_tokens=200
    )
    assert to_usage({"prompt_tokens": 5, "prompt_cache_hit_tokens": 2}).cache_read_tokens == 2


def test_reasoning_counted_beside_the_output_is_output_too() -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 4}}
    xai = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 16, **details}
    assert to_usage(xai).output_tokens == 6
    assert to_usage(xai | {"completion_tokens": 6}).output_tokens == 6


def usage(asked: int, said: int, read: int = 0, written: int = 0, thought: int = 0) -> Usage:
    return Usage(
        input_tokens=asked,
        output_tokens=said,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=thought,
    )


USAGES = (
    usage(1_000, 200),
    usage(1_000, 200, 300, 400, 50),
    usage(128_000, 10),
    usage(150_000, 5_000, 100_000, 0, 1_000),
    usage(200_000, 10),
    usage(250_000, 9_000, 0, 50_000),
    usage(300_000, 100, 1_000, 1_000, 100),
    usage(900_000, 100, 1_000, 1_000, 100),
)
EXPLAINED = {
    "fireworks_ai": "litellm guesses a price for reading the cache where the table has none",
    "perplexity": "it reports its costs itself",
    "xai": "litellm adds the reasoning to the output here; ours is added when the figures are read",
    "bedrock": "some are priced by the second",
    "vertex_ai": "litellm does not find some of its own names",
    "gemini": "litellm prices one experimental model at nothing",
}


def target(name: str, **changes: Any) -> Target:
    found = native_target(name, "http://127.0.0.1:1/v1", None, {})
    assert found is not None
    return replace(found, **changes)


def litellm_cost(library: Any, provider: str, bare: str, used: Usage) -> float | None:
    figures = library.Usage(
        prompt_tokens=used.input_tokens,
        completion_tokens=used.output_tokens,
        reasoning_tokens=used.reasoning_tokens,
        cache_read_input_tokens=used.cache_read_tokens,
        cache_creation_input_tokens=used.cache_write_tokens,
    )
    try:
        return float(
            sum(
                library.cost_per_token(
                    model=bare, custom_llm_provider=provider, usage_object=figures
                )
            )
        )
    except Exception:
        return None


@pytest.mark.soak(tried=8_000)
@pytest.mark.xdist_group("litellm")
def test_a_cost_is_the_one_litellm_counts_for_every_chat_model() -> None:
    library = litellm_model._import()
    any_target, compared = target("some-model"), 0
    for name, info in part([*library.model_cost.items()], 300):
        provider = info.get("litellm_provider", "")
        if info.get("mode") not in ("chat", "responses") or provider in EXPLAINED:
            continue
        bare = name.removeprefix(f"{provider}/")
        asked = replace(
            any_target, provider=provider, facts=entry(f"{provider}/{bare}", bare, name)
        )
        for used in USAGES:
            ours, theirs = (
                with_cost(asked, used).cost_usd,
                litellm_cost(library, provider, bare, used),
            )
            compared += ours is not None
            assert ours is None or theirs is None or math.isclose(ours, theirs, abs_tol=1e-12), (
                name,
                used,
                ours,
                theirs,
            )
            assert ours is not None or not theirs, name
    assert compared > (8_000 if FACTOR else 500)


def test_a_cost_that_the_provider_names_is_kept() -> None:
    priced = with_cost(target("gpt-5"), replace(usage(1_000, 10), cost_usd=0.5))
    assert priced.cost_usd == 0.5


def test_a_model_without_a_price_has_no_cost() -> None:
    assert with_cost(target("some-model"), usage(1_000, 10)).cost_usd is None


def test_every_token_of_a_long_prompt_costs_more() -> None:
    facts = entry("gemini/gemini-2.5-pro")
    short, long = (
        with_cost(target("x", facts=facts), usage(asked, 0)).cost_usd
        for asked in (200_000, 200_001)
    )
    assert short is not None and long is not None and long > 1.9 * short


@for_each(
    ("now", "quiet"),
    [
        ("2026-11-20 03:59", False),
        ("2026-11-20 04:00", True),
        ("2026-11-20 06:00", False),
        ("2026-11-20 23:59", True),
        ("2026-11-21 08:00", True),
    ],
)
def test_quiet_hours_cost_what_the_provider_says(now: str, quiet: bool) -> None:
    rates = off_peak_rates(entry("deepseek/deepseek-v4-pro"), datetime.fromisoformat(now))
    assert rates.get("input_cost_per_token") == (6.6e-07 if quiet else None)


def test_without_figures_the_texts_are_counted_and_it_says_so() -> None:
    asked = request(
        UserMessage(
            content=(TextPart(text="word " * 400), ImagePart(media_type="image/png", data="x"))
        )
    )
    counted = estimated_usage(target("gpt-5"), asked, AssistantMessage(text="done " * 40))
    assert (
        counted.estimated
        and 1_300 < counted.input_tokens < 1_700
        and 30 < counted.output_tokens < 50
    )
    assert counted.cost_usd is not None


@pytest.mark.xdist_group("litellm")
@pytest.mark.parametrize(
    "path", ["codeagent/llm/usage.py", "docs/how-to/models.md", "codeagent/llm/providers.json"]
)
def test_an_estimate_is_within_a_tenth_of_a_tokenizer(path: str) -> None:
    text = Path(path).read_text()
    assert (
        abs(tokens(text) / litellm_model._import().token_counter(model="gpt-4", text=text) - 1)
        < 0.1
    )
