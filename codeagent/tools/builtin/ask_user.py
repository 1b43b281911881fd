"""The `ask_user` tool: asks a question that only the user can answer."""

from typing import Annotated

from codeagent.core.approval_events import Asker
from codeagent.core.deferred import Field
from codeagent.core.display import QuestionBlock
from codeagent.core.messages import ErrorInfo
from codeagent.core.policy import ApprovalKey
from codeagent.core.tool import Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.arguments import written

_UNANSWERED = "the user did not answer"


class AskUserArgs(ToolArgs):
    question: Annotated[str, written("question")]
    options: Annotated[
        tuple[Annotated[str, written("option")], ...], Field(max_length=9, strict=False)
    ] = ()


class AskUser(Tool[AskUserArgs]):
    """Does not need approval, as it is a question itself."""

    name = "ask_user"
    label = "Question"
    description = "Ask the user what only they can decide."
    Args = AskUserArgs
    permission = "auto"
    concurrency = "shared"
    effect = "nothing"
    waits_for_user = True

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def approval_key(self, args: AskUserArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.question,))

    async def run(self, args: AskUserArgs, ctx: ToolContext) -> ToolResult:
        question = QuestionBlock(question=args.question, options=args.options)
        reply = await self._asker.ask(ctx.call_id, question, ctx.cancel)
        if reply.answer is not None:
            return ToolResult.from_text(reply.answer)
        message = reply.why or _UNANSWERED
        return ToolResult.from_text(
            f"denied: {message}", error=ErrorInfo(kind="denied", message=message)
        )
