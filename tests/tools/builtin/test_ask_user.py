"""`ask_user`: a question to the user, and what the model reads where nobody answers."""

from typing import Any

from codeagent.core.approval_events import Reply
from codeagent.core.cancel import CancelToken
from codeagent.core.display import QuestionBlock
from codeagent.core.messages import text_of
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.builtin.ask_user import AskUser, AskUserArgs
from tests.fakes import tool_context
from tests.table import for_each


class Answering:
    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    async def ask(self, call_id: str, question: QuestionBlock, token: CancelToken) -> Reply:
        self.asked.append((question.question, question.options))
        return self.reply


async def test_the_answer_is_the_result() -> None:
    asker = Answering(Reply("the second"))
    context: Any = tool_context(None)  # type: ignore[arg-type]  # it looks at no file
    result = await AskUser(asker).run(AskUserArgs(question="Which?", options=("a", "b")), context)
    assert text_of(result.content) == "the second" and result.error is None
    assert asker.asked == [("Which?", ("a", "b"))]


@for_each(("why", "said"), [("", "the user did not answer"), ("no user", "no user")])
async def test_no_answer_is_denied_and_has_run(why: str, said: str) -> None:
    context: Any = tool_context(None)  # type: ignore[arg-type]  # it looks at no file
    result = await AskUser(Answering(Reply(None, why))).run(AskUserArgs(question="Which?"), context)
    assert result.error is not None and (result.error.kind, result.error.message) == (
        "denied",
        said,
    )
    assert text_of(result.content) == f"denied: {said}" and result.executed


def test_options_come_as_a_json_list() -> None:
    args = parse_arguments(
        AskUser(Answering(Reply(None))), '{"question": "Q", "options": ["a", "b"]}'
    )
    assert isinstance(args, AskUserArgs) and args.options == ("a", "b")
