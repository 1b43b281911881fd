"""The scripted model plays its turns like a provider; a script is checked before it plays, and its
errors say where."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.errors import ConfigError, ModelError, TranscriptError
from codeagent.core.messages import AssistantMessage, Thinking, ToolCall, UserMessage
from codeagent.core.model import AnswerBegun, ModelAnswer, ModelRequest, TextPiece
from codeagent.llm.scripted import ScriptedError, ScriptedModel, Turn, load_script, parse_script
from tests.llm.asking import Heard, ask, request, result
from tests.table import for_each

USER = UserMessage.from_text("hi")
CALL = ToolCall(id="call_0001", name="bash", arguments="{}")
OTHER = ToolCall(id="call_0002", name="bash", arguments="{}")
ANSWER = AssistantMessage(calls=(CALL, OTHER))


async def test_a_turn_is_streamed_in_pieces_and_then_answered() -> None:
    turn = Turn(
        text="one two three",
        reasoning="hm, well",
        calls=[("read", {"path": "a"}), ("bash", "{broken")],
    )
    heard = await ask(ScriptedModel([turn]))
    assert heard.text == "one two three"
    assert heard.reasoning == "hm, well"
    assert len([event for event in heard.events if isinstance(event, TextPiece)]) > 1
    assert [(call.name, call.arguments) for call in heard.message.calls] == [
        ("read", '{"path": "a"}'),
        ("bash", "{broken"),
    ]
    assert heard.closed == list(heard.message.calls)
    assert heard.message.thinking == (Thinking(text="hm, well"),)
    assert (heard.message.stop, heard.message.model) == ("tool_calls", "script")


async def test_turns_play_in_order_with_ids_of_their_own() -> None:
    model = ScriptedModel(
        [Turn(calls=[("bash", {})]), Turn(calls=[("bash", {})]), Turn(text="done")]
    )
    first = (await ask(model)).message
    transcript = [USER, first, result(first.calls[0], "x")]
    second = (await ask(model, request(*transcript))).message
    assert first.calls[0].id != second.calls[0].id
    transcript += [second, result(second.calls[0], "y")]
    assert (await ask(model, request(*transcript))).message.text == "done"


async def test_a_resumed_session_keeps_its_ids_apart() -> None:
    first = (await ask(ScriptedModel([Turn(calls=[("bash", {})])]))).message
    again = ScriptedModel([Turn(calls=[("bash", {})])])
    second = (await ask(again, request(USER, first, result(first.calls[0], "x"), USER))).message
    assert first.calls[0].id != second.calls[0].id


async def test_a_turn_may_stop_at_the_limit() -> None:
    heard = await ask(ScriptedModel([Turn(calls=[("write", '{"path": "a')], stop="length")]))
    assert heard.message.stop == "length"
    assert heard.closed == []


@for_each(
    ("status", "kind", "retryable"),
    [
        (401, "auth", False),
        (400, "bad_request", False),
        (429, "rate_limit", True),
        (500, "server", True),
        (529, "overloaded", True),
    ],
)
async def test_a_turn_may_fail_after_what_it_says(status: int, kind: str, retryable: bool) -> None:
    heard = Heard()
    model = ScriptedModel([Turn(text="half", error=ScriptedError(status=status, retry_after=3))])
    with pytest.raises(ModelError, match=f"turn 1 fails with status {status}") as caught:
        await ask(model, heard=heard)
    assert heard.text == "half"
    error = caught.value
    assert (error.kind, error.status, error.retryable, error.retry_after) == (
        kind,
        status,
        retryable,
        3,
    )


async def test_a_script_that_is_over_says_so() -> None:
    model = ScriptedModel([Turn(text="a")], name="script:x.json")
    await ask(model)
    with pytest.raises(
        ModelError, match=r"script:x.json: the script has no turn 2; it ends after 1"
    ) as caught:
        await ask(model)
    assert (caught.value.kind, caught.value.retryable) == ("script", False)


async def test_an_expectation_sees_the_newest_input_alone() -> None:
    call = ToolCall(id="call_0001", name="bash", arguments="{}")
    messages = [
        USER,
        AssistantMessage(calls=(call,)),
        result(call, "FAILED (failures=1)"),
        UserMessage.from_text("stop"),
    ]
    asked = request(*messages)
    assert (
        await ask(ScriptedModel([Turn(text="a", expect=r"FAILED(.|\n)*stop$")]), asked)
    ).text == "a"
    with pytest.raises(
        ModelError, match=r"turn 1 expected 'hi' in the newest input, which is 'FAILED"
    ):
        await ask(ScriptedModel([Turn(text="a", expect="hi")]), asked)


@for_each(
    ("messages", "problem"),
    [
        ([USER, ANSWER, result(CALL, "x")], "call call_0002 has no result"),
        ([USER, ANSWER, result(OTHER, "x"), result(CALL, "x")], "wrong order"),
        ([USER, result(CALL, "x")], "which no open call has"),
        (
            [USER, ANSWER, result(CALL, "x"), USER, result(OTHER, "x")],
            "has no result before message 4",
        ),
        ([AssistantMessage(text="x")], "a transcript begins with the user"),
    ],
)
async def test_a_malformed_transcript_is_rejected(messages: list[object], problem: str) -> None:
    model = ScriptedModel([Turn(text="a")])
    with pytest.raises(TranscriptError, match=problem):
        await ask(model, request(*messages))  # type: ignore[arg-type]  # messages of each kind
    assert (await ask(model)).text == "a"


async def test_usage_is_counted_and_costs_nothing() -> None:
    model = ScriptedModel([Turn(text="x" * 400, reasoning="y" * 40), Turn(text="z")])
    usage = (await ask(model, request(UserMessage.from_text("p" * 4000)))).usage
    assert 1000 < usage.input_tokens < 1200
    assert (usage.output_tokens, usage.reasoning_tokens) == (110, 10)
    assert (usage.cost_usd, usage.estimated) == (0.0, True)
    assert model.context_window == 200_000


async def test_an_answer_begins_with_its_first_piece_and_a_refusal_does_not_begin() -> None:
    heard = (await ask(ScriptedModel([Turn(text="one two")]))).events
    assert [isinstance(event, AnswerBegun) for event in heard] == [
        True,
        *[False] * (len(heard) - 1),
    ]
    refused = Heard()
    with pytest.raises(ModelError):
        await ask(ScriptedModel([Turn(error=ScriptedError(status=400))]), heard=refused)
    assert refused.events == []


async def test_a_long_answer_without_delays_lets_others_run() -> None:
    task = asyncio.create_task(ask(ScriptedModel([Turn(text="word " * 20_000)])))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_delay_comes_before_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("codeagent.llm.scripted.asyncio.sleep", sleep)
    await ask(ScriptedModel([Turn(text="one two", delay_ms=20)]))
    assert slept == [0.02] * 3


@given(text=st.text(), reasoning=st.text(), arguments=st.text())
def test_what_is_written_is_what_is_said(text: str, reasoning: str, arguments: str) -> None:
    turn = Turn(text=text, reasoning=reasoning, calls=[("bash", arguments)])
    message = asyncio.run(ask(ScriptedModel([turn]))).message
    assert message.text == text
    assert "".join(block.text for block in message.thinking) == reasoning
    assert message.calls[0].arguments == arguments


def test_every_field_is_read(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text(
        '[{"text": "a", "reasoning": "b", "calls": [["bash", {"command": "ls"}], ["read", "{\\"pa"]],'
        ' "stop": "length", "delay_ms": 20, "expect": "^x"},'
        ' {"error": {"status": 529, "message": "m", "retry_after": 1}}]'
    )
    first, second = load_script(str(file))
    assert first == Turn(
        text="a",
        reasoning="b",
        calls=[("bash", {"command": "ls"}), ("read", '{"pa')],
        stop="length",
        delay_ms=20,
        expect="^x",
    )
    assert second.error == ScriptedError(status=529, message="m", retry_after=1)


@for_each(
    ("text", "said"),
    [
        ("{", "the script s is not JSON"),
        ("{}", "must be a list of turns"),
        ("[]", "with at least one"),
        ("[1]", "the script s, turn 1: "),
        ('[{"text": "a"}, {"txet": "b"}]', "the script s, turn 2: txet: "),
        ('[{"calls": [["bash"]]}]', "the script s, turn 1: calls.0"),
        ('[{"calls": [["bash", 1]]}]', "the script s, turn 1: calls.0"),
        (
            '[{"expect": "("}]',
            "the script s, turn 1: expect: Value error, not a regular expression",
        ),
        ('[{"stop": "never"}]', "the script s, turn 1: stop"),
        ('[{"error": {"status": 200}}]', "the script s, turn 1: error.status"),
        ('[{"delay_ms": -1}]', "the script s, turn 1: delay_ms"),
    ],
)
def test_a_bad_script_names_its_file_and_turn(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_script(text, "s")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_or_binary_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_script(str(tmp_path / "none.json"))
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_script(str(tmp_path / "binary.json"))


def test_the_example_of_the_reference_is_a_script() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "script-model.md"
    example = page.read_text().split("```json\n")[1].split("```")[0]
    turns = parse_script(example, "the example")
    assert [bool(turn.error) for turn in turns] == [False, False, True, False, False]
    assert all(f"| `{field}` |" in page.read_text() for field in Turn.model_fields)


async def test_a_request_for_a_summary_takes_no_turn_and_has_answers_of_its_own() -> None:
    script = parse_script(
        '[{"text": "one"}, {"text": "the gist", "summary": true}, {"text": "two"}]', "s"
    )
    model = ScriptedModel(script)
    said = []
    for purpose in ("turn", "summary", "turn", "summary"):
        asked = ModelRequest("", (UserMessage.from_text("hi"),), (), purpose)  # type: ignore[arg-type]  # a purpose
        said += [
            event.message.text
            async for event in model.stream(asked)
            if isinstance(event, ModelAnswer)
        ]
    assert said == ["one", "the gist", "two", "The conversation went as the script says."]
