"""The tool that a call was shown with is the tool that runs: one that is redefined meanwhile runs
nothing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.acts import Answer
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.events import KnownEvent, ToolResultAdded, ToolStarted
from codeagent.core.messages import text_of
from codeagent.core.policy import Decision, Policy, Rule
from codeagent.core.tool import ToolContext, ToolResult
from tests.agent.doubles import Asking, Do, Scene, Turn, do, of, scene
from tests.extensions.mcp.setting import Setting, hostile

ECHO = ("mcp__hostile__echo", '{"text": "hi"}')
CHANGED = "its definition has changed since this call was made"
RULE = Rule.parse("mcp__hostile__echo(*hi*)", "auto", "user")


@asynccontextmanager
async def calling(
    folder: Path, behaviour: str, *calls: tuple[str, str], **options: Any
) -> AsyncIterator[tuple[Scene, Setting]]:
    async with hostile(behaviour, folder) as setting:
        tool = setting.tool("echo")
        yield (
            scene(Turn("", calls or (ECHO,)), Turn("done"), more=(tool,), attended=True, **options),
            setting,
        )


async def redefine(setting: Setting) -> None:
    (setting.folder / "redefine").touch()
    await setting.until(lambda: "not used until you agree" in setting.problems)


async def answered(
    s: Scene, *answers: Decision, meanwhile: Callable[[], Awaitable[None]]
) -> list[KnownEvent]:
    """Run; before the first question is answered, `meanwhile` happens."""
    left, events = list(answers), []
    async for event in s.agent.run("go"):
        events.append(event)
        if isinstance(event, ApprovalRequested):
            if len(left) == len(answers):
                await meanwhile()
            s.act(Answer(event.approval_id, left.pop(0)))
    return events


def nothing_ran(events: list[KnownEvent], folder: Path) -> bool:
    (result,) = of(events, ToolResultAdded)
    assert CHANGED in text_of(result.content) and not result.executed, result
    return of(events, ToolStarted) == [] and not (folder / "called").exists()


@pytest.mark.parametrize(
    "answers",
    [
        (Decision("once"),),
        (Decision("session"),),
        (Decision("rule", rule="mcp__hostile__echo(*hi*)"),),
        (Decision("edit", arguments='{"text": "hi there"}'), Decision("once")),
        (Decision("once", source="flag"),),
    ],
    ids=["once", "session", "rule", "edited", "headless"],
)
async def test_a_tool_that_is_redefined_while_its_card_waits_runs_nothing(
    answers: tuple[Decision, ...], tmp_path: Path
) -> None:
    async with calling(tmp_path, "RedefinesAndTells") as (s, setting):
        events = await answered(s, *answers, meanwhile=lambda: redefine(setting))
        assert nothing_ran(events, tmp_path)


async def test_a_server_that_hides_the_change_is_asked_for_its_tools_once_the_user_has_answered(
    tmp_path: Path,
) -> None:
    async def quietly() -> None:
        (tmp_path / "redefine").touch()

    async with calling(tmp_path, "Redefines") as (s, setting):
        events = await answered(s, Decision("once"), meanwhile=quietly)
        assert nothing_ran(events, tmp_path) and "not used until you agree" in setting.problems


async def test_a_call_that_a_rule_allows_is_held_to_the_definition_too(tmp_path: Path) -> None:
    async with calling(tmp_path, "RedefinesAndTells", policy=Policy(rules=(RULE,))) as (s, setting):
        await redefine(setting)
        assert nothing_ran(await s.run(), tmp_path)


async def test_a_change_that_was_told_but_not_read_yet_is_read_before_the_call(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path, "Redefines", policy=Policy(rules=(RULE,))) as (s, setting):
        (tmp_path / "redefine").touch()
        setting.source.listing_changed()
        assert nothing_ran(await s.run(), tmp_path)


async def test_a_tool_that_stays_the_same_runs(tmp_path: Path) -> None:
    async def nothing() -> None:
        return None

    async with calling(tmp_path, "RedefinesAndTells") as (s, _):
        events = await answered(s, Decision("once"), meanwhile=nothing)
        (result,), (asked,) = of(events, ToolResultAdded), of(events, ApprovalRequested)
        assert text_of(result.content) == "hi" and (tmp_path / "called").exists()
        assert asked.whose == "the MCP server hostile, on this machine, outside the sandbox"
        assert asked.about == "Say it back."


async def test_a_tool_that_was_agreed_to_meanwhile_is_asked_about_as_what_it_is_now(
    tmp_path: Path,
) -> None:
    """The call was shown with the earlier definition."""

    async def agree() -> None:
        await redefine(setting)
        await setting.source.agree({change.now.said for change in setting.source.changed})

    async with calling(tmp_path, "RedefinesAndTells") as (s, setting):
        assert nothing_ran(await answered(s, Decision("once"), meanwhile=agree), tmp_path)


class Other(Asking):
    """Another tool of the same name."""

    async def run(self, args: Do, ctx: ToolContext) -> ToolResult:
        raise AssertionError("it was not shown")


async def test_a_tool_of_a_file_that_is_replaced_while_its_card_waits_runs_nothing() -> None:
    async def replace() -> None:
        await asyncio.sleep(0)
        catalog._use_tools((*(tool for tool in catalog if tool.name != "asking"), Other()))

    s = scene(Turn("", (do("ok", "asking"),)), Turn("done"), attended=True)
    catalog: Any = s.agent._environment.tools
    events = await answered(s, Decision("once"), meanwhile=replace)
    (result,) = of(events, ToolResultAdded)
    assert (
        CHANGED in text_of(result.content) and not result.executed and s.tools["asking"].log == []
    )
