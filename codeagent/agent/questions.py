"""Questions of the model's to the person: asked like approvals, answered with words."""

from codeagent.agent.approvals import Approvals, Question, fingerprint
from codeagent.core.cancel import CancelToken
from codeagent.core.display import QuestionBlock
from codeagent.core.ports import Reply
from codeagent.core.tool import Preview

ASK_USER = "ask_user"
_REASON = "the agent asks you"


class Questions:
    """The Asker of `core.ports`; until it is connected nobody answers."""

    def __init__(self) -> None:
        self._approvals: Approvals | None = None

    def connect(self, approvals: Approvals) -> None:
        """Put the questions there from now on."""
        self._approvals = approvals

    async def ask(self, call_id: str, question: str, options: tuple[str, ...], token: CancelToken) -> Reply:
        """The answer is the `reason` of a decision that is no denial; an empty one is none."""
        if self._approvals is None:
            return Reply(None, "no user")
        preview = Preview(question, (QuestionBlock(question=question, options=options),))
        binding = fingerprint(ASK_USER, {"question": question, "options": options})
        decision = await self._approvals.put(Question(call_id, ASK_USER, preview, _REASON, binding), token)
        if decision.answer == "deny" or not decision.reason.strip():
            return Reply(None, decision.reason.strip())
        return Reply(decision.reason)
