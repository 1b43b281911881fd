"""The demo's project really fails, and its script really fixes it."""

import json
import subprocess
import sys
from pathlib import Path

from codeagent.core.messages import (
    AssistantMessage,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from codeagent.llm.demo import DEMO_PROMPT, demo_files, demo_model
from tests.llm.asking import ask, request, result
from tests.table import for_each


def project(root: Path) -> Path:
    for path, text in demo_files().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def run_python(root: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-B", *arguments], cwd=root, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_the_project_has_what_a_project_has() -> None:
    assert {
        "README.md",
        "AGENTS.md",
        "library/calendar.py",
        "tests/test_calendar.py",
    } <= demo_files().keys()


async def test_the_script_takes_the_project_from_red_to_green(tmp_path: Path) -> None:
    root = project(tmp_path)
    model = demo_model()
    messages: list[Message] = [UserMessage.from_text(DEMO_PROMPT)]
    used: list[list[str]] = []
    codes: list[int] = []

    def run(call: ToolCall) -> str:
        arguments = json.loads(call.arguments)
        match call.name:
            case "bash":
                python, *rest = arguments["command"].split()
                assert python == "python3"
                code, output = run_python(root, *rest)
                codes.append(code)
                return output
            case "read":
                return (root / arguments["path"]).read_text()
            case "search":
                return "library/loans.py:5: from library.calendar import days_in_month, is_leap"
            case "edit":
                file = root / arguments["path"]
                assert file.read_text().count(arguments["old_string"]) == 1
                file.write_text(
                    file.read_text().replace(arguments["old_string"], arguments["new_string"])
                )
                return "edited"
        raise AssertionError(call.name)

    while not used or used[-1]:
        message = (await ask(model, request(*messages))).message
        used.append([call.name for call in message.calls])
        messages.append(message)
        for call in message.calls:
            content = (TextPart(text=run(call)),)
            messages.append(ToolMessage(call_id=call.id, name=call.name, content=content))
    assert used == [["bash"], ["read", "search"], ["edit"], ["bash"], ["bash"], []]
    assert codes == [1, 0, 0]
    assert run_python(root, "tidy.py") == (0, ""), "everything is tidy by then"


@for_each(
    "told",
    [
        "the user said no: use pytest",
        "FAILED\n[exit code 1]\n[the user said no: use pytest. Nothing that it changed was taken, "
        "the workspace is as before: M a]",
    ],
)
async def test_what_the_user_denied_is_asked_for_again_with_their_reason(told: str) -> None:
    model = demo_model()
    messages: list[Message] = [UserMessage.from_text(DEMO_PROMPT)]
    first = (await ask(model, request(*messages))).message
    denied = result(first.calls[0], told, is_error=True)

    second = (await ask(model, request(*messages, first, denied))).message

    assert "You said no: “use pytest”. " in second.text
    assert [call.arguments for call in second.calls] == [call.arguments for call in first.calls]
    assert second.calls[0].id != first.calls[0].id


async def test_after_a_stop_it_goes_on_where_it_was() -> None:
    model = demo_model()
    messages: list[Message] = [UserMessage.from_text(DEMO_PROMPT)]
    first = (await ask(model, request(*messages))).message
    stopped = result(first.calls[0], "cancelled", is_error=True)
    again = UserMessage.from_text("go on")

    second = (await ask(model, request(*messages, first, stopped, again))).message

    assert [call.name for call in second.calls] == ["bash"]


async def test_once_it_is_over_it_says_so_however_often_it_is_asked() -> None:
    model = demo_model()
    messages: list[Message] = [UserMessage.from_text(DEMO_PROMPT)]
    while True:
        message = (await ask(model, request(*messages))).message
        messages.append(message)
        if not message.calls:
            break
        messages += [result(call, "FAILED is_leap\nOK") for call in message.calls]
    for _ in range(2):
        messages.append(UserMessage.from_text("and now?"))
        messages.append((await ask(model, request(*messages))).message)
        assert isinstance(messages[-1], AssistantMessage)
        assert "That was the demo" in messages[-1].text and not messages[-1].calls


async def test_in_another_repository_it_says_so_instead_of_reading_what_is_not_there() -> None:
    model = demo_model()
    messages: list[Message] = [UserMessage.from_text("run the tests")]
    first = (await ask(model, request(*messages))).message
    ran = result(first.calls[0], "Ran 135 tests in 2.706s\n\nFAILED (errors=23, skipped=8)")

    second = (await ask(model, request(*messages, first, ran))).message

    assert "this is another one" in second.text and "codeagent demo" in second.text
    assert not second.calls
