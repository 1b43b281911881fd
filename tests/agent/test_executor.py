"""The path of one call: what runs, what does not, and what the one result says."""

import asyncio
import json
from typing import Any, cast

import pytest

from codeagent.agent.limits import Limits
from codeagent.core.acts import Answer, CancelCall, Stop
from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved
from codeagent.core.errors import SandboxUnavailable
from codeagent.core.event_json import event_json, parse_event_json
from codeagent.core.events import (
    BatchPlanned,
    RunFinished,
    ToolFinished,
    ToolResultAdded,
    ToolStarted,
    ToolUpdated,
)
from codeagent.core.messages import TextPart, text_of
from codeagent.core.policy import Decision, Permission, Policy, Rule
from codeagent.core.redact import Redactor
from codeagent.core.tool import Failed, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.builtin.bash import Bash
from codeagent.tools.edit.reads import ReadTracker
from tests.agent.doubles import Do, Doing, MemoryOutputs, Place, Turn, do, of, scene
from tests.fakes import FakeSandbox
from tests.table import for_each


async def one(turn: Turn, **options: object) -> ToolResultAdded:
    events = await scene(turn, Turn("done"), **options).run()  # type: ignore[arg-type]  # options pass through
    (result,) = of(events, ToolResultAdded)
    return result


async def test_an_unknown_tool_names_the_closest() -> None:
    result = await one(Turn("", (("doo", "{}"),)))
    assert (result.error.kind, result.executed) == ("not_found", False)
    assert text_of(result.content).startswith("Tool not found: doo")
    assert "do" in text_of(result.content)


async def test_a_call_without_a_usable_name_is_told_so() -> None:
    assert text_of((await one(Turn("", (("", "{}"),)))).content).startswith(
        "Tool not found: the call has no name"
    )
    said = text_of((await one(Turn("", (("do it", "{}"),)))).content)
    assert said.startswith(
        "Tool not found: 'do it' is not 1 to 64 letters, digits, _ or -; did you mean do"
    )


async def test_malformed_arguments_are_a_result_and_not_an_empty_object() -> None:
    result = await one(Turn("", (("do", '{"what": 1'),)))
    assert (result.error.kind, result.executed) == ("invalid_args", False)
    assert result.error.message.startswith("Invalid arguments: ")


async def test_the_event_and_the_model_are_told_how_arguments_were_read() -> None:
    result = await one(Turn("", (("do", '{"what": "echo", "amount": "3", "zzz": "x"}'),)))
    assert result.error is None
    read_as, dropped = result.details["arguments_read"]
    assert (read_as, dropped) == (
        "amount: the text '3' was read as a number",
        "do has no argument 'zzz', so it ran without",
    )
    assert text_of(result.content).startswith("(do has no argument 'zzz', so it ran without)\n")
    assert "was read" not in text_of(result.content)


async def test_a_failing_tool_is_an_executed_error() -> None:
    result = await one(Turn("", (do("fail"),)))
    assert (result.error.kind, result.executed, text_of(result.content)) == (
        "failed",
        True,
        "it failed",
    )


async def test_a_crashing_tool_names_its_exception_and_the_run_goes_on() -> None:
    events = await scene(Turn("", (do("crash"),)), Turn("done")).run()
    assert text_of(of(events, ToolResultAdded)[0].content) == "RuntimeError: boom"
    assert of(events, RunFinished)[0].reason == "done"


def nested(levels: int) -> Any:
    return [] if levels == 1 else [nested(levels - 1)]


class Odd(Doing):
    """Somebody's tool, which has never seen a type checker."""

    name = "odd"

    async def run(self, args: Do, ctx: ToolContext) -> ToolResult:
        part: Any = TextPart(text="ok")
        made: dict[str, Any] = {
            "text": lambda: "only text",
            "nothing": lambda: None,
            "content": lambda: ToolResult(content="only text"),  # type: ignore[arg-type]  # that is the point
            "details": lambda: ToolResult.from_text("ok", details={"when": {1}}),
            "number": lambda: ToolResult.from_text("ok", details={"many": 10**5000}),
            "deep": lambda: ToolResult.from_text("ok", details={"levels": nested(195)}),
            "too deep": lambda: Failed("no", details={"levels": nested(195)}),
            "raised": lambda: Failed("no", content=("only text",)),  # type: ignore[arg-type]  # that is the point
            "list": lambda: ToolResult(content=[part]),  # type: ignore[arg-type]  # that is the point
        }
        match args.what:
            case "update":
                await ctx.on_update(5)
            case "stream":
                await ctx.on_update("text", "stdin")
            case "progress":
                await ctx.on_progress(5)  # type: ignore[arg-type]  # that is the point
        returned: Any = made[args.what]()
        if isinstance(returned, Exception):
            raise returned
        return returned  # type: ignore[no-any-return]  # whatever it is


@for_each(
    ("what", "told"),
    [
        ("text", "returned str in place of a ToolResult"),
        ("nothing", "returned NoneType in place of a ToolResult"),
        ("content", "cannot be used: result.content: input should be a valid tuple"),
        ("details", "cannot be used: details.when: input was not a valid json value"),
        ("number", "cannot be used: ToolResult cannot be written: Exceeds the limit"),
        ("deep", "cannot be used: ToolResult cannot be written: more than 190 levels deep"),
        ("too deep", "cannot be used: ToolResult cannot be written: more than 190 levels deep"),
        ("raised", "cannot be used: result.content.0: "),
        ("update", "on_update takes text, not int"),
        ("stream", "stream is one of output, stdout, stderr, not 'stdin'"),
        ("progress", "on_progress takes text, not int"),
    ],
)
async def test_what_a_tool_must_not_return_is_an_error_of_its_call_and_never_logged(
    what: str, told: str
) -> None:
    s = scene(Turn("", (do(what, "odd"),)), Turn("went on"), more=(Odd(),))
    await s.run()
    [result] = of(s.journal.events, ToolResultAdded)
    assert result.executed and result.error is not None and told in result.error.message
    assert parse_event_json(event_json(result, Redactor({}))) == result


async def test_a_list_in_a_result_is_taken_as_the_tuple_it_should_be() -> None:
    s = scene(Turn("", (do("list", "odd"),)), Turn("went on"), more=(Odd(),))
    await s.run()
    [result] = of(s.journal.events, ToolResultAdded)
    assert (result.content, result.error) == ((TextPart(text="ok"),), None)


class Items(ToolArgs):
    items: list[Any]


class Emptying(Tool[Items]):
    """Somebody's tool, which works on the very list it was given."""

    name = "emptying"
    label = "Emptying"
    description = "Takes items off a list."
    permission: Permission = "auto"
    Args = Items

    async def run(self, args: Items, ctx: ToolContext) -> ToolResult:
        args.items[:] = [object()]
        return ToolResult.from_text("done with the list")


async def test_what_a_tool_does_to_its_arguments_never_reaches_what_is_asked_about_the_call_later() -> (
    None
):
    events = await scene(
        Turn("", (("emptying", '{"items": [1]}'),)), Turn("done"), more=(Emptying(),)
    ).run()
    assert text_of(of(events, ToolResultAdded)[0].content) == "done with the list"
    assert (of(events, RunFinished)[0].reason, of(events, RunFinished)[0].error) == ("done", None)


async def test_a_call_over_its_time_is_stopped_and_keeps_its_output() -> None:
    result = await one(Turn("", (do("partial"),)), limits=Limits(timeout_per_call=0.05))
    assert (result.error.kind, result.executed) == ("timeout", True)
    assert text_of(result.content) == "half the output\nTimed out after 0.05 s; stopped"


async def test_one_call_can_be_cancelled_and_its_sibling_goes_on() -> None:
    s = scene(Turn("", (do("sleep"), do("nap"))), Turn("done"))

    def cancel(event: object) -> None:
        if isinstance(event, ToolStarted) and event.call_id == "call_1":
            s.act(CancelCall("call_1"))

    events = await s.run(on_event=cancel)
    outcome = {r.call_id: r.error.kind if r.error else None for r in of(events, ToolResultAdded)}
    assert outcome == {"call_1": "cancelled", "call_2": None}
    assert of(events, RunFinished)[0].reason == "done"


async def test_updates_come_between_started_and_finished() -> None:
    events = await scene(Turn("", (do("update"),)), Turn("done")).run()
    kinds = [type(e) for e in events if isinstance(e, ToolStarted | ToolUpdated | ToolFinished)]
    assert kinds[0] is ToolStarted
    assert kinds[-1] is ToolFinished
    assert "".join(e.text for e in of(events, ToolUpdated)) == "piece 1piece 2"


async def test_a_long_result_is_cut_once_and_kept_whole() -> None:
    s = scene(Turn("", (do("big"),)), Turn("done"))
    (result,) = of(await s.run(), ToolResultAdded)
    text = text_of(result.content)
    assert len(text) < 41_000
    assert 'output_read(id="out_1")' in text
    assert s.outputs.texts == {"out_1": "x" * 100_000}


async def test_a_denied_call_never_starts() -> None:
    s = scene(Turn("", (do("ok"),)), Turn("done"), policy=Policy(rules=(Rule.parse("do", "deny"),)))
    events = await s.run()
    (result,) = of(events, ToolResultAdded)
    assert (result.error.kind, result.executed, result.approval) == ("denied", False, "rule")
    assert of(events, ToolStarted) == []
    assert of(events, BatchPlanned)[0].calls[0].permission == "deny"


async def test_a_run_in_which_everything_was_denied_says_so() -> None:
    events = await scene(
        Turn("", (do("ok"),)), Turn("I could not"), policy=Policy(rules=(Rule.parse("do", "deny"),))
    ).run()
    assert of(events, RunFinished)[0].reason == "denied"


async def test_a_question_is_asked_before_anything_starts_and_answered_by_id() -> None:
    s = scene(Turn("", (do("ok", "asking"),)), Turn("done"))
    events = await s.run()
    order = [e.type for e in events if e.type.startswith(("approval", "tool"))]
    assert order == [
        "tool.call",
        "approval.requested",
        "approval.resolved",
        "tool.started",
        "tool.finished",
        "tool.result",
    ]
    assert of(events, ToolResultAdded)[0].approval == "user"


async def test_no_because_reaches_the_model() -> None:
    s = scene(Turn("", (do("ok", "asking"),)), Turn("done"))

    def refuse(event: object) -> None:
        if isinstance(event, ApprovalRequested):
            s.act(Answer(event.approval_id, Decision("deny", "use the other file")))

    (result,) = of(await s.run(on_event=refuse), ToolResultAdded)
    assert (result.error.kind, text_of(result.content)) == (
        "denied",
        "the user said no: use the other file",
    )


async def test_allowed_for_the_session_means_this_exact_call() -> None:
    s = scene(
        Turn("", (do("ok", "asking"), do("ok", "asking"), do("nap", "asking"))),
        Turn("d"),
        strategy="sequential",
    )

    def allow(event: object) -> None:
        if isinstance(event, ApprovalRequested):
            s.act(Answer(event.approval_id, Decision("session")))

    events = await s.run(on_event=allow)
    assert [e.target for e in of(events, ApprovalRequested)] == ["ok", "nap"]


async def test_what_changed_while_the_question_waited_is_shown_again() -> None:
    s = scene(Turn("", (do("ok", "asking"),)), Turn("done"))
    bases = iter(["first", "second", "second"])
    tool = s.tools["asking"]
    preview = tool.preview

    async def changing(args, ctx):  # type: ignore[no-untyped-def]  # stands in for the tool's own method
        shown = await preview(args, ctx)
        return type(shown)(shown.target, shown.blocks, base=next(bases))

    tool.preview = changing  # type: ignore[method-assign]  # the file changes under the approval
    events = await s.run()
    assert len(of(events, ApprovalRequested)) == 2
    assert len({e.binding for e in of(events, ApprovalRequested)}) == 2
    assert len(of(events, ToolStarted)) == 1


async def test_an_answer_that_comes_too_late_changes_nothing() -> None:
    s = scene(Turn("", (do("ok", "asking"),)), Turn("done"))
    events = await s.run()
    (asked,) = of(events, ApprovalRequested)
    assert (
        s.refusal(Answer(asked.approval_id, Decision("deny")))
        == "the question is no longer pending"
    )


async def test_abort_while_a_question_waits_resolves_it_as_cancelled() -> None:
    s = scene(Turn("", (do("ok", "asking"),)))
    stream = s.agent.run("go")
    events = []
    async for event in stream:
        events.append(event)
        if isinstance(event, ApprovalRequested):
            s.act(Stop())
    assert of(events, ApprovalResolved)[0].answer == "cancelled"
    assert of(events, ToolResultAdded)[0].error.kind == "cancelled"
    assert of(events, RunFinished)[0].reason == "interrupted"


async def test_a_tool_that_ignores_its_cancellation_is_left_behind() -> None:
    s = scene(Turn("", (do("ok"),)))
    ended = asyncio.Event()

    async def stubborn(args, ctx):  # type: ignore[no-untyped-def]  # stands in for the tool's own method
        while not ended.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    s.tools["do"]._do = stubborn  # type: ignore[method-assign]  # a tool that cannot be stopped
    from codeagent.core import cancel

    token = cancel.CancelToken()
    asyncio.get_running_loop().call_later(0.02, token.cancel, "interrupted")
    try:
        await token.guard(stubborn(None, None), grace=0.05)
        raise AssertionError("the guard must not return")
    except cancel.RunCancelled:
        ended.set()


class Starting(FakeSandbox):
    """Knows what commands may come across once it is ready."""

    def __init__(
        self, exposed: str, error: SandboxUnavailable | None = None, seconds: float = 0
    ) -> None:
        super().__init__()
        self.finds, self.error, self.seconds = exposed, error, seconds
        self.steps = (self.ready,)

    async def ready(self) -> None:
        await asyncio.sleep(self.seconds)
        self.seconds = 0
        self.exposed = self.finds
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("exposed", "approval"),
    [("", "auto"), (".env.local may contain secrets and is not hidden", "user")],
)
async def test_a_sweeping_command_is_judged_by_what_is_known_once_the_sandbox_is_ready(
    exposed: str, approval: str
) -> None:
    sandbox, outputs = Starting(exposed), MemoryOutputs()
    bash = Bash(outputs, ReadTracker(cast(Any, Place())), exposed=lambda: sandbox.exposed)
    turns = (Turn("", (("bash", '{"command": "grep -r KEY ."}'),)), Turn("done"))
    events = await scene(*turns, sandbox=sandbox, more=(bash,)).run()
    assert [event.approval for event in of(events, ToolResultAdded)] == [approval]
    assert len(sandbox.commands) == 1


@pytest.mark.parametrize("command", ["ls", "touch a"])
async def test_the_start_of_the_sandbox_does_not_count_towards_a_call_s_time(command: str) -> None:
    sandbox, outputs = Starting("", seconds=0.6), MemoryOutputs()
    bash = Bash(outputs, ReadTracker(cast(Any, Place())), exposed=lambda: sandbox.exposed)
    turns = (Turn("", (("bash", json.dumps({"command": command})),)), Turn("done"))
    events = await scene(*turns, sandbox=sandbox, more=(bash,)).run()
    [finished] = of(events, ToolFinished)
    assert finished.duration_ms < 500


async def test_a_command_that_needs_no_question_does_not_run_without_a_sandbox_that_is_ready() -> (
    None
):
    sandbox, outputs = Starting("", SandboxUnavailable("no engine", "start it")), MemoryOutputs()
    bash = Bash(outputs, ReadTracker(cast(Any, Place())), exposed=lambda: sandbox.exposed)
    events = await scene(
        Turn("", (("bash", '{"command": "ls"}'),)), Turn("done"), sandbox=sandbox, more=(bash,)
    ).run()
    [result] = of(events, ToolResultAdded)
    assert (result.error.message, sandbox.commands) == ("no engine; start it", [])
