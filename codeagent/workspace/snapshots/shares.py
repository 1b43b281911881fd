"""Tells what each session changed in a workspace that several share, and what is left without one
session's changes."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from codeagent.core.changes import content_name
from codeagent.core.checkpoints import Node, NodeKind, OthersChanges
from codeagent.core.errors import CheckpointError
from codeagent.workspace.snapshots.index import FileState
from codeagent.workspace.snapshots.moments import Landing, Moment, Record
from codeagent.workspace.snapshots.objects import ObjectReader
from codeagent.workspace.snapshots.restore import StoredChange, differences, node_of
from codeagent.workspace.snapshots.store import SnapshotStore

Side = Literal["mine", "theirs", "nobody's", "unclear"]
"""Whose a change is: this conversation's, another session's, that of neither (the user's), or it
cannot be told."""
_BOTH_RAN = "it changed while commands of both were running"
_SAME_LINES = "both changed the same lines"
_NOW = 1 << 62
"""Comes after every entry."""
_NOT_TEXT = "both changed it, and it cannot be merged line by line"


class FileTurn(NamedTuple):
    """One change to a file."""

    side: Side
    before: FileState | None
    after: FileState | None


class _Period(NamedTuple):
    """What lies between two snapshots that follow each other."""

    begins: Moment
    after: str
    """The later snapshot."""
    until: int
    """Its entry."""
    ran: frozenset[Side]
    """Whose commands may have been running."""


class _Refused(Exception):
    """A file cannot be taken back; the text says why, as a phrase."""


def _may_show(landing: Landing, period: _Period) -> bool:
    """Whether a landing may have brought about a change of the period."""
    late = landing.landed is None or landing.landed > period.begins.begun
    return late and landing.id < period.until


class Shares:
    """The shares of this conversation and of the others in what happened since a moment."""

    def __init__(
        self, store: SnapshotStore, reader: ObjectReader, record: Record, own: Collection[str]
    ) -> None:
        """`own` are the names of this conversation's moments."""
        self._store = store
        self._reader = reader
        self._record = record
        self._own = own
        self._landings: defaultdict[str, list[Landing]] = defaultdict(list)
        for landing in record.landings:
            self._landings[landing.path].append(landing)

    @property
    def alone(self) -> bool:
        """Whether no other session changed anything or could have changed anything."""
        record = self._record
        ran = any(moment.commands for moment in record.known if self._whose(moment) == "theirs")
        worked = any(self._whose(moment) == "theirs" for moment in record.moments)
        return not (
            ran or worked or any(self._lander(landing) == "theirs" for landing in record.landings)
        )

    def theirs(self, target: str, present: str) -> OthersChanges:
        """Return what of the differences between the two is not for this conversation to take back.

        Raises CheckpointError.
        """
        turns = self._turns(present)
        kept: set[str] = set()
        merged: dict[str, Node | None] = {}
        refused: dict[str, str] = {}
        for step in differences(self._reader, target, present):
            of_file = turns.get(step.path, [])
            sides = {turn.side for turn in of_file}
            if "unclear" in sides:
                refused[step.path] = _BOTH_RAN
            elif "theirs" in sides and "mine" not in sides:
                kept.add(step.path)
            elif "theirs" in sides:
                try:
                    merged[step.path] = self._without_mine(of_file, step.after)
                except _Refused as reason:
                    refused[step.path] = str(reason)
        return OthersChanges(frozenset(kept), merged, refused)

    def _turns(self, present: str) -> dict[str, list[FileTurn]]:
        """Return the changes of every file, in order."""
        turns: defaultdict[str, list[FileTurn]] = defaultdict(list)
        for period in self._periods(present):
            if period.begins.snapshot == period.after:
                continue
            for step in differences(self._reader, period.begins.snapshot, period.after):
                turns[step.path].append(FileTurn(self._side(step, period), step.before, step.after))
        return turns

    def _periods(self, present: str) -> Iterator[_Period]:
        """Yield what lies between the snapshots; one that was pruned does not divide anything."""
        working = {moment.session: moment for moment in self._record.known}
        first, *rest = self._record.moments
        begins = first
        ran: set[Side] = set()
        for moment in (first, *rest):
            if moment is not begins and self._exists(moment.snapshot):
                yield _Period(begins, moment.snapshot, moment.id, frozenset(ran))
                begins = moment
                ran = set()
            working[moment.session] = moment
            ran |= {self._whose(one) for one in working.values() if one.commands}
        yield _Period(begins, present, _NOW, frozenset(ran))

    def _exists(self, snapshot: str) -> bool:
        try:
            self._reader.files(snapshot)
        except CheckpointError:
            return False
        return True

    def _whose(self, moment: Moment) -> Side:
        return "mine" if moment.name in self._own else "theirs"

    def _side(self, step: StoredChange, period: _Period) -> Side:
        landings = [one for one in self._landings.get(step.path, ()) if _may_show(one, period)]
        sides = period.ran | {self._lander(one) for one in landings}
        written = self._written(step, landings)
        writers = {self._lander(one) for one in written}
        if len(writers) == 1 and len(sides) > 1:
            self._landings[step.path] = [
                one for one in self._landings[step.path] if one not in written
            ]
            return writers.pop()
        if len(sides) > 1 or (sides == {"mine"} and not writers and "mine" not in period.ran):
            return "unclear"
        return next(iter(sides), "nobody's")

    def _lander(self, landing: Landing) -> Side:
        moments = (*self._record.known, *self._record.moments)
        at_work = [one for one in moments if one.session == landing.session and one.id < landing.id]
        return self._whose(at_work[-1]) if at_work else "theirs"

    def _written(self, step: StoredChange, landings: Sequence[Landing]) -> list[Landing]:
        """Return the landings that follow each other from the old state to the new one; empty if
        there are none."""
        done = [landing for landing in landings if landing.landed is not None]
        if len(done) < len(landings):
            return []
        old = content_name(node_of(self._reader, step.before))
        new = content_name(node_of(self._reader, step.after))
        for start, first in enumerate(done):
            if first.before != old:
                continue
            for end in range(len(done), start, -1):
                chain = done[start:end]
                if chain[-1].after == new and all(
                    one.after == two.before for one, two in pairwise(chain)
                ):
                    return chain
        return []

    def _without_mine(self, turns: Sequence[FileTurn], present: FileState | None) -> Node | None:
        """Return the file without this conversation's changes. Raises _Refused."""
        now = node_of(self._reader, present)
        for turn in reversed(turns):
            if turn.side == "mine":
                now = self._taken_back(
                    node_of(self._reader, turn.after), now, node_of(self._reader, turn.before)
                )
        return now

    def _taken_back(self, after: Node | None, now: Node | None, before: Node | None) -> Node | None:
        if now == after:
            return before
        if now == before:
            return now
        if (
            after is None
            or now is None
            or before is None
            or "link" in (after.kind, now.kind, before.kind)
        ):
            raise _Refused(_NOT_TEXT)
        kind: NodeKind = before.kind if now.kind == after.kind else now.kind
        if now.data == after.data:
            return Node(kind, before.data)
        if b"\0" in after.data + now.data + before.data:
            raise _Refused(_NOT_TEXT)
        merged = self._store.merged(after.data, now.data, before.data)
        if merged is None:
            raise _Refused(_SAME_LINES)
        return Node(kind, merged)
