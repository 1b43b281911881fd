"""Estimates what tasks will cost: by the tokens of tasks that have ended, and the price of the
model."""

from collections.abc import Sequence
from statistics import fmean

from codeagent.extensions.batch.results import TaskRecord
from codeagent.extensions.batch.tasks import BatchTask
from codeagent.llm.catalog import entry, is_scripted, spellings
from codeagent.llm.usage import Price

_UNKNOWN = "what they cost is not known before a task has ended: --like names results of others"
_PRICES = (
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
)
"""Names of litellm's table, in the order of `Price`."""


def estimated(tasks: Sequence[BatchTask], like: Sequence[TaskRecord], model: str | None) -> str:
    """Return what the tasks would cost, in words; `model` is that of tasks that name none.

    A task that has ended before costs what it did, and any other what they did on average.
    """
    ended = [record for record in like if record.turns]
    if not ended:
        return _UNKNOWN
    own = {record.subject: record for record in ended}
    costs, mean = list[float](), dict[str | None, float | None]()
    for task in tasks:
        name = task.model or model
        if (record := own.get(task.subject)) is not None:
            cost = _cost(record, name)
        else:
            if name not in mean:
                known = [cost for each in ended if (cost := _cost(each, name)) is not None]
                mean[name] = fmean(known) if known else None
            cost = mean[name]
        costs += [] if cost is None else [cost]
    if not costs:
        return "what they cost is not known: there is no price for the model"
    few = f" for {len(costs)} of them; the others have no price" * (len(costs) < len(tasks))
    return f"about ${sum(costs):.2f}{few}"


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
