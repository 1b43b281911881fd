"""Hooks: their order, and that one which fails or hangs denies."""

import asyncio
import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from codeagent.agent.hooks.hook import Allow, Deny, Hook, Hooks, Modify, SubmittedPrompt
from codeagent.core.acts import Stop
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.events import RunFinished, ToolResultAdded, ToolStarted, ToolUpdated
from codeagent.core.messages import ToolCall, text_of
from codeagent.core.policy import Policy, Rule
from codeagent.core.tool import ToolResult
from tests.agent.doubles import USE, Scene, Turn, Using, do, names, of, scene
from tests.table import for_each

CALL = ToolCall(id="c1", name="bash", arguments='{"command": "ls"}')


def hooked(*hooks: Hook, what: str = "ok", timeout: float = 5, **options: object) -> Scene:
    return scene(Turn("", (do(what),)), Turn("done"), hooks=Hooks(hooks, timeout), **options)  # type: ignore[arg-type]  # options pass through


async def test_the_order_of_hooks_and_events_is_fixed() -> None:
    order: list[str] = []

    async def before_tool(call: ToolCall) -> bool:
        order.append("before_tool")
        return True

    async def after_tool(call: ToolCall, result: ToolResult) -> None:
        order.append("after_tool")

    async def before_update(call: ToolCall, text: str) -> bool:
        order.append(f"before_update {text}")
        return text != "piece 1"

    async def after_update(call: ToolCall, text: str) -> None:
        order.append(f"after_update {text}")

    s = hooked(Hook("h", before_tool, after_tool, before_update, after_update), what="update")
    s.agent.observe(
        lambda event: order.append(event.type) if event.type.startswith("tool.") else None
    )
    await s.run()
    assert order == [
        "tool.call",
        "before_tool",
        "tool.started",
        "before_update piece 1",
        "before_update piece 2",
        "tool.updated",
        "after_update piece 2",
        "tool.finished",
        "tool.result",
        "after_tool",
    ]


async def answer_of(answer: object) -> ToolResultAdded:
    async def before_tool(call: ToolCall) -> bool | Allow | Deny | Modify:
        return answer  # type: ignore[return-value]  # wrong answers are part of the test

    events = await hooked(Hook("gate", before_tool)).run()
    if not of(events, ToolResultAdded)[0].executed:
        assert of(events, ToolStarted) == []
    return of(events, ToolResultAdded)[0]


async def test_a_veto_is_one_denied_result_and_no_start() -> None:
    for veto in (False, Deny("not on a Friday"), None, "yes"):
        result = await answer_of(veto)
        assert (result.error.kind, result.executed, result.approval) == ("denied", False, "hook")
    assert text_of((await answer_of(Deny("not on a Friday"))).content) == "not on a Friday"


async def test_allow_and_true_let_it_pass() -> None:
    for answer in (True, Allow()):
        assert (await answer_of(answer)).error is None


async def test_modified_arguments_run_and_are_validated_again() -> None:
    assert text_of((await answer_of(Modify({"what": "fail"}))).content) == "it failed"
    result = await answer_of(Modify({"nonsense": 1}))
    assert (result.error.kind, result.executed) == ("invalid_args", False)


async def test_a_crashing_hook_denies() -> None:
    async def crash(call: ToolCall) -> bool:
        raise RuntimeError("no")

    (result,) = of(await hooked(Hook("gate", crash)).run(), ToolResultAdded)
    assert (result.error.kind, text_of(result.content)) == ("denied", "the hook gate failed: no")


async def test_a_hanging_hook_denies() -> None:
    async def hang(call: ToolCall) -> bool:
        await asyncio.sleep(60)
        return True

    (result,) = of(await hooked(Hook("gate", hang), timeout=0.05).run(), ToolResultAdded)
    assert result.error.kind == "denied"


async def test_a_hook_cannot_widen_what_the_rules_allow() -> None:
    async def allow(call: ToolCall) -> Allow:
        return Allow()

    s = hooked(Hook("gate", allow), policy=Policy(rules=(Rule.parse("do", "deny"),)))
    (result,) = of(await s.run(), ToolResultAdded)
    assert (result.error.kind, result.approval) == ("denied", "rule")


async def test_hooks_are_called_in_the_order_of_registration_and_see_earlier_changes() -> None:
    seen: list[str] = []

    def hook(name: str, answer: bool | Modify) -> Hook:
        async def before(call: ToolCall) -> bool | Modify:
            seen.append(f"{name} {call.arguments}")
            return answer

        return Hook(name, before)

    await hooked(hook("a", Modify({"what": "nap"})), hook("b", True)).run()
    assert seen == ['a {"what": "ok", "key": ""}', 'b {"what": "nap"}']


async def test_an_update_after_the_call_has_settled_is_ignored() -> None:
    s = scene(Turn("", (do("ok"),)), Turn("done"))
    late: list[object] = []

    async def keep(args, ctx):  # type: ignore[no-untyped-def]  # stands in for the tool's own method
        late.append(ctx)
        return ToolResult.from_text("done")

    s.tools["do"]._do = keep  # type: ignore[method-assign]  # to hold on to the context
    events = await s.run()
    await late[0].on_update("too late")  # type: ignore[attr-defined]  # a ToolContext
    assert of(events, ToolUpdated) == []
    assert "tool.updated" not in names(s.journal.events)


async def test_updates_that_no_tool_waits_for_are_judged_in_their_order_and_shown_before_the_result() -> (
    None
):
    asked: list[str] = []

    async def judge(call: ToolCall, text: str) -> bool:
        for _ in range(0 if asked else 9):  # the first answer takes longest
            await asyncio.sleep(0)
        asked.append(text)
        return text != "second"

    using = Using(lambda ctx: [ctx.on_update(text) for text in ("first", "second", "third")])
    hooks = Hooks((Hook("h", before_update=judge),))
    events = await scene(Turn("", (USE,)), Turn("done"), more=(using,), hooks=hooks).run()
    assert asked == ["first", "second", "third"]
    assert [event.text for event in of(events, ToolUpdated)] == ["first", "third"]
    told = [event for event in events if isinstance(event, ToolUpdated | ToolResultAdded)]
    assert isinstance(told[-1], ToolResultAdded)


async def test_a_stopped_call_does_not_wait_for_hooks_that_are_asked_about_its_updates() -> None:
    judging = asyncio.Event()

    async def judge(call: ToolCall, text: str) -> bool:
        judging.set()
        await asyncio.Event().wait()
        return True

    hooks = Hooks((Hook("h", before_update=judge),), timeout=60)
    using = Using(lambda ctx: [ctx.on_update("text")])
    s = scene(Turn("", (USE,)), Turn("done"), more=(using,), hooks=hooks)
    run = asyncio.create_task(s.run())
    await judging.wait()
    s.act(Stop())
    events = await run
    assert of(events, ToolUpdated) == []
    assert [event.error for event in of(events, ToolResultAdded)] == [None]


async def test_the_user_is_asked_about_the_arguments_as_the_hook_left_them() -> None:
    async def change(call: ToolCall) -> Modify:
        return Modify({"what": "fail"})

    s = scene(Turn("", (do("ok", "asking"),)), Turn("done"), hooks=Hooks((Hook("h", change),)))
    events = await s.run()
    (asked,), (started,) = of(events, ApprovalRequested), of(events, ToolStarted)
    assert (asked.target, json.loads(asked.arguments)["what"]) == ("fail", "fail")
    assert (started.target, started.arguments["what"]) == ("fail", "fail")


async def test_what_a_hook_does_to_its_arguments_afterwards_changes_nothing() -> None:
    arguments = {"command": ["ls"]}

    async def change(call: ToolCall) -> Modify:
        return Modify(arguments)

    answer = await Hooks((Hook("h", change),)).before_tool(CALL)
    arguments["command"].append("-l")
    assert answer == Modify({"command": ["ls"]})


@given(
    answer=st.none()
    | st.integers()
    | st.text()
    | st.lists(st.booleans())
    | st.dictionaries(st.text(), st.text())
)
async def test_an_answer_that_is_none_of_the_four_denies_always(answer: object) -> None:
    async def odd(*subjects: object) -> object:
        return answer

    hooks = Hooks((Hook("odd", odd, before_update=odd, prompt_submit=odd),))  # type: ignore[arg-type]  # wrong answers are the test
    denied = Deny(
        f"the hook odd failed: it answered {type(answer).__name__}, which is not a decision here"
    )
    assert await hooks.before_tool(CALL) == denied
    assert await hooks.prompt_submit(SubmittedPrompt("go")) == denied
    assert not await hooks.before_update(CALL, "piece")


async def test_a_hook_that_cancels_itself_or_says_much_denies_in_one_line() -> None:
    async def cancel(call: ToolCall) -> bool:
        raise asyncio.CancelledError

    async def ramble(call: ToolCall) -> bool:
        raise RuntimeError("first\nsecond" + "x" * 9999)

    assert await Hooks((Hook("h", cancel),)).before_tool(CALL) == Deny(
        "the hook h failed: it was cancelled"
    )
    denied = await Hooks((Hook("h", ramble),)).before_tool(CALL)
    assert isinstance(denied, Deny) and "\n" not in denied.reason and len(denied.reason) < 500


async def test_the_first_denial_ends_the_asking() -> None:
    seen: list[str] = []

    def hook(name: str, answer: bool) -> Hook:
        async def before(call: ToolCall) -> bool:
            seen.append(name)
            return answer

        return Hook(name, before)

    denied = await Hooks((hook("a", True), hook("b", False), hook("c", True))).before_tool(CALL)
    assert (denied, seen) == (Deny("denied by the hook b"), ["a", "b"])


async def test_a_hook_for_some_tools_is_not_called_for_others() -> None:
    seen: list[str] = []

    async def note(call: ToolCall, *rest: object) -> bool:
        seen.append(call.name)
        return True

    hooks = Hooks((Hook("h", note, note, note, note, tools="bash*"),))  # type: ignore[arg-type]  # one function for all four
    for name in ("bash", "bash_output", "read", "BASH"):
        call = replace(CALL, name=name)
        await hooks.before_tool(call)
        await hooks.after_tool(call, ToolResult.from_text(""))
        await hooks.before_update(call, "")
        await hooks.after_update(call, "")
    assert seen == ["bash"] * 4 + ["bash_output"] * 4


@for_each(
    ("answer", "shown", "told"),
    [
        (True, True, []),
        (Allow(), True, []),
        (False, False, []),
        (Deny("no"), False, []),
        (None, False, ["the hook h failed: it answered NoneType, which is not a decision here"]),
    ],
)
async def test_an_update_is_shown_or_suppressed(
    answer: object, shown: bool, told: list[str]
) -> None:
    async def before(call: ToolCall, text: str) -> object:
        return answer

    reported: list[str] = []
    hooks = Hooks((Hook("h", before_update=before),), on_failure=reported.append)  # type: ignore[arg-type]  # wrong answers are part of the test
    assert (await hooks.before_update(CALL, "piece"), reported) == (shown, told)


async def test_a_hook_that_is_only_told_and_fails_or_hangs_is_reported_and_the_run_goes_on() -> (
    None
):
    async def crash(*subjects: object) -> None:
        raise RuntimeError("no")

    async def hang(*subjects: object) -> None:
        await asyncio.sleep(60)

    reported: list[str] = []
    crashing = Hook(
        "crash", after_tool=crash, after_update=crash, run_finished=crash, session_start=crash
    )
    hanging = Hook("hang", after_tool=hang, session_end=hang)
    s = scene(
        Turn("", (do("update"),)),
        Turn("done"),
        hooks=Hooks((crashing, hanging), 0.05, reported.append),
    )
    await s.agent.begin_session(resumed=False)
    assert of(await s.run(), RunFinished)[0].reason == "done"
    await s.agent.close()
    failed, late = "the hook crash failed: no", "the hook hang did not answer within 0.05 s"
    assert reported == [failed, failed, failed, failed, late, failed, late]


async def test_the_same_hooks_hold_for_every_agent() -> None:
    seen: list[str] = []

    async def deny(call: ToolCall) -> Deny:
        seen.append(call.id)
        return Deny("for all")

    hooks = Hooks((Hook("h", deny),))
    for _ in range(2):
        (result,) = of(
            await scene(Turn("", (do("ok"),)), Turn("done"), hooks=hooks).run(), ToolResultAdded
        )
        assert (result.approval, text_of(result.content)) == ("hook", "for all")
    assert len(seen) == 2
