"""What one answer used and cost: the provider's own figures, or an estimate that says so."""

from dataclasses import replace
from typing import Any

from codeagent.core.dataclass import dataclass
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


def read_usage(chunk: Any) -> Usage | None:
    """Return the figures of the chunk if the provider sent any."""
    usage = field(chunk, "usage")
    if usage is None:
        usage = field(field(chunk, "x_groq"), "usage")
    counted = usage is not None and _count(usage, "prompt_tokens") + _count(usage, "completion_tokens")
    return to_usage(usage) if counted else None


def to_usage(raw: Any) -> Usage:
    """Translate the provider's figures: input tokens include those read from and written to the cache."""
    prompt, completion = field(raw, "prompt_tokens_details"), field(raw, "completion_tokens_details")
    cost = field(raw, "cost")
    return Usage(
        input_tokens=_count(raw, "prompt_tokens"),
        output_tokens=_count(raw, "completion_tokens"),
        cache_read_tokens=_count(prompt, "cached_tokens")
        or _count(raw, "cache_read_input_tokens")
        or _count(raw, "prompt_cache_hit_tokens"),
        cache_write_tokens=_count(raw, "cache_creation_input_tokens") or _count(prompt, "cache_creation_tokens"),
        reasoning_tokens=_count(completion, "reasoning_tokens"),
        cost_usd=float(cost) if isinstance(cost, int | float) else None,
    )


def with_cost(library: Any, target: Target, usage: Usage) -> Usage:
    """Add litellm's price to what the provider counted but named no cost for; `library` is litellm."""
    return usage if usage.cost_usd is not None else replace(usage, cost_usd=_cost(library, target, usage))


def estimated_usage(library: Any, target: Target, arguments: dict[str, Any], message: AssistantMessage) -> Usage:
    """Count with litellm's bundled tokenizer; a long request takes milliseconds, so not on the event loop."""
    said = [message.text, *(block.text for block in message.thinking)]
    said += [f"{call.name} {call.arguments}" for call in message.calls]
    usage = Usage(
        input_tokens=library.token_counter(
            model=target.wire_name, messages=arguments["messages"], tools=arguments["tools"]
        ),
        output_tokens=library.token_counter(model=target.wire_name, text="\n".join(said)),
        estimated=True,
    )
    return with_cost(library, target, usage)


def _cost(library: Any, target: Target, usage: Usage) -> float | None:
    """Return US dollars at litellm's price; None if it is not known."""
    if not target.priced:
        return None
    figures = library.Usage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        cache_read_input_tokens=usage.cache_read_tokens,
        cache_creation_input_tokens=usage.cache_write_tokens,
    )
    try:
        prompt, completion = library.cost_per_token(
            model=target.bare_name, custom_llm_provider=target.provider, usage_object=figures
        )
    except Exception:
        return None  # a price table with gaps must not lose the answer
    return float(prompt + completion)


def _count(value: Any, name: str) -> int:
    number = field(value, name)
    return int(number) if isinstance(number, int | float) else 0
