"""What the results of calls tell about files: which were read and changed, and what the model can
still see."""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from codeagent.core.changes import digest
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import WorkspaceError
from codeagent.core.history import BranchingHistory
from codeagent.core.messages import Message, attached_to
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import spelled, unspelled
from codeagent.session.transcript import ATTACHED, ToolDetails
from codeagent.tools.edit.reads import ReadState, content, read_states

_MOST_FILES = 60
"""Only the files that were used last are listed."""


@dataclass(frozen=True)
class _KnownFile:
    state: ReadState | None = None
    """The last known state; None if a change did not tell it."""
    changed: bool = False


class KnownFiles:
    """Every file that the agent read or changed in the session, whether or not the text is still in
    its context."""

    def __init__(self, workspace: Workspace, details: Iterable[ToolDetails]) -> None:
        self._workspace = workspace
        self._files: dict[str, _KnownFile] = {}
        for item in details:
            self.add(item)

    def add(self, item: ToolDetails) -> None:
        """Record what a finished call read and changed."""
        states, changed = dict(read_states(item.details)), tuple(map(unspelled, item.changed))
        for path in dict.fromkeys((*states, *changed)):
            before = self._files.pop(path, _KnownFile())
            self._files[path] = _KnownFile(
                states.get(path, before.state), before.changed or path in changed
            )

    def lines(self) -> tuple[str, ...]:
        """Return a line for each file, the newest last. Reads every listed file: not for the event
        loop."""
        shown = list(self._files.items())[-_MOST_FILES:]
        more = len(self._files) - len(shown)
        return (
            *((f"{more} more, earlier",) if more else ()),
            *(self._line(path, known) for path, known in shown),
        )

    def _line(self, path: str, known: _KnownFile) -> str:
        if known.state is None:
            return f"{spelled(path)}: changed by you"
        runs = ", ".join(f"{first}-{last}" for first, last in known.state.lines[:5])
        read = "read" if known.state.whole or not runs else f"read in part (lines {runs})"
        return f"{spelled(path)}: {'changed by you' if known.changed else read}, {self._since(path, known.state)}"

    def _since(self, path: str, state: ReadState) -> str:
        try:
            with self._workspace.open(path) as file:
                data = content(file)
        except (WorkspaceError, OSError):
            return "gone since"
        if data is None:
            return "too large to compare"
        return (
            "unchanged since" if digest(data) == state.sha256 else "changed by somebody else since"
        )


class DetailsInContext:
    """The details of the results and attachments in the model's context; everything else that was
    read is forgotten."""

    def __init__(
        self,
        details: Iterable[ToolDetails],
        forget: Callable[[Sequence[ToolDetails]], None],
        line: BranchingHistory[Message],
    ) -> None:
        """`forget` is called with the details that are left, in order; `line` is the conversation."""
        self._details = {item.call_id: item for item in details if item.in_context}
        self._forget = forget
        self._line = line
        self._attached = attached_to(line.items)

    def add(self, item: ToolDetails) -> None:
        self._details[item.call_id] = item

    def keep_only(self, call_ids: Iterable[str]) -> None:
        """Forget the results of all other calls: the model has only these left."""
        left = set(call_ids)
        self._details = {
            call_id: item
            for call_id, item in self._details.items()
            if call_id in left or call_id.startswith(ATTACHED)
        }
        self.forget_others()

    def hear(self) -> None:
        """Take note of attachments that were added or taken back since the last call."""
        if attached_to(self._line.items) != self._attached:
            self.forget_others()

    def forget_others(self) -> None:
        """Forget what was read by calls that were not added: the model never saw their results."""
        before, now = self._attached, attached_to(self._line.items)
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
        first = sum(1 for _ in same)
        for place in range(first, len(before)):
            self._details.pop(f"{ATTACHED}{place}", None)
        for place in range(first, len(now)):
            self.add(ToolDetails.of_attached(place, now[place]))
        self._attached = now
        self._forget(tuple(self._details.values()))
