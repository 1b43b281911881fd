"""What all containers of one session stand on: the workspace, pinned once, and the engine."""

import os
from pathlib import Path

from codeagent.core.errors import SandboxUnavailable
from codeagent.sandbox.pinned import PinnedRoot, refuse_unsuitable
from codeagent.sandbox.reach import engine_socket
from codeagent.sandbox.spec import SandboxSpec
from codeagent.sandbox.wire import Wire


class Ground:
    """Opened when first asked for, so that every container of the session is over the very same directory."""

    def __init__(self, spec: SandboxSpec) -> None:
        self._spec = spec
        self._opened: tuple[PinnedRoot, Wire] | None = None
        self.guarded: frozenset[str] | None = None
        """What was protected, by name, when the last container was made; None before the first."""
        self.shut = False
        """Nothing may be made on it any more."""

    def open(self) -> tuple[PinnedRoot, Wire]:
        """Raises SandboxUnavailable."""
        if self.shut:
            raise _closed()
        if self._opened is None:
            socket = engine_socket(self._spec.docker_host)
            path = Path(os.path.realpath(self._spec.root))
            home = Path(os.path.realpath(self._spec.home))
            refuse_unsuitable(path, home, (self._spec.state_dir, Path(socket)))
            self._opened = PinnedRoot(path), Wire(socket)
        return self._opened

    def opened(self) -> tuple[PinnedRoot, Wire]:
        """For what is under way, also while everything is being closed. Raises SandboxUnavailable after that."""
        if self._opened is None:
            raise _closed()
        return self._opened

    def close(self) -> None:
        """Idempotent."""
        self.shut = True
        opened, self._opened = self._opened, None
        if opened is not None:
            opened[0].close()


def _closed() -> SandboxUnavailable:
    return SandboxUnavailable("the sandbox is closed", "start codeagent again")
