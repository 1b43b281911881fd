"""The exact order of hooks and events, as lists to read: `>` marks the call of a
hook."""

from collections.abc import Callable
from typing import ClassVar

import pytest

from codeagent.agent.hooks.hook import AddContext, Deny, Hooks, Modify
from codeagent.agent.limits import Limits
from codeagent.core.acts import CancelCall, FollowUp, Interrupt, Steer, Stop
from codeagent.core.events import KnownEvent, ToolFinished, ToolStarted
from codeagent.core.notes import ADDED
from tests.agent.doubles import Doing, Scene, Turn, do, scene
from tests.agent.hook_recorder import Recorder

ONE_CALL = [
    "run.started",
    "message.added prompt: go",
    "tool.call call_1",
    "message.added of the model",
    "batch.planned",
]
TWO_CALLS = [
    "run.started",
    "message.added prompt: go",
    "tool.call call_1",
    "tool.call call_2",
    "message.added of the model",
    "batch.planned",
]
DONE = [
    "batch.finished",
    "message.added of the model",
    "run.finished done",
    "> run_finished done: done",
]


class Looking(Doing):
    """Changes nothing, so its calls run at the same time although a hook may change their
    arguments."""

    name: ClassVar[str] = "look"
    effect = "nothing"


async def order_of(
    recorder: Recorder,
    *calls: tuple[str, str],
    on_event: Callable[[KnownEvent, Scene], None] = lambda event, scene: None,
    **options: object,
) -> list[str]:
    turns = (Turn("", calls), Turn("done")) if calls else (Turn("done"),)
    s = scene(*turns, hooks=Hooks((recorder.hook,), 5), more=(Looking(),), **options)  # type: ignore[arg-type]  # options pass through
    s.agent.observe(recorder.see)
    await s.run(on_event=lambda event: on_event(event, s))
    return recorder.lines


async def test_success() -> None:
    assert await order_of(Recorder(), do("update")) == [
        *ONE_CALL,
        "> before_tool call_1",
        "tool.started call_1",
        "> before_update call_1 piece 1",
        "tool.updated call_1 piece 1",
        "> after_update call_1 piece 1",
        "> before_update call_1 piece 2",
        "tool.updated call_1 piece 2",
        "> after_update call_1 piece 2",
        "tool.finished call_1",
        "tool.result call_1 ok",
        "> after_tool call_1",
        *DONE,
    ]


async def test_a_question_to_the_user_comes_behind_the_hook() -> None:
    assert await order_of(Recorder(), do("ok", "asking")) == [
        *ONE_CALL,
        "> before_tool call_1",
        "approval.requested call_1",
        "approval.resolved call_1",
        "tool.started call_1",
        "tool.finished call_1",
        "tool.result call_1 ok",
        "> after_tool call_1",
        *DONE,
    ]


async def test_error() -> None:
    assert await order_of(Recorder(), do("fail")) == [
        *ONE_CALL,
        "> before_tool call_1",
        "tool.started call_1",
        "tool.finished call_1",
        "tool.result call_1 failed",
        "> after_tool call_1",
        *DONE,
    ]


@pytest.mark.parametrize("veto", [False, Deny("not on a Friday")])
async def test_veto(veto: bool | Deny) -> None:
    assert await order_of(Recorder(tool=lambda call: veto), do("update")) == [
        *ONE_CALL,
        "> before_tool call_1",
        "tool.result call_1 denied",
        "batch.finished",
        "message.added of the model",
        "run.finished denied",
        "> run_finished denied: done",
    ]


async def test_modify() -> None:
    assert await order_of(
        Recorder(tool=lambda call: Modify({"what": "fail"})), do("ok", "asking")
    ) == [
        *ONE_CALL,
        "> before_tool call_1",
        "approval.requested call_1",
        "approval.resolved call_1",
        "tool.started call_1",
        "tool.finished call_1",
        "tool.result call_1 failed",
        "> after_tool call_1",
        *DONE,
    ]


async def test_modify_to_what_does_not_fit() -> None:
    assert await order_of(
        Recorder(tool=lambda call: Modify({"nonsense": 1})), do("ok", "asking")
    ) == [*ONE_CALL, "> before_tool call_1", "tool.result call_1 invalid_args", *DONE]


async def test_suppressed_update() -> None:
    assert await order_of(Recorder(update=lambda text: text != "piece 1"), do("update")) == [
        *ONE_CALL,
        "> before_tool call_1",
        "tool.started call_1",
        "> before_update call_1 piece 1",
        "> before_update call_1 piece 2",
        "tool.updated call_1 piece 2",
        "> after_update call_1 piece 2",
        "tool.finished call_1",
        "tool.result call_1 ok",
        "> after_tool call_1",
        *DONE,
    ]


async def test_timeout() -> None:
    assert await order_of(Recorder(), do("sleep"), limits=Limits(timeout_per_call=0.05)) == [
        *ONE_CALL,
        "> before_tool call_1",
        "tool.started call_1",
        "tool.finished call_1",
        "tool.result call_1 timeout",
        "> after_tool call_1",
        *DONE,
    ]


async def test_cancel_of_one_call() -> None:
    def cancel(event: KnownEvent, s: Scene) -> None:
        if isinstance(event, ToolStarted):
            s.act(CancelCall(event.call_id))

    assert await order_of(Recorder(), do("sleep"), on_event=cancel) == [
        *ONE_CALL,
        "> before_tool call_1",
        "tool.started call_1",
        "tool.finished call_1",
        "tool.result call_1 cancelled",
        "> after_tool call_1",
        *DONE,
    ]


async def test_cancel_of_the_run() -> None:
    def abort(event: KnownEvent, s: Scene) -> None:
        if isinstance(event, ToolStarted):
            s.act(Stop())

    assert await order_of(
        Recorder(), do("sleep"), do("ok"), strategy="sequential", on_event=abort
    ) == [
        *TWO_CALLS,
        "> before_tool call_1",
        "tool.started call_1",
        "tool.finished call_1",
        "tool.result call_1 cancelled",
        "> after_tool call_1",
        "batch.finished",
        "tool.result call_2 cancelled",
        "notice run.stopped",
        "run.finished interrupted",
        "> run_finished interrupted: ",
    ]


async def test_parallel_batch() -> None:
    lines = await order_of(Recorder(), do("nap", "look"), do("nap", "look"))
    assert lines[: len(TWO_CALLS)] == TWO_CALLS
    assert lines[-len(DONE) :] == DONE
    between = lines[len(TWO_CALLS) : -len(DONE)]
    assert between[:4] == [
        "> before_tool call_1",
        "> before_tool call_2",
        "tool.started call_1",
        "tool.started call_2",
    ]
    for call_id in ("call_1", "call_2"):
        assert [line for line in between if call_id in line] == [
            f"> before_tool {call_id}",
            f"tool.started {call_id}",
            f"tool.finished {call_id}",
            f"tool.result {call_id} ok",
            f"> after_tool {call_id}",
        ]


async def test_calls_that_a_hook_may_make_others_of_run_one_after_the_other() -> None:
    assert await order_of(Recorder(), do("ok"), do("ok")) == [
        *TWO_CALLS,
        "> before_tool call_1",
        "tool.started call_1",
        "tool.finished call_1",
        "tool.result call_1 ok",
        "> after_tool call_1",
        "> before_tool call_2",
        "tool.started call_2",
        "tool.finished call_2",
        "tool.result call_2 ok",
        "> after_tool call_2",
        *DONE,
    ]


async def test_sub_step_interrupt() -> None:
    def interrupt(event: KnownEvent, s: Scene) -> None:
        if isinstance(event, ToolFinished):
            s.act(Interrupt("stop"))

    recorder = Recorder(judges_prompts=True)
    assert await order_of(
        recorder, do("ok"), do("ok"), strategy="sequential", on_event=interrupt
    ) == [
        "> prompt_submit prompt: go",
        *TWO_CALLS,
        "> before_tool call_1",
        "tool.started call_1",
        "tool.finished call_1",
        "tool.result call_1 ok",
        "steer.queued",
        "> after_tool call_1",
        "batch.finished",
        "batch.planned",
        "> prompt_submit interrupt: stop",
        "batch.finished",
        "tool.result call_2 skipped",
        "steer.delivered",
        "message.added interrupt: stop",
        "message.added of the model",
        "run.finished done",
        "> run_finished done: done",
    ]


async def test_a_prompt_with_something_added() -> None:
    assert await order_of(
        Recorder(judges_prompts=True, prompt=lambda prompt: AddContext("it is Friday"))
    ) == [
        "> prompt_submit prompt: go",
        "run.started",
        "message.added prompt: go",
        f"message.added note: ({ADDED}\n> it is Friday\n)",
        "message.added of the model",
        "run.finished done",
        "> run_finished done: done",
    ]


async def test_a_prompt_that_is_denied() -> None:
    assert await order_of(Recorder(judges_prompts=True, prompt=lambda prompt: Deny("no"))) == [
        "> prompt_submit prompt: go",
        "notice run.not_begun",
    ]


async def test_text_that_was_queued_is_judged_when_it_is_due() -> None:
    def follow(event: KnownEvent, s: Scene) -> None:
        if isinstance(event, ToolStarted):
            s.act(Steer("use tabs"))
            s.act(FollowUp("then commit"))

    assert await order_of(Recorder(judges_prompts=True), do("nap"), on_event=follow) == [
        "> prompt_submit prompt: go",
        *ONE_CALL,
        "> before_tool call_1",
        "tool.started call_1",
        "steer.queued",
        "steer.queued",
        "tool.finished call_1",
        "tool.result call_1 ok",
        "> after_tool call_1",
        "batch.finished",
        "> prompt_submit steer: use tabs",
        "steer.delivered",
        "message.added steer: use tabs",
        "message.added of the model",
        "> prompt_submit follow_up: then commit",
        "steer.delivered",
        "message.added follow_up: then commit",
        "message.added of the model",
        "run.finished done",
        "> run_finished done: that is all",
    ]


async def test_a_session_from_its_start_to_its_end() -> None:
    recorder = Recorder(judges_prompts=True)
    s = scene(Turn("done"), Turn("done again"), hooks=Hooks((recorder.hook,), 5))
    s.agent.observe(recorder.see)
    await s.agent.begin_session(resumed=False)
    await s.run()
    await s.run("again")
    await s.agent.close()
    await s.agent.close()
    assert recorder.lines == [
        "> session_start s1",
        "> prompt_submit prompt: go",
        "run.started",
        "message.added prompt: go",
        "message.added of the model",
        "run.finished done",
        "> run_finished done: done",
        "> prompt_submit prompt: again",
        "run.started",
        "message.added prompt: again",
        "message.added of the model",
        "run.finished done",
        "> run_finished done: done again",
        "> session_end s1",
    ]
