"""Estimates what tasks will cost: by the tokens of tasks that have ended, and the price of the
model."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from codeagent.extensions.batch.results import TaskRecord
from codeagent.extensions.batch.tasks import BatchTask
from codeagent.llm.catalog import entry, is_scripted, spellings
from codeagent.llm.usage import Price

_UNKNOWN = (
    "their cost is unknown until a task has ended; --like RESULTS estimates it by other tasks"
)
_PRICES = (
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
)
"""Names of litellm's table, in the order of `Price`."""


def estimated(tasks: Sequence[BatchTask], like: Sequence[TaskRecord], model: str | None) -> str:
    """Return what the tasks would cost if they use what those in `like` used on average, in words;
    `model` is that of tasks that name none."""
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
        return "their cost is unknown: there is no price for the model"
    few = f" for {priced} of them; the others have no price" * (priced < len(tasks))
    return f"about ${total:.2f}{few}"


def _cost(record: TaskRecord, model: str | None) -> float | None:
    """Return US dollars for the same tokens of a model; None if no price is known."""
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
