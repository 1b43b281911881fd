"""A past to go back to, in memory: what the screens of /undo, /rewind and /diff are shown with."""

from dataclasses import replace

from codeagent.core.acts import Refused, Restore, RestoreFile
from codeagent.core.checkpoints import ChangedFile, Changes, Node, Point
from codeagent.core.errors import CheckpointError

_START = 1_790_000_000.0


class FakeRewind:
    """Three prompts with a batch each; `files` are path, then and now. Notes in `told` what it was
    asked to do."""

    def __init__(self, files: tuple[tuple[str, str | None, str | None], ...] = ()) -> None:
        self.told: list[Restore | RestoreFile] = []
        self.restored: tuple[ChangedFile, ...] = ()
        self.moments: tuple[Point, ...] = tuple(
            point
            for number, label in enumerate(("fix the parser", "add a test for 1900", "tidy up"), 1)
            for point in (
                Point(f"p{number}", "prompt", _START + 600 * number, label),
                Point(f"b{number}", "batch", _START + 600 * number + 60, "edit src/dates.py", 1),
                Point(f"a{number}", "after", _START + 600 * number + 90, "edit src/dates.py", 1),
            )
        )
        self.files = files or (
            (
                "src/dates.py",
                "def days(y):\n    return 365\n",
                "def days(y):\n    return 366 if leap(y) else 365\n",
            ),
            ("tests/test_dates.py", None, "def test_leap():\n    assert days(2000) == 366\n"),
        )
        self.edited: frozenset[str] = frozenset()
        self.left_out: tuple[str, ...] = ()
        self.refused: tuple[str, ...] = ()
        self.agents: dict[str, str] = {}
        """Text by path as the agent left it, where that is not how it is now."""
        self.refuses = ""

    def points(self) -> tuple[Point, ...]:
        return self.moments

    async def undo_target(self, batches: int = 1) -> Point:
        self._maybe_refuse()
        return [point for point in self.moments if point.cause == "batch"][-batches]

    async def redo_target(self) -> Point:
        self._maybe_refuse()
        return self.moments[-1]

    async def changes(self, since: str, until: str | None = None) -> Changes:
        self._maybe_refuse()
        files = tuple(self._changed(*row) for row in self.files if row[1] != row[2])
        return Changes(files, self.left_out, self.refused)

    async def node(self, point: str | None, path: str) -> Node | None:
        text = next(
            (row[2] if point is None else row[1] for row in self.files if row[0] == path), None
        )
        return None if text is None else Node("file", text.encode())

    async def left_by_agent(self, path: str) -> Node | None:
        text = self.agents.get(path)
        return await self.node(None, path) if text is None else Node("file", text.encode())

    async def restore(self, act: Restore | RestoreFile) -> Refused | None:
        if self.refuses:
            return Refused(self.refuses)
        if isinstance(act, Restore) and act.paths is not None:
            act = replace(act, paths=tuple(sorted(act.paths)))
        self.told.append(act)
        if isinstance(act, Restore):
            self.restored = (await self.changes(act.point)).files if act.files else ()
            return None
        text = None if act.node is None else act.node.data.decode()
        self.files = tuple(
            (row[0], row[1], text) if row[0] == act.path else row for row in self.files
        )
        return None

    def _changed(self, path: str, then: str | None, now: str | None) -> ChangedFile:
        change = "added" if then is None else "deleted" if now is None else "modified"
        return ChangedFile(path, change, path in self.edited)  # type: ignore[arg-type]  # one of the three words

    def _maybe_refuse(self) -> None:
        if self.refuses:
            raise CheckpointError(self.refuses)
