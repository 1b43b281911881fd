"""Hands out tests to the workers of pytest-xdist a few at a time."""

from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController

_SIZE = 6
"""Tests in a portion; groups are portions of their own."""


class PortionScheduling(LoadGroupScheduling):
    """`--dist loadgroup` with portions of tests in place of single ones.

    One at a time, thousands of tests keep the process that hands them out busy: after each one it
    counts again what every test of that worker has become, and workers wait for it.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]  # xdist's own
        self._scopes: dict[str, str] = {}
        self._ungrouped = 0

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give every second worker the last portion: tests of screens wait while others compute."""
        if self.nodes.index(node) % 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def _split_scope(self, nodeid: str) -> str:
        """Name the portion of a test; it is first asked for in the order of the collection."""
        if nodeid not in self._scopes:
            scope = super()._split_scope(nodeid)
            if scope == nodeid:
                scope = f"portion {self._ungrouped // _SIZE}"
                self._ungrouped += 1
            self._scopes[nodeid] = scope
        return self._scopes[nodeid]
