"""Decides about what commands left that a program of the user's would run: by rules, or by asking
the user."""

from codeagent.agent.approvals import Approvals
from codeagent.agent.leftovers import MOST_NAMED, Leftover, named
from codeagent.agent.permissions import Permissions, fingerprint
from codeagent.changes.keys import path_key
from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DisplayBlock
from codeagent.core.errors import ConfigError, RunCancelled
from codeagent.core.policy import SAID_NO, Decision, Verdict
from codeagent.core.ports import Workspace
from codeagent.core.tool import Preview

_WRITE = "write"
"""The tool whose rules apply to a file, whoever changes it."""


@dataclass(frozen=True)
class LeftoverQuestion:
    """What the user is asked about, as they see it."""

    call_id: str
    """The call that is asked about it."""
    found: tuple[Leftover, ...]
    blocks: tuple[DisplayBlock, ...]
    snapshot: str
    """The id of what the answer is for."""
    by: str
    """What left it, as a phrase."""


class LeftoverRules:
    """The rules for files, and what the user agreed to for this session."""

    def __init__(self, permissions: Permissions, workspace: Workspace) -> None:
        self._permissions = permissions
        self._workspace = workspace
        self.agreed: set[str] = set()
        """Paths that the user accepted for this session, whatever they hold."""

    def verdict(self, one: Leftover) -> Verdict:
        key = path_key(self._workspace, one.path, reading=False)
        if one.gone:
            return self._permissions.judge_deletion(_WRITE, key)
        return self._permissions.judge_file(_WRITE, key, one.reason)

    async def ask(
        self, question: LeftoverQuestion, approvals: Approvals, token: CancelToken
    ) -> Decision:
        """Ask the user about all of it; no answer is a denial."""
        found = question.found
        target = named(found)
        why = "; ".join(dict.fromkeys(one.reason for one in found[:MOST_NAMED]))
        reason = f"left by {question.by}; a no takes it back: {why}"
        proposal = (
            f"{_WRITE}({found[0].path})"
            if len(found) == 1 and not set(found[0].path) & set("*?")
            else ""
        )
        binding = fingerprint(_WRITE, {"left": target}, question.snapshot)
        while True:
            try:
                decision = await approvals.ask(
                    question.call_id,
                    _WRITE,
                    Preview(target, question.blocks),
                    reason,
                    token,
                    binding=binding,
                    proposal=proposal,
                )
            except RunCancelled:
                return Decision("deny", "it was not answered", "auto")
            match decision.answer:
                case "once" | "deny":
                    return decision
                case "session":
                    self.agreed |= {one.path for one in found}
                    return decision
                case "edit":
                    reason = (
                        "it has already happened and cannot be edited: keep it, or take it back"
                    )
                case "rule":
                    if (problem := await self._learn(decision, found)) is None:
                        return decision
                    reason = problem

    async def _learn(self, decision: Decision, found: tuple[Leftover, ...]) -> str | None:
        """Add the rule; return why it cannot be added, or does not allow all of it, as a phrase."""
        try:
            await self._permissions.add(self._permissions.parse(decision.rule, keep=decision.keep))
        except ConfigError as error:
            return str(error)
        left = [one for one in found if self.verdict(one).permission != "auto"]
        return f"{decision.rule} does not allow {named(left)}" if left else None

    @staticmethod
    def why_not(denial: Decision) -> str:
        """Return why the user, or a rule, said no."""
        said = f"{SAID_NO}: {denial.reason}" if denial.reason else SAID_NO
        return said if denial.source == "user" else denial.reason
