"""Plan mode: nothing that changes files runs, commands get the workspace read-only, and the model
is told."""

from typing import Any, ClassVar, Literal

import pytest

from codeagent.core.acts import Prompt, SetMode
from codeagent.core.events import BatchPlanned, ToolResultAdded, ToolStarted
from codeagent.core.messages import UserMessage, text_of
from codeagent.core.policy import Policy, Rule
from codeagent.core.tool import Access, Tool, ToolContext, ToolResult
from tests.agent.doubles import Do, Scene, Turn, do, of, scene
from tests.agent.watching import to_the_end, watched
from tests.fakes import FakeSandbox


class Command(Tool[Do]):
    """Runs in the sandbox."""

    name: ClassVar[str] = "command"
    label: ClassVar[str] = "Command"
    description: ClassVar[str] = "Runs."
    permission: ClassVar[Literal["auto", "prompt", "deny"]] = "prompt"
    sandboxed = True
    Args = Do

    def __init__(self) -> None:
        self.read_only: list[bool] = []

    def access(self, args: Do, workspace: Any) -> Access:
        return Access("exclusive")

    async def run(self, args: Do, ctx: ToolContext) -> ToolResult:
        self.read_only.append(ctx.read_only)
        return ToolResult.from_text("ran")


def notes(s: Scene) -> list[str]:
    return [
        text_of(m.content)
        for m in s.agent.history
        if isinstance(m, UserMessage) and m.source == "note"
    ]


async def test_a_tool_that_changes_files_is_denied_and_the_plan_says_so_before() -> None:
    s = scene(Turn("", (do("x"),)), Turn("the plan"), policy=Policy("plan", (Rule("auto", "do"),)))
    events = await s.run()
    assert [call.permission for call in of(events, BatchPlanned)[0].calls] == ["deny"]
    assert [event.error.message for event in of(events, ToolResultAdded)] == [
        "plan mode changes nothing"
    ]
    assert not of(events, ToolStarted)


async def test_a_command_is_asked_about_and_gets_the_workspace_read_only() -> None:
    command = Command()
    turns = (Turn("", (("command", "{}"),)), Turn("the plan"))
    s = scene(*turns, policy=Policy("plan"), sandbox=FakeSandbox(), more=(command,))
    events = await s.run()
    assert [event.approval for event in of(events, ToolResultAdded)] == ["user"]
    assert command.read_only == [True]


async def test_without_a_sandbox_that_can_do_it_no_command_runs() -> None:
    command = Command()
    s = scene(
        Turn("", (("command", "{}"),)), Turn("the plan"), policy=Policy("plan"), more=(command,)
    )
    await s.run()
    assert command.read_only == []


async def test_outside_plan_mode_commands_may_write() -> None:
    command = Command()
    s = scene(Turn("", (("command", "{}"),)), Turn("done"), sandbox=FakeSandbox(), more=(command,))
    await s.run()
    assert command.read_only == [False]


async def test_a_tool_that_says_it_changes_nothing_gets_the_workspace_read_only_in_every_mode() -> (
    None
):
    command = Command()
    command.effect = "nothing"
    s = scene(Turn("", (("command", "{}"),)), Turn("done"), sandbox=FakeSandbox(), more=(command,))
    await s.run()
    assert command.read_only == [True]


async def test_the_model_is_told_once_when_it_plans_and_once_when_that_is_over() -> None:
    s = scene(Turn("a plan"), Turn("a better plan"), Turn("done"), policy=Policy("plan"))
    watched(s)
    for number, prompt in enumerate(("plan it", "better", "do it"), 1):
        if number == 3:
            s.act(SetMode("ask"))
        s.act(Prompt(prompt))
        await to_the_end(s, number)
    assert [note.partition(":")[0] for note in notes(s)] == ["(Plan mode", "(Plan mode is over"]
    assert [text_of(m.content) for m in s.agent.history if isinstance(m, UserMessage)][
        -2
    ].startswith("(Plan mode is")


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "auto"])
async def test_other_modes_are_no_news_for_the_model(
    mode: Literal["ask", "accept-edits", "auto"],
) -> None:
    s = scene(Turn("ok"))
    s.act(SetMode(mode))
    await s.run()
    assert notes(s) == []


async def test_a_change_in_mid_run_is_told_with_the_next_request() -> None:
    s = scene(Turn("", (do("x"),)), Turn("the plan"))
    watched(s)
    s.agent.observe(
        lambda event: s.act(SetMode("plan")) if isinstance(event, ToolStarted) else None
    )
    s.act(Prompt("go"))
    await to_the_end(s)
    assert len(notes(s)) == 1
    assert s.model.requests[-1].messages[-1] == s.agent.history[-2]
