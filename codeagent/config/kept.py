"""What the user agreed to in one folder, for later sessions: rules that allow calls, and trust in
files there.

Each is kept in a small private file in the user's configuration folder, one JSON object per line.
Every method reads the file again and writes it whole, behind a lock: several processes may share
it. What is kept for one folder does not hold for another that takes its place.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from codeagent.config.checking import WrongValue, as_given, checked, filled, matching
from codeagent.core.dataclass import record
from codeagent.core.errors import ConfigError
from codeagent.core.policy import Objection, Rule
from codeagent.core.sanitize import one_line, visible
from codeagent.disk.locks import locked
from codeagent.disk.private import UnsafeFile, read_private, replace_private

LASTS = timedelta(days=90)
"""How long a rule is kept. Use does not renew it: after that the user is asked again."""


@record
class _Entry:
    """One line of a file."""

    v: Literal[1] = 1
    workspace: str
    """Its path, links followed."""
    device: int
    inode: int
    """Which folder that was: another one in its place is another workspace."""


def _rule(text: str) -> str:
    Rule.parse(text, "auto", "saved")
    return text


@record
class _KeptRule(_Entry):
    rule: Annotated[str, filled("rule"), _rule]
    permission: Literal["auto", "deny"] = "auto"
    added: datetime
    expires: datetime


@record
class _KeptTrust(_Entry):
    digest: Annotated[str, matching("^[0-9a-f]{64}$", "It should have 64 hexadecimal digits")]


@record
class _KeptGrant(_KeptTrust):
    server: Annotated[str, filled("name")]
    variable: Annotated[
        str, matching("^[A-Za-z_][A-Za-z0-9_]*$", "It should be the name of a variable")
    ]


def _line(entry: _Entry) -> str:
    return json.dumps(as_given(entry), ensure_ascii=False, separators=(",", ":"))


EntryT = TypeVar("EntryT", bound=_Entry)


class _KeptFile(Generic[EntryT]):
    """The entries of one workspace in a file. It is never used if the agent could write to it."""

    def __init__(self, file: Path, workspace: Path, entry: type[EntryT], unused: str) -> None:
        """`unused` ends the message about a file that cannot be trusted: what is not in force then.

        Raises ConfigError if the workspace cannot be read.
        """
        self.file = file
        self._entry = entry
        self._unused = unused
        try:
            self._workspace = workspace.resolve(strict=True)
            status = self._workspace.stat()
        except OSError as error:
            raise ConfigError(
                f"{workspace} cannot be read ({error.strerror}); nothing was run"
            ) from error
        self._identity = (status.st_dev, status.st_ino)

    @property
    def _exposed(self) -> bool:
        return self.file.parent.resolve().is_relative_to(self._workspace)

    @property
    def _here(self) -> dict[str, Any]:
        """What an entry says of this workspace."""
        device, inode = self._identity
        return {"workspace": str(self._workspace), "device": device, "inode": inode}

    def _is_mine(self, entry: EntryT) -> bool:
        return entry.workspace == str(self._workspace)

    def _is_here(self, entry: EntryT) -> bool:
        """Whether it is about this very folder, and not about an earlier one in its place."""
        return (entry.device, entry.inode) == self._identity

    def _read(self) -> list[EntryT]:
        """Return the entries of all workspaces. Raises ConfigError with the number of a line that
        is not an entry."""
        try:
            raw = read_private(self.file)
        except UnsafeFile as error:
            raise ConfigError(f"{error}; {self._unused}") from error
        entries: list[EntryT] = []
        for number, line in enumerate((raw or b"").split(b"\n"), start=1):
            if not line.strip():
                continue
            try:
                entries.append(checked(self._entry, json.loads(line)))
            except (ValueError, RecursionError) as error:
                where = ".".join(map(str, error.path)) if isinstance(error, WrongValue) else ""
                what = (
                    f"{where} {error}".strip()
                    if isinstance(error, WrongValue)
                    else f"Invalid JSON: {error}"
                )
                raise ConfigError(
                    f"{self.file}:{number}: {one_line(what, 200)}; {self._unused}"
                ) from error
        return entries

    @contextmanager
    def _changing(self, outcome: str) -> Iterator[Callable[[Iterable[EntryT]], None]]:
        """Hold the file's lock, and yield what replaces the entries.

        Raises ConfigError, which begins with `outcome`, what became of the change; the old entries
        are kept then.
        """

        def write(entries: Iterable[EntryT]) -> None:
            replace_private(self.file, "".join(f"{_line(entry)}\n" for entry in entries).encode())

        try:
            with locked(self.file.with_suffix(".lock")):
                yield write
        except OSError as error:
            raise ConfigError(
                f"{outcome}: {self.file} cannot be changed ({error.strerror})"
            ) from error


class KeptRulesFile(_KeptFile[_KeptRule]):
    """`rules.jsonl`, for one workspace: the rules of the answers "always here" and "never"
    (`core.policy.KeptRules`)."""

    def __init__(
        self,
        folder: Path,
        workspace: Path,
        objection: Objection,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`folder` is the configuration's; `now` gives seconds since the epoch. Raises
        ConfigError."""
        super().__init__(
            folder / "rules.jsonl",
            workspace,
            _KeptRule,
            "no kept rule is used: repair or remove it",
        )
        self._objection = objection
        self._now = now

    def load(self, tell: Callable[[str], None]) -> tuple[Rule, ...]:
        """Return the rules in force here, in the order they were added.

        Those that no longer hold are reported, one line each, and removed. Raises ConfigError if
        the file is damaged: it allows nothing then.
        """
        if self._exposed:
            if self.file.exists():
                tell(
                    f"{self.file} lies in the workspace, where the agent could change it: no kept rule is used"
                )
            return ()
        found: list[Rule] = []
        ended: list[_KeptRule] = []
        for entry in filter(self._is_mine, self._read()):
            rule = Rule.parse(entry.rule, entry.permission, "saved")
            if (why := self._ended(entry, rule)) is None:
                found.append(rule)
            else:
                ended.append(entry)
                tell(f"you will be asked again: {rule}, {why}")
        if ended:
            self._take_out(ended)
        return tuple(found)

    def keep(self, rule: str, *, denies: bool = False) -> str:
        parsed = Rule.parse(rule, "deny" if denies else "auto", "saved")
        if parsed.pattern is None:
            raise ConfigError(
                f"{parsed} would allow every call of the tool, so it is not kept: write {parsed}(pattern)"
            )
        if visible(rule) != rule:
            raise ConfigError(
                f"{one_line(rule, 80)} holds characters that cannot be seen, so it is not kept"
            )
        if not denies and (objection := self._objection(parsed)):
            raise ConfigError(f"{parsed} is not kept: {objection}")
        if self._exposed:
            raise ConfigError(
                f"{self.file.parent} lies in the workspace, where the agent could change it: {parsed} is not kept"
            )
        today = datetime.fromtimestamp(round(self._now()), UTC)
        entry = _KeptRule(
            **self._here,
            rule=str(parsed),
            permission="deny" if denies else "auto",
            added=today,
            expires=today + LASTS,
        )
        with self._changing(f"{parsed} was not kept") as write:
            others = [
                other
                for other in self._read()
                if not (self._is_mine(other) and other.rule == entry.rule)
            ]
            write([*others, entry])
        return f"{self.file}, for this folder until {entry.expires:%Y-%m-%d}"

    def forget(self, rule: str) -> None:
        text = str(Rule.parse(rule, "auto", "saved"))
        if self._exposed:
            return
        with self._changing(f"{text} is still kept") as write:
            entries = self._read()
            rest = [entry for entry in entries if not (self._is_mine(entry) and entry.rule == text)]
            if rest != entries:
                write(rest)

    def _ended(self, entry: _KeptRule, rule: Rule) -> str | None:
        """Return why the rule no longer holds, as a phrase; None if it does."""
        if entry.expires.timestamp() <= self._now():
            return f"which was kept until {entry.expires:%Y-%m-%d}"
        if not self._is_here(entry):
            return f"which was kept for another folder at {self._workspace}"
        if rule.pattern is None:
            return "which allows every call of the tool"
        objection = self._objection(rule) if rule.permission == "auto" else None
        return None if objection is None else f"which may not be kept: {objection}"

    def _take_out(self, ended: list[_KeptRule]) -> None:
        try:
            with self._changing("") as write:
                write(entry for entry in self._read() if entry not in ended)
        except ConfigError:
            return  # they are not in force anyway, and are reported again next time


class _ProjectFile(_KeptFile[EntryT]):
    """What the user said about a project's own files; never about the home directory or the whole
    machine."""

    def __init__(
        self, file: Path, workspace: Path, home: Path, entry: type[EntryT], unused: str
    ) -> None:
        super().__init__(file, workspace, entry, unused)
        self._home = home

    @property
    def _objection(self) -> str | None:
        """Return why nothing here can be trusted, as a phrase; None if it can."""
        if self._exposed:
            return f"{self.file} lies in the workspace, where the agent could change it"
        if self._workspace in (Path(self._workspace.anchor), self._home.resolve()):
            return "it is not a project but the home directory, or the whole machine"
        return None

    def _mine(self) -> Iterator[EntryT]:
        """Yield the entries that hold for this very folder."""
        for entry in self._read():
            if self._is_mine(entry) and self._is_here(entry):
                yield entry

    def _others(self) -> list[EntryT]:
        return [entry for entry in self._read() if not self._is_mine(entry)]


class TrustFile(_ProjectFile[_KeptTrust]):
    """`trust.jsonl`, for one workspace: by content, so that any changed byte ends it (a
    `core.toolbox.TrustRecord`)."""

    def __init__(
        self, folder: Path, workspace: Path, home: Path, name: str = "trust.jsonl"
    ) -> None:
        """`folder` is the configuration's. Raises ConfigError."""
        unused = "no project is trusted: repair or remove it"
        super().__init__(folder / name, workspace, home, _KeptTrust, unused)

    def trusts(self, digest: str) -> bool:
        return self._objection is None and any(entry.digest == digest for entry in self._mine())

    @property
    def holds_any(self) -> bool:
        """Whether the user has trusted some state of this very folder, the one now or an earlier
        one."""
        return self._objection is None and any(True for _ in self._mine())

    def trust(self, digest: str) -> None:
        if self._objection is not None:
            raise ConfigError(
                f"the tools of {self._workspace} cannot be trusted: {self._objection}"
            )
        entry = _KeptTrust(**self._here, digest=digest)
        with self._changing("the project is not trusted") as write:
            write([*self._others(), entry])

    def forget(self) -> None:
        with self._changing("the project is still trusted") as write:
            write(self._others())


class GrantFile(_ProjectFile[_KeptGrant]):
    """`mcp-variables.jsonl`, for one workspace: the variables that each server of one state of its
    file may have."""

    def __init__(self, folder: Path, workspace: Path, home: Path) -> None:
        """`folder` is the configuration's. Raises ConfigError."""
        unused = "no variable is given to a server of a project: repair or remove it"
        super().__init__(folder / "mcp-variables.jsonl", workspace, home, _KeptGrant, unused)

    def given(self, digest: str) -> frozenset[tuple[str, str]]:
        """Return pairs of a server and a variable. Raises ConfigError if the record is damaged."""
        return frozenset(self._given(digest) if self._objection is None else ())

    def give(self, digest: str, pairs: Iterable[tuple[str, str]]) -> None:
        """Give more to the servers of this state; what those of other states had ends. Raises
        ConfigError."""
        if self._objection is not None:
            raise ConfigError(
                f"no variable can be given to servers of {self._workspace}: {self._objection}"
            )
        with self._changing("no variable was given") as write:
            now = dict.fromkeys((*self._given(digest), *pairs))
            given = (
                _KeptGrant(**self._here, digest=digest, server=server, variable=variable)
                for server, variable in now
            )
            write([*self._others(), *given])

    def forget(self) -> None:
        """Raises ConfigError."""
        with self._changing("the variables are still given") as write:
            write(self._others())

    def _given(self, digest: str) -> Iterator[tuple[str, str]]:
        for entry in self._mine():
            if entry.digest == digest:
                yield entry.server, entry.variable
