"""The decisions of a session as text: who, when, what exactly, and why."""

import json
import time
from collections.abc import Iterator, Sequence

from codeagent.core.ledger import LedgerRow
from codeagent.core.ledger_words import decided_by
from codeagent.core.sanitize import visible

_INDENT = " " * 4
_LONGEST = 400
"""Characters of arguments that are shown; a command is shown whole."""


def approval_lines(rows: Sequence[LedgerRow]) -> Iterator[str]:
    """A heading and, for each decision, a line with its facts and below it what was decided about."""
    if not rows:
        yield "nothing was decided: no call was allowed or denied"
        return
    tools = max(len("tool"), *(len(visible(row.tool)) for row in rows))
    who = max(len("who"), *(len(decided_by(row)) for row in rows))
    yield f"{'when':<19}  {'outcome':<9}  {'who':<{who}}  {'tool':<{tools}}  rule".rstrip()
    for row in rows:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.at))
        facts = f"{when}  {row.outcome:<9}  {decided_by(row):<{who}}  {visible(row.tool):<{tools}}"
        yield f"{facts}  {visible(row.rule)}".rstrip()
        for line in visible(_whole(row.what)).split("\n"):
            yield f"{_INDENT}{line}".rstrip()
        if row.reason:
            yield f"{_INDENT}– {' '.join(visible(row.reason).split())}"


def _whole(what: str) -> str:
    """All of it; arguments that hold a file's text are cut."""
    if len(what) <= _LONGEST or not _is_object(what):
        return what
    return f"{what[:_LONGEST]}… ({len(what):,} characters; --json shows all of them)"


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
