"""A provider's figures are read under whatever name it gives them."""

from dataclasses import replace
from types import SimpleNamespace

from codeagent.core.messages import Usage
from codeagent.llm.usage import read_usage, to_usage


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
    assert to_usage(openai) == Usage(input_tokens=100, output_tokens=9, cache_read_tokens=64, reasoning_tokens=4)
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
