"""Remembers which projects' own tool files the user trusts, by folder and content: any changed byte ends it."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from codeagent.core.errors import ConfigError
from codeagent.disk.json_lines import JsonLinesFile

_UNUSED = "no project is trusted: repair or remove it"


class _Entry(BaseModel):
    """One line of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    v: Literal[1] = 1
    workspace: str
    """Its path, links followed."""
    device: int
    inode: int
    """Which folder that was: another one in its place is another project."""
    digest: str = Field(pattern="^[0-9a-f]{64}$")


class TrustFile:
    """`trust.jsonl` in the user's configuration folder, for one workspace (the TrustBook of `core.toolbox`).

    Read again by every method and written whole, behind a lock. Never used where the agent could write to it.
    """

    def __init__(self, folder: Path, workspace: Path, home: Path, name: str = "trust.jsonl") -> None:
        """`folder` is the configuration's. Raises ConfigError."""
        self.file = folder / name
        self._lines = JsonLinesFile(self.file, _Entry, _UNUSED)
        self._home = home
        try:
            self._workspace = workspace.resolve(strict=True)
            status = self._workspace.stat()
        except OSError as error:
            raise ConfigError(f"{workspace} cannot be read ({error.strerror}); nothing was run") from error
        self._identity = (status.st_dev, status.st_ino)

    def trusts(self, digest: str) -> bool:
        if self._objection is not None:
            return False
        return any((entry.device, entry.inode, entry.digest) == (*self._identity, digest) for entry in self._mine())

    def trust(self, digest: str) -> None:
        if self._objection is not None:
            raise ConfigError(f"the tools of {self._workspace} cannot be trusted: {self._objection}")
        device, inode = self._identity
        entry = _Entry(workspace=str(self._workspace), device=device, inode=inode, digest=digest)
        with self._lines.changing("the project is not trusted"):
            self._lines.write([*self._others(), entry])

    def forget(self) -> None:
        with self._lines.changing("the project is still trusted"):
            self._lines.write(self._others())

    @property
    def _objection(self) -> str | None:
        """Why nothing here can be trusted, as a phrase."""
        if self.file.parent.resolve().is_relative_to(self._workspace):
            return f"{self.file} lies in the workspace, where the agent could change it"
        if self._workspace in (Path(self._workspace.anchor), self._home.resolve()):
            return "it is not a project but the home directory, or the whole machine"
        return None

    def _mine(self) -> list[_Entry]:
        return [entry for entry in self._lines.read() if entry.workspace == str(self._workspace)]

    def _others(self) -> list[_Entry]:
        return [entry for entry in self._lines.read() if entry.workspace != str(self._workspace)]
