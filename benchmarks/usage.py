"""Totals over 1,000 sessions: the first time, against reading their bytes, and with the index."""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.measure import Figure, median_of, ms
from codeagent.core.events import MessageAdded, RunStarted, TurnFinished
from codeagent.core.messages import Usage, UserMessage
from codeagent.core.redact import Redactor
from codeagent.extensions.usage.requests import spent
from codeagent.extensions.usage.totals import totals
from codeagent.session.store import LOG, SessionStore

SESSIONS = 1_000
TURNS = 20
BEGUN = RunStarted(model="m", workspace="/w", mode="ask", strategy="parallel", codeagent="1")
SAID = MessageAdded(message=UserMessage.from_text("x" * 2_000))
TURN = TurnFinished(turn=1, stop="end", usage=Usage(input_tokens=9_000, cost_usd=0.03))


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="codeagent-bench-") as folder:
        store = SessionStore(Path(folder), Redactor({}))
        for _ in range(SESSIONS):
            _record(store)
        floor = median_of(3, lambda: _timed(lambda: _read(store)))
        cold = _timed(lambda: _total(store))
        warm = median_of(5, lambda: _timed(lambda: _total(store)))
        for name, ours, target in (("first", cold, "<= 20"), ("with the index", warm, "<= 3")):
            name = f"usage of {SESSIONS:,} sessions, {name}"
            yield Figure(name, ms(ours), f"read {ms(floor)}", ours / floor, target)


def _record(store: SessionStore) -> None:
    log = store.create()
    for event in (BEGUN, *((SAID,) * 5 + (TURN,)) * TURNS):
        log.append(replace(event, seq=log.next_seq, ts=1.8e9, session=log.session_id, agent="main"))
    log.close()


def _timed(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _read(store: SessionStore) -> int:
    return sum(len((store.folder(one) / LOG).read_bytes()) for one in store.ids())


def _total(store: SessionStore) -> None:
    assert totals(spent(store, store.ids()), "day").whole.requests == SESSIONS * TURNS
