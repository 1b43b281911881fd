"""The tool `report_findings`: the findings of a review, each checked to be at a line of a file of
the workspace."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Literal

from codeagent.agent.parts import Host
from codeagent.config.checking import WrongValue, checked
from codeagent.core.dataclass import record
from codeagent.core.deferred import Field
from codeagent.core.display import TextBlock
from codeagent.core.errors import WorkspaceError
from codeagent.core.json_types import JsonObject
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import one_line, spelled, visible
from codeagent.core.tool import InvalidArgs, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.arguments import Count, PathText, written

TOOL = "report_findings"
Severity = Literal["high", "medium", "low"]
SIGNS: dict[Severity, str] = {"high": "✗ high  ", "medium": "! medium", "low": "· low   "}
"""Each severity as it is shown, in the order of the list."""
_MOST = 100
_LONGEST_WHAT = 200
_LONGEST_WHY = 2000
_LARGEST = 8 << 20
"""Bytes of a file whose lines are counted."""


@record
class ReviewFinding:
    """One finding of a review. All texts are safe for a terminal."""

    path: str
    """Relative to the workspace."""
    line: int
    severity: Severity
    what: str
    why: str

    @property
    def place(self) -> str:
        return f"{spelled(self.path)}:{self.line}"


class FindingArgs(ToolArgs):
    file: PathText
    line: Count
    severity: Severity
    what: Annotated[str, Field(max_length=_LONGEST_WHAT), written("finding")]
    why: Annotated[str, Field(max_length=_LONGEST_WHY), written("reason")]


class ReportArgs(ToolArgs):
    findings: Annotated[tuple[FindingArgs, ...], Field(max_length=_MOST, strict=False)]


class ReportFindings(Tool[ReportArgs]):
    """Does not need approval: it changes only what the user is shown."""

    name = TOOL
    label = "Findings"
    description = (
        "Show the user the findings of the review, once, all together. line: of the file as it is "
        "on disk. what: the fault in one line. why: what happens, and how to fix it."
    )
    Args = ReportArgs
    permission = "auto"
    effect = "nothing"

    def __init__(self, workspace: Workspace, tell: Callable[[str, str], None]) -> None:
        """`tell` reports to the user what was found; see `Emitter.notice`."""
        self._workspace = workspace
        self._tell = tell

    def approval_key(self, args: ReportArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=tuple(one.what for one in args.findings))

    def target(self, args: ReportArgs) -> str:
        return ", ".join(counts(args.findings)) or "none"

    async def run(self, args: ReportArgs, ctx: ToolContext) -> ToolResult:
        found = await asyncio.to_thread(self._checked, args)
        lines = [f"{SIGNS[one.severity]}  {one.place}  {one.what}" for one in found]
        details: JsonObject = {"findings": [asdict(one) for one in found]}
        said = f"findings: {self.target(args)}"
        self._tell(
            "review.findings", "\n".join([said + "; /findings opens them" * bool(found), *lines])
        )
        text = f"Shown to the user: {self.target(args)}."
        blocks = (TextBlock(text="\n".join(lines) or "no findings"),)
        return ToolResult.from_text(text, blocks=blocks, details=details)

    def _checked(self, args: ReportArgs) -> list[ReviewFinding]:
        """Return the findings, the gravest first. Raises InvalidArgs that lists each one that is
        not at a line of a file of the workspace."""
        found: list[ReviewFinding] = []
        wrong: list[str] = []
        for number, one in enumerate(args.findings, 1):
            try:
                path, last = self._last_line(one.file)
            except WorkspaceError as error:
                wrong.append(f"finding {number}: {error}")
                continue
            if one.line > last:
                where = f"{spelled(path)} has {last} lines, not {one.line}"
                wrong.append(f"finding {number}: {where}")
            what, why = one_line(one.what, _LONGEST_WHAT), visible(one.why.strip())
            found.append(
                ReviewFinding(path=path, line=one.line, severity=one.severity, what=what, why=why)
            )
        if wrong:
            raise InvalidArgs(
                "\n".join(["nothing was shown; fix these, and report all again:", *wrong])
            )
        return sorted(found, key=lambda one: [*SIGNS].index(one.severity))

    def _last_line(self, given: str) -> tuple[str, int]:
        """Return the file's path, and the number of its last line. Raises WorkspaceError."""
        self._workspace.resolve(given)
        with self._workspace.open(given) as file:
            data = file.read(_LARGEST)
        return self._workspace.relative(given), max(1, data.count(b"\n") + (data[-1:] != b"\n"))


def counts(findings: Iterable[ReviewFinding | FindingArgs]) -> Iterator[str]:
    """Yield how many findings of each severity there are, such as `2 high`."""
    found = Counter(one.severity for one in findings)
    return (f"{found[level]} {level}" for level in SIGNS if found[level])


def for_step(host: Host) -> ReportFindings:
    return ReportFindings(host.context.workspace, host.context.emitter.notice)


def read_back(details: Iterable[object]) -> tuple[ReviewFinding, ...]:
    """Return the findings that the details of a logged call hold; malformed ones are left out."""
    found: list[ReviewFinding] = []
    for each in details:
        with suppress(WrongValue):
            found.append(checked(ReviewFinding, each))
    return tuple(found)
