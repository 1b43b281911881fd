"""Compares the results of two batches: the same tasks with different models or settings."""

from collections.abc import Iterator

from codeagent.changes.change_set import named
from codeagent.changes.diff import count
from codeagent.core.messages import Usage
from codeagent.core.pulse import duration
from codeagent.extensions.batch.results import Results, TaskRecord


def compared(one: Results, other: Results, *, every: bool) -> Iterator[str]:
    """Yield the lines of a comparison: the tasks that passed on one side only, or `every` task, then
    the totals."""
    mine, theirs = _by_subject(one), _by_subject(other)
    common = [subject for subject in mine if subject in theirs]
    for subject in common:
        a, b = mine[subject], theirs[subject]
        if every or a.passed != b.passed:
            yield f"{_ended(a, every)} {_ended(b, every)} {a.title}"
    for results, records in ((one, mine), (other, theirs)):
        yield _sum(results, [records[subject] for subject in common])
    for results, records, others in ((one, mine, theirs), (other, theirs, mine)):
        if alone := len(records.keys() - others.keys()):
            yield f"only in {results.path}, and not counted: {count(alone, 'task')}"


def _ended(record: TaskRecord, every: bool) -> str:
    if not every:
        return f"{record.state:<11}"
    cost = f"${record.usage.cost_usd:.4f}" if record.usage.cost_usd else "-"
    return f"{record.state:<11} {record.turns:>3} turns {duration(record.seconds):>7} {cost:>9}  "


def _by_subject(results: Results) -> dict[str, TaskRecord]:
    return {record.subject: record for record in results.records.values()}


def _sum(results: Results, records: list[TaskRecord]) -> str:
    usage = sum((record.usage for record in records), Usage())
    models = named(sorted({record.model for record in records if record.model}))
    cost = f", ${usage.cost_usd:.2f}" if usage.cost_usd else ""
    tokens = usage.input_tokens + usage.output_tokens
    return (
        f"{results.path}: {sum(record.passed for record in records)} of {len(records)} passed,"
        f" {tokens:,} tokens{cost}, {duration(sum(record.seconds for record in records))} of work"
        f" ({models})"
    )
