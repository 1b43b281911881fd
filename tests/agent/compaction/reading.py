"""A model that reads what it is sent: it answers from its context, and writes a summary when it is
asked for one."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, ClassVar

from codeagent.agent.compaction.plan import request_characters
from codeagent.core.errors import ModelError
from codeagent.core.messages import Usage, text_of
from codeagent.core.model import ModelEvent, ModelRequest
from codeagent.core.policy import Permission
from codeagent.core.tool import Access, Tool, ToolContext, ToolResult
from tests.agent.doubles import Do, Turn, TurnsModel

ASKED = "the conversation above is replaced by a summary"


def text_in(request: ModelRequest) -> str:
    """Everything that the model is sent but the system prompt, in one text."""
    parts = [m.text if m.role == "assistant" else text_of(m.content) for m in request.messages]
    return "\n".join(parts)


def wants_summary(request: ModelRequest) -> bool:
    return (
        ASKED in text_of(request.messages[-1].content)
        if request.messages[-1].role == "user"
        else False
    )


class ReadingModel(TurnsModel):
    """Asks `work` for each answer and `summarize` for each summary; a token is four characters.

    A request of more than `most` tokens is refused as a provider refuses it.
    """

    def __init__(
        self,
        work: Callable[[ModelRequest], Turn],
        summarize: Callable[[ModelRequest], Turn] = lambda request: Turn("the gist of it"),
        most: int | None = None,
    ) -> None:
        super().__init__()
        self._work, self._summarize, self._most = work, summarize, most
        self.summaries: list[ModelRequest] = []

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        used = request_characters(request) // 4
        if self._most is not None and used > self._most:
            turn = Turn(error=ModelError("prompt is too long", kind="context_window", status=400))
        elif wants_summary(request):
            turn = self._summarize(request)
            self.summaries.append(request)
        else:
            turn = self._work(request)
        usage = turn.usage or Usage(
            input_tokens=used, output_tokens=len(turn.text) // 4, cost_usd=0.01
        )
        self.turns.append(replace(turn, usage=usage))
        return super().stream(request)


class Show(Tool[Do]):
    """Shows `amount` characters that begin with `what`."""

    name: ClassVar[str] = "show"
    label: ClassVar[str] = "Show"
    description: ClassVar[str] = "Shows text."
    permission: Permission = "auto"
    effect = "nothing"
    Args = Do

    def access(self, args: Do, workspace: Any) -> Access:
        return Access("shared")

    async def run(self, args: Do, ctx: ToolContext) -> ToolResult:
        return ToolResult.from_text(args.what + "." * args.amount, details={"shown": args.what})


def show(what: str, amount: int = 0) -> tuple[str, str]:
    return "show", f'{{"what": "{what}", "amount": {amount}}}'
