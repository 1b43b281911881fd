"""What one answer used and cost: the provider's own figures, or an estimate that says so."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.messages import AssistantMessage, Message, TextPart, Usage
from codeagent.core.model import ModelRequest
from codeagent.llm.catalog import entry, has_rates, spellings
from codeagent.llm.providers import Target

_INPUT, _OUTPUT, _REASONING = (
    "input_cost_per_token",
    "output_cost_per_token",
    "output_cost_per_reasoning_token",
)
_CACHE_READ, _CACHE_WRITE = "cache_read_input_token_cost", "cache_creation_input_token_cost"
_ALL = (_INPUT, _OUTPUT, _REASONING, _CACHE_READ, _CACHE_WRITE)
"""Names of litellm's table for dollars per token."""
_ABOVE = lazy_regex(
    rf"({'|'.join((_INPUT, _OUTPUT, _CACHE_READ, _CACHE_WRITE))})_above_(\d+)(k?)_tokens"
)
_RUN = lazy_regex(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+|\n\s*|[^\x00-\x7f]|[^\sA-Za-z0-9\x80-\U0010ffff]+")
_EVERY_DAY = range(1, 8)
_PER_MESSAGE = 4
_PER_IMAGE = 1_000


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
    counted = usage is not None and count(usage, "prompt_tokens") + count(
        usage, "completion_tokens"
    )
    return to_usage(usage) if counted else None


def to_usage(raw: Any) -> Usage:
    """Translate the provider's figures.

    Input tokens include those read from and written to the cache, and output tokens the reasoning,
    which xAI counts beside them.
    """
    prompt, completion = (
        field(raw, "prompt_tokens_details"),
        field(raw, "completion_tokens_details"),
    )
    asked, said, thought = (
        count(raw, "prompt_tokens"),
        count(raw, "completion_tokens"),
        count(completion, "reasoning_tokens"),
    )
    cost = field(raw, "cost")
    beside = count(raw, "total_tokens") == asked + said + thought
    return Usage(
        input_tokens=asked,
        output_tokens=said + thought if beside else said,
        cache_read_tokens=count(prompt, "cached_tokens")
        or count(raw, "cache_read_input_tokens")
        or count(raw, "prompt_cache_hit_tokens"),
        cache_write_tokens=count(raw, "cache_creation_input_tokens")
        or count(prompt, "cache_creation_tokens"),
        reasoning_tokens=thought,
        cost_usd=float(cost) if isinstance(cost, int | float) else None,
    )


def with_cost(target: Target, usage: Usage) -> Usage:
    """Add the price from litellm's table to what the provider counted, unless it named the cost
    itself."""
    return usage if usage.cost_usd is not None else replace(usage, cost_usd=_cost(target, usage))


def with_tool_cost(target: Target, usage: Usage, containers: int) -> Usage:
    """Add what the provider's own tools cost, as far as the table has prices: for each search and
    each container.

    A cost that is not known stays unknown.
    """
    if usage.cost_usd is None or not (usage.searches or containers):
        return usage
    search = target.facts.get("search_context_cost_per_query") or {}
    container = (
        entry(f"{target.provider}/container").get("code_interpreter_cost_per_session")
        if containers
        else None
    )
    cost = usage.searches * float(
        search.get("search_context_size_medium") or 0
    ) + containers * float(container or 0)
    return replace(usage, cost_usd=usage.cost_usd + cost)


def _cost(target: Target, usage: Usage) -> float | None:
    """Return US dollars; None if no price is known."""
    if not has_rates(target.facts):
        return None
    rate = _rates(target.facts, target.provider, usage.input_tokens)
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    thought = min(usage.reasoning_tokens, usage.output_tokens)
    cost = max(usage.input_tokens - read - written, 0) * rate(_INPUT)
    cost += read * rate(_CACHE_READ, _INPUT) + written * rate(_CACHE_WRITE, _INPUT)
    return (
        cost + (usage.output_tokens - thought) * rate(_OUTPUT) + thought * rate(_REASONING, _OUTPUT)
    )


def prompt_cost(model: str, prompt: int) -> float | None:
    """Return the US dollars of a prompt of that many tokens, none of them cached; None if no price
    is known."""
    facts = entry(*spellings(model))
    if not has_rates(facts):
        return None
    return prompt * _rates(facts, model.partition("/")[0], prompt)(_INPUT)


class _Rate(Protocol):
    def __call__(self, *names: str) -> float:
        """Return the first of these rates that is known, in dollars per token; 0 if none is."""


def _rates(facts: Mapping[str, Any], provider: str, prompt: int) -> _Rate:
    """Return the rates for a prompt of that many tokens: a long one costs more for every token of
    the request."""
    rates = {name: value for name, value in facts.items() if isinstance(value, int | float)}
    tiers = sorted(
        (tier for tier in facts.get("tiered_pricing") or () if len(tier.get("range", ())) == 2),
        key=lambda tier: float(tier["range"][0]),
    )
    if tiers and _INPUT in tiers[-1]:
        fitting = (tier for tier in tiers if tier["range"][0] < prompt <= tier["range"][1])
        tier = next(fitting, tiers[-1])
        rates = {_OUTPUT: rates.get(_OUTPUT, 0.0)} | {
            name: tier[name] for name in _ALL if tier.get(name) is not None
        }
    else:
        inclusive = provider == "xai"
        above = [found for found in map(_ABOVE.fullmatch, rates) if found is not None]
        for found in sorted(above, key=_threshold):
            if prompt > _threshold(found) or (inclusive and prompt == _threshold(found)):
                rates[found[1]] = rates[found[0]]
    quiet = off_peak_rates(facts, datetime.now(UTC))
    rates |= {name: quiet[name] for name in _ALL if name in quiet}

    def rate(*names: str) -> float:
        return float(next((rates[name] for name in names if name in rates), 0.0))

    return rate


def off_peak_rates(facts: Mapping[str, Any], now: datetime) -> Mapping[str, Any]:
    """Return the rates of the provider's quiet hours, by names as in the table; none in busy hours.
    `now` is in UTC."""
    rates = facts.get("off_peak_pricing") or {}
    windows = (rates, *rates.get("windows", ()))
    today = (
        window.get("hours_utc", ())
        for window in windows
        if now.isoweekday() in window.get("weekdays", _EVERY_DAY)
    )
    spans = (span for hours in today for span in ((hours,) if isinstance(hours, str) else hours))
    return rates if any(_within(span, f"{now:%H:%M}") for span in spans) else {}


def _within(span: str, time: str) -> bool:
    """Tell whether a time is in a span such as `22:00-04:00`; one that ends when it begins is the
    whole day."""
    start, _, end = span.partition("-")
    return start <= time < end if start < end else time >= start or time < end


def _threshold(found: re.Match[str]) -> int:
    return int(found[2]) * (1000 if found[3] else 1)


def estimated_usage(target: Target, request: ModelRequest, message: AssistantMessage) -> Usage:
    """Count for a provider that does not; a long request takes milliseconds, so not on the event
    loop."""
    usage = Usage(
        input_tokens=prompt_tokens(request), output_tokens=_of_message(message), estimated=True
    )
    return with_cost(target, usage)


def usage_so_far(
    target: Target, request: ModelRequest, figures: Usage | None, said: AssistantMessage
) -> Usage:
    """Estimate for an answer that was stopped; some providers count the prompt when they begin
    (`figures`)."""
    if figures is None or not figures.input_tokens:
        return estimated_usage(target, request, said)
    told = max(figures.output_tokens, _of_message(said))
    return with_cost(target, replace(figures, output_tokens=told, cost_usd=None, estimated=True))


def prompt_tokens(request: ModelRequest) -> int:
    """Estimate the tokens of a request; a long one takes milliseconds, so not on the event loop."""
    told = (tool for tool in request.tools if not tool.at_provider)
    tools = json.dumps(
        [[tool.name, tool.description, tool.parameters] for tool in told], ensure_ascii=False
    )
    asked = sum(_PER_MESSAGE + _of_message(one) for one in request.messages)
    return tokens(request.system) + tokens(tools) + asked


def _of_message(message: Message) -> int:
    match message:
        case AssistantMessage():
            said = [message.text, *(block.text for block in message.thinking)]
            own = (
                ""
                if message.provider_content is None
                else json.dumps(message.provider_content.items)
            )
            return sum(
                map(
                    tokens,
                    (*said, own, *(f"{call.name} {call.arguments}" for call in message.calls)),
                )
            )
        case _:
            return sum(
                tokens(part.text) if isinstance(part, TextPart) else _PER_IMAGE
                for part in message.content
            )


def tokens(text: str) -> int:
    """Estimate the tokens of a text, without a tokenizer: within a tenth for code, prose and
    JSON."""
    return round(sum(map(_of_run, _RUN.findall(text))))


def _of_run(run: str) -> float:
    """Return about how many tokens a run of letters, digits or signs is; fitted to a tokenizer of
    OpenAI's."""
    first = run[0]
    if not first.isascii():
        return 0.45 if "\u0250" <= first < "\u2000" else 1.0
    if first.isalpha():
        return 0.95 + max(0, len(run) - 7) / 5
    if first.isdigit():
        return (len(run) + 2) // 3
    return 0.6 if first == "\n" else 1 + max(0, len(run) - 3) / 4


def count(value: Any, name: str) -> int:
    """Return a figure of an object or a dictionary; 0 if it is missing, or not a number."""
    number = field(value, name)
    return int(number) if isinstance(number, int | float) else 0
