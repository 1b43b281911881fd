"""The rules the user answered "always here" with: kept in one small file, for one folder and for a limited time."""

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator

from codeagent.core.errors import ConfigError
from codeagent.core.policy import Rule
from codeagent.core.sanitize import one_line, visible
from codeagent.disk.json_lines import JsonLinesFile

LASTS = timedelta(days=90)
"""How long a rule is kept. Use does not renew it: after that the user is asked again."""
Objection = Callable[[Rule], str | None]
"""Why a rule is too broad to be kept, as a phrase; None where it is not."""
_UNUSED = "no kept rule is used: repair or remove it"


class _Entry(BaseModel):
    """One line of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    v: Literal[1] = 1
    workspace: str
    """Its path, links followed."""
    device: int
    inode: int
    """Which folder that was: another one in its place is another workspace."""
    rule: str = Field(min_length=1)
    added: AwareDatetime
    expires: AwareDatetime

    @field_validator("rule")
    @classmethod
    def _is_a_rule(cls, text: str) -> str:
        try:
            Rule.parse(text, "auto", "saved")
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return text


class RuleBookFile:
    """`rules.jsonl` in the user's configuration folder, for one workspace (the RuleBook of `core.ports`).

    Every method reads the file again and writes it whole, behind a lock: several processes may share it. It is
    never used where the agent could write to it.
    """

    def __init__(
        self, folder: Path, workspace: Path, objection: Objection, now: Callable[[], float] = time.time
    ) -> None:
        """`folder` is the configuration's; `now` gives seconds since the epoch. Raises ConfigError."""
        self.file = folder / "rules.jsonl"
        self._lines = JsonLinesFile(self.file, _Entry, _UNUSED)
        self._objection = objection
        self._now = now
        try:
            self._workspace = workspace.resolve(strict=True)
            status = self._workspace.stat()
        except OSError as error:
            raise ConfigError(f"{workspace} cannot be read ({error.strerror}); nothing was run") from error
        self._identity = (status.st_dev, status.st_ino)

    def load(self, tell: Callable[[str], None]) -> tuple[Rule, ...]:
        """The rules in force here, in the order they were added.

        What is kept for this folder and no longer holds is told, a line each, and taken out. Raises ConfigError
        where the file is damaged: nothing is allowed by it then.
        """
        if self._exposed:
            if self.file.exists():
                tell(f"{self.file} lies in the workspace, where the agent could change it: no kept rule is used")
            return ()
        found: list[Rule] = []
        ended: list[_Entry] = []
        for entry in self._mine(self._lines.read()):
            rule = Rule.parse(entry.rule, "auto", "saved")
            if (why := self._ended(entry, rule)) is None:
                found.append(rule)
            else:
                ended.append(entry)
                tell(f"asked about again: {rule}, {why}")
        if ended:
            self._take_out(ended)
        return tuple(found)

    def keep(self, rule: str) -> str:
        parsed = Rule.parse(rule, "auto", "saved")
        if parsed.pattern is None:
            raise ConfigError(
                f"{parsed} would allow every call of the tool, so it is not kept: write {parsed}(pattern)"
            )
        if visible(rule) != rule:
            raise ConfigError(f"{one_line(rule, 80)} holds characters that cannot be seen, so it is not kept")
        if objection := self._objection(parsed):
            raise ConfigError(f"{parsed} is not kept: {objection}")
        if self._exposed:
            raise ConfigError(
                f"{self.file.parent} lies in the workspace, where the agent could change it: {parsed} is not kept"
            )
        today = datetime.fromtimestamp(round(self._now()), UTC)
        device, inode = self._identity
        entry = _Entry(
            workspace=str(self._workspace),
            device=device,
            inode=inode,
            rule=str(parsed),
            added=today,
            expires=today + LASTS,
        )
        with self._lines.changing(f"{parsed} was not kept"):
            others = [
                other for other in self._lines.read() if (other.workspace, other.rule) != (entry.workspace, entry.rule)
            ]
            self._lines.write([*others, entry])
        return f"{self.file}, for this folder until {entry.expires:%Y-%m-%d}"

    def forget(self, rule: str) -> None:
        text = str(Rule.parse(rule, "auto", "saved"))
        if self._exposed:
            return
        with self._lines.changing(f"{text} is still kept"):
            entries = self._lines.read()
            gone = [entry for entry in self._mine(entries) if entry.rule == text]
            if gone:
                self._lines.write(entry for entry in entries if entry not in gone)

    @property
    def _exposed(self) -> bool:
        return self.file.parent.resolve().is_relative_to(self._workspace)

    def _mine(self, entries: Iterable[_Entry]) -> Iterator[_Entry]:
        return (entry for entry in entries if entry.workspace == str(self._workspace))

    def _ended(self, entry: _Entry, rule: Rule) -> str | None:
        """Why it does not hold any more, as a phrase."""
        if entry.expires.timestamp() <= self._now():
            return f"which was kept until {entry.expires:%Y-%m-%d}"
        if (entry.device, entry.inode) != self._identity:
            return f"which was kept for another folder at {self._workspace}"
        if rule.pattern is None:
            return "which allows every call of the tool"
        objection = self._objection(rule)
        return None if objection is None else f"which may not be kept: {objection}"

    def _take_out(self, ended: list[_Entry]) -> None:
        try:
            with self._lines.changing(""):
                self._lines.write(entry for entry in self._lines.read() if entry not in ended)
        except ConfigError:
            return  # they do not hold all the same, and are told again next time
