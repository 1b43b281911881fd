"""What one answer used and cost: the provider's own figures, or an estimate that says so."""

from dataclasses import dataclass, replace
from typing import Any

from codeagent.core.messages import AssistantMessage, Usage
from codeagent.llm.providers import Target


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    """None: as `input`."""
    cache_write: float | None = None
    """None: as `input`."""

    def priced(self, usage: Usage) -> Usage:
        """Return the usage with its cost at this price."""
        read, written = usage.cache_read_tokens, usage.cache_write_tokens
        fresh = max(usage.input_tokens - read - written, 0)
        cost = fresh * self.input + usage.output_tokens * self.output
        cost += read * (self.input if self.cache_read is None else self.cache_read)
        cost += written * (self.input if self.cache_write is None else self.cache_write)
        return replace(usage, cost_usd=cost / 1_000_000)


def field(value: Any, name: str) -> Any:
    """Return a field of an object or a dictionary; None if it is missing."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def read_usage(chunk: Any) -> Any | None:
    """Return the usage object of the chunk if the provider sent one."""
    usage = field(chunk, "usage")
    if usage is None:
        usage = field(field(chunk, "x_groq"), "usage")
    return usage if usage is not None and _count(usage, "prompt_tokens") + _count(usage, "completion_tokens") else None


def to_usage(raw: Any, cost: float | None) -> Usage:
    """Translate the provider's figures: input tokens include those read from and written to the cache."""
    prompt, completion = field(raw, "prompt_tokens_details"), field(raw, "completion_tokens_details")
    return Usage(
        input_tokens=_count(raw, "prompt_tokens"),
        output_tokens=_count(raw, "completion_tokens"),
        cache_read_tokens=_count(prompt, "cached_tokens")
        or _count(raw, "cache_read_input_tokens")
        or _count(raw, "prompt_cache_hit_tokens"),
        cache_write_tokens=_count(raw, "cache_creation_input_tokens") or _count(prompt, "cache_creation_tokens"),
        reasoning_tokens=_count(completion, "reasoning_tokens"),
        cost_usd=cost,
    )


def provider_usage(library: Any, target: Target, figures: Any) -> Usage:
    """Read `figures`, the usage object of the provider's stream; `library` is litellm."""
    return to_usage(figures, _cost(library, target, figures))


def estimated_usage(library: Any, target: Target, arguments: dict[str, Any], message: AssistantMessage) -> Usage:
    """Count with litellm's bundled tokenizer; a long request takes milliseconds, so not on the event loop."""
    said = [message.text, *(block.text for block in message.thinking)]
    said += [f"{call.name} {call.arguments}" for call in message.calls]
    figures = library.Usage(
        prompt_tokens=library.token_counter(
            model=target.wire_name, messages=arguments["messages"], tools=arguments["tools"]
        ),
        completion_tokens=library.token_counter(model=target.wire_name, text="\n".join(said)),
    )
    return replace(to_usage(figures, _cost(library, target, figures)), estimated=True)


def _cost(library: Any, target: Target, figures: Any) -> float | None:
    """Return US dollars: what the provider reports, else litellm's price; None if neither is known."""
    reported = getattr(figures, "cost", None)
    if isinstance(reported, int | float):
        return float(reported)
    if not target.priced:
        return None
    usage = figures if isinstance(figures, library.Usage) else library.Usage(**figures.model_dump())
    try:
        prompt, completion = library.cost_per_token(
            model=target.bare_name, custom_llm_provider=target.provider, usage_object=usage
        )
    except Exception:
        return None  # a price table with gaps must not lose the answer
    return float(prompt + completion)


def _count(value: Any, name: str) -> int:
    number = field(value, name)
    return int(number) if isinstance(number, int | float) else 0
