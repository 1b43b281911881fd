"""Estimates the cost of tasks from the tokens of tasks that have ended and the price of the model."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from codeagent.extensions.batch.results import TaskRecord
from codeagent.extensions.batch.tasks import BatchTask
from codeagent.llm.catalog import entry, is_scripted, spellings
from codeagent.llm.usage import Price

_UNKNOWN = (
    "their cost is unknown until a task has ended; --like RESULTS estimates it from other tasks"
)
_PRICES = (
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
)
"""The names in litellm's table of prices, in the order of `Price`."""


def estimated(tasks: Sequence[BatchTask], like: Sequence[TaskRecord], model: str | None) -> str:
    """Return a phrase: what the tasks cost if each uses what those in `like` used on average. `model` is
    the model of tasks that name none."""
    ended = [record for record in like if record.turns]
    if not ended:
        return _UNKNOWN
    total, priced = 0.0, 0
    for name, number in Counter(task.model or model for task in tasks).items():
        known = [cost for each in ended if (cost := _cost(each, name)) is not None]
        if known:
            total += fmean(known) * number
            priced += number
    if not priced:
        return "their cost is unknown: the model has no known price"
    few = f" for {priced} of them; the others have no known price" * (priced < len(tasks))
    return f"about ${total:.2f}{few}"


def _cost(record: TaskRecord, model: str | None) -> float | None:
    """Return the cost of this record's tokens with a model, in US dollars; None if its price is
    unknown."""
    if model is None or model == record.model:
        return record.usage.cost_usd
    if is_scripted(model):
        return 0.0
    facts = entry(*spellings(model))
    given, said, read, written = (
        None if (found := facts.get(name)) is None else found * 1_000_000 for name in _PRICES
    )
    if given is None or said is None:
        return None
    return Price(given, said, read, written).priced(record.usage).cost_usd
