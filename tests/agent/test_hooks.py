"""Hooks: their order, and that one which fails or hangs denies (FEATURES F11)."""

import asyncio

from codeagent.agent.hooks import Allow, Deny, Hook, Hooks, Modify
from codeagent.core.events import ToolResultAdded, ToolStarted, ToolUpdated
from codeagent.core.messages import ToolCall, text_of
from codeagent.core.policy import Policy, Rule
from codeagent.core.tool import ToolResult
from tests.agent.doubles import Scene, Turn, do, names, of, scene


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
    s.agent.observe(lambda event: order.append(event.type) if event.type.startswith("tool.") else None)
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
