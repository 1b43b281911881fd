"""Remembers what a server said about its tools when first used or last agreed to, and the files of
its program.

Changes wait for the user; a program in the workspace waits at first, too.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from codeagent.core.dataclass import dataclass
from codeagent.core.display import DiffBlock
from codeagent.core.sanitize import one_line, visible
from codeagent.core.toolbox import ToolProblem
from codeagent.disk.locks import locked
from codeagent.disk.private import LARGEST, UnsafeFile, read_private, replace_private
from codeagent.extensions.mcp.config import ServerConfig
from codeagent.extensions.mcp.offer import Statement
from codeagent.workspace.programs import ProgramFiles

_LONGEST_TEXT = 4_000
"""Characters kept of each statement, to be compared with a later one."""
FILES = "the files of its program"
"""The name under which all of them are shown."""
_MOST_NAMED = 10
"""How many changes are reported one by one."""
_LARGEST_PROGRAM = 16 << 20
_MOST_SHOWN = 256 * 1024
"""Characters of changed files that are shown; of more, only the names."""


@dataclass(frozen=True)
class Changed:
    """A statement of a server that is new, or has changed since the user agreed to it."""

    now: Statement
    before: str
    """The earlier text, possibly cut; empty if the statement is new. The new text is always shown
    in full."""

    @property
    def diff(self) -> DiffBlock:
        return DiffBlock(path=self.now.name, before=self.before, after=self.now.said)


@dataclass(frozen=True)
class Pinned:
    """The usable part of an offer, and the changes that wait for the user."""

    agreed: tuple[Statement, ...] = ()
    changed: tuple[Changed, ...] = ()


def waiting_problems(server: str, changes: Sequence[Changed]) -> list[ToolProblem]:
    """Return a problem for each change, so that each is reported once, by name; of many, the others
    are counted."""
    how = f"codeagent mcp test {server} shows the difference"
    texts = []
    for change in changes[:_MOST_NAMED]:
        why = "it has changed" if change.before else "it is new or has changed"
        name = one_line(change.now.name, 100)
        texts.append(f"{name}: not used until you agree, because {why}; {how}")
    if len(changes) > _MOST_NAMED:
        texts.append(f"and {len(changes) - _MOST_NAMED} more: not used until you agree; {how}")
    return [ToolProblem(server, text, partial=True) for text in texts]


class PinFile:
    """A private file per server, identified by its command or address: another command is another
    server."""

    def __init__(self, folder: Path, config: ServerConfig) -> None:
        """`folder` must be writable by the user only, not by tools."""
        identity = json.dumps([config.name, config.command, config.args, config.url])
        digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._file = folder / f"{config.name}-{digest}.json"

    def check(self, offered: Sequence[Statement]) -> Pinned:
        """Compare with what is stored; a server's first statements are stored. Blocks. Raises
        UnsafeFile, OSError."""
        kept = self._read()
        if kept is None:
            self.agree(offered)
            return Pinned(tuple(offered))
        agreed: list[Statement] = []
        changed: list[Changed] = []
        for one in offered:
            digest, before = kept.get(one.name, ("", ""))
            if digest == one.digest:
                agreed.append(one)
            else:
                changed.append(Changed(one, before))
        return Pinned(tuple(agreed), tuple(changed))

    def agree(self, statements: Iterable[Statement]) -> None:
        """Store these statements; others stay as they are. Blocks. Raises UnsafeFile, OSError."""
        with locked(self._file.with_suffix(".lock")):
            kept = dict(self._read() or {})
            kept |= {one.name: (one.digest, one.said[:_LONGEST_TEXT]) for one in statements}
            data = json.dumps(kept, ensure_ascii=False).encode("utf-8", "replace")
            if len(data) > LARGEST:
                data = json.dumps(
                    {name: (digest, "") for name, (digest, _) in kept.items()}
                ).encode()
            replace_private(self._file, data)

    def _read(self) -> Mapping[str, tuple[str, str]] | None:
        raw = read_private(self._file)
        if raw is None:
            return None
        try:
            return {
                str(name): (str(digest), str(text))
                for name, (digest, text) in json.loads(raw).items()
            }
        except (ValueError, TypeError, AttributeError) as error:
            raise UnsafeFile(
                f"{self._file} is damaged: remove it, and look at the server's tools again"
            ) from error


class ProgramPin:
    """A private file with the files of a server's program in one workspace, as the user agreed to
    them."""

    def __init__(self, folder: Path, config: ServerConfig, root: Path) -> None:
        """`folder` must be writable by the user only, not by tools."""
        identity = json.dumps(
            [config.name, config.command, config.args, config.cwd, config.from_project, str(root)]
        )
        digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._file = folder / f"{config.name}-{digest}.program.json"

    def changes(self, now: ProgramFiles) -> tuple[Changed, ...]:
        """Return what the user has to agree to: all files together first, then the text of those
        that differ.

        Blocks. Raises UnsafeFile, OSError.
        """
        digests, texts = self._read()
        if digests == now.digests:
            return ()
        before = replace(now, digests=digests).manifest
        found, left = (
            [Changed(Statement(FILES, visible(now.manifest)), visible(before))],
            _MOST_SHOWN,
        )
        for path in sorted(digests.keys() | now.digests.keys()):
            old, new = visible(texts.get(path, "")), visible(now.texts.get(path, ""))
            if (
                digests.get(path) != now.digests.get(path)
                and old != new
                and len(old) + len(new) <= left
            ):
                found.append(Changed(Statement(path, new), old))
                left -= len(old) + len(new)
        return tuple(found)

    def agree(self, now: ProgramFiles) -> None:
        """Store these files in place of any others. Blocks. Raises OSError."""
        data = {"digests": dict(now.digests), "texts": dict(now.texts)}
        with locked(self._file.with_suffix(".lock")):
            replace_private(self._file, json.dumps(data).encode())

    def _read(self) -> tuple[dict[str, str], dict[str, str]]:
        raw = read_private(self._file, _LARGEST_PROGRAM)
        if raw is None:
            return {}, {}
        try:
            data = json.loads(raw)
            digests, texts = (
                {str(key): str(value) for key, value in data[name].items()}
                for name in ("digests", "texts")
            )
            return digests, texts
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise UnsafeFile(
                f"{self._file} is damaged: remove it, and look at the server's program again"
            ) from error
