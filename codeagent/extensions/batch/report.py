"""Writes the summary of a batch, as Markdown and as one self-contained HTML page."""

import html
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from codeagent.changes.diff import count
from codeagent.core.messages import Usage
from codeagent.core.pulse import duration
from codeagent.core.sanitize import one_line, visible
from codeagent.disk.private import replace_private
from codeagent.extensions.batch.results import Results, TaskRecord
from codeagent.extensions.batch.tasks import BatchTask

_MOST_RULES = 20
_LONGEST_DIFF = 2 << 20
"""The page of a patch shows this many of its bytes."""


def write_reports(results: Results, tasks: Sequence[BatchTask]) -> None:
    """Write `summary.md` and `index.html` into the results folder. Raises OSError."""
    records = [results.records[task.key] for task in tasks if task.key in results.records]
    replace_private(results.path / "summary.md", markdown(records, len(tasks)).encode())
    replace_private(results.path / "index.html", page(records, len(tasks)).encode())


def markdown(records: Sequence[TaskRecord], total: int) -> str:
    """Return the summary of `total` tasks: how many passed, their cost, what was denied, and a row for
    each record."""
    usage = sum((record.usage for record in records), Usage())
    states = Counter(record.state for record in records)
    lines = [
        f"# {sum(record.passed for record in records)} of {total} tasks passed",
        "",
        " · ".join(
            [
                *(f"{state} {number}" for state, number in states.most_common()),
                f"{usage.input_tokens + usage.output_tokens:,} tokens",
                *([f"${usage.cost_usd:.2f}"] if usage.cost_usd else []),
                f"{duration(sum(record.seconds for record in records))} of work",
            ]
        ),
        "",
    ]
    denied = Counter(rule for record in records for rule in record.denied)
    if denied:
        lines += ["Denied, as nobody was there to approve. These rules would have allowed it:", ""]
        lines += [
            f"- {_code(rule)}: {count(number, 'time')}"
            for rule, number in denied.most_common(_MOST_RULES)
        ]
        lines.append("")
    lines += [
        "| task | state | files | turns | time | cost |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_row(record) for record in records]
    return "\n".join(lines) + "\n"


def _row(record: TaskRecord) -> str:
    files, added, removed = record.changed
    title = _plain(record.title)
    cost = f"${record.usage.cost_usd:.4f}" if record.usage.cost_usd else ""
    cells = (
        f"[{title}]({record.key}/session.html)" if record.session else title,
        f"{record.state}: {_plain(one_line(record.error, 200))}" if record.error else record.state,
        f"[{files} +{added} −{removed}]({record.key}/diff.html)" if files else "",
        str(record.turns),
        duration(record.seconds),
        cost,
    )
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Escape a text, so that it is plain text in a Markdown table."""
    return html.escape(text).translate({ord(each): f"&#{ord(each)};" for each in "\\|`[]*_"})


def _code(text: str) -> str:
    plain = text.replace("`", "'")
    return f"`{plain}`"


def page(records: Sequence[TaskRecord], total: int) -> str:
    """Return the page, with a table to filter and sort and two plots; `total` also counts tasks without
    a record."""
    rows = [
        {
            "key": record.key,
            "title": record.title,
            "repository": record.repository.rpartition("/")[2],
            "model": record.model,
            "state": record.state,
            "changed": record.changed,
            "turns": record.turns,
            "seconds": record.seconds,
            "cost": record.usage.cost_usd or 0,
            "error": record.error,
            "denied": record.denied,
            "page": bool(record.session),
        }
        for record in records
    ]
    return _filled("page.html", {"rows": rows, "total": total})


def diff_page(title: str, patch: Path) -> str:
    """Return a page that shows the patch of a task, file by file. Raises OSError."""
    with patch.open("rb") as file:
        text = visible(file.read(_LONGEST_DIFF).decode("utf-8", "replace"))
        cut = bool(file.read(1))
    return _filled("diff.html", {"title": title, "patch": text, "cut": cut})


def _filled(name: str, data: Any) -> str:
    """Return a page with the data that its script reads."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return text.replace("/*DATA*/null", to_json(data).decode().replace("<", "\\u003c"))
