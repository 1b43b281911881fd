"""The steps of a recipe: runs in order, each with what holds for it alone, up to the first that
does not end well."""

from pathlib import Path
from typing import Any

from codeagent.agent.hooks.hook import Deny, Hook, Hooks, SubmittedPrompt, TextAnswer
from codeagent.agent.limits import Limits
from codeagent.core.acts import Compact, FollowUp, Prompt, Refused, RunRecipe, SetMode, Stop
from codeagent.core.budget import Effort
from codeagent.core.errors import ConfigError, ModelError
from codeagent.core.events import (
    KnownEvent,
    LimitReached,
    Notice,
    RunFinished,
    RunStarted,
    ToolResultAdded,
    ToolStarted,
    TurnStarted,
)
from codeagent.core.messages import UserMessage, text_of
from codeagent.core.model import Model, ModelInUse
from codeagent.core.notices import RecipeStepBegun, RecipeStopped
from codeagent.core.policy import Mode, Policy
from codeagent.core.recipes import Recipe, RecipeInput, RecipeStep, StepLimits
from codeagent.extensions.recipes import EXTENSION
from codeagent.session.fold import fold, last_mode
from tests.agent import doubles
from tests.agent.doubles import USE, Scene, Turn, TurnsModel, Using, do, of
from tests.agent.reaching import reaching_sandbox
from tests.agent.test_reach import fetching, results
from tests.agent.watching import to_the_end, until, watched

LOOK = RecipeStep("look", "What is in {{inputs.where}}?")
WRITE = RecipeStep("write", "Write about: {{steps.look.text}}")


def recipe(*steps: RecipeStep, own: bool = False) -> Recipe:
    place: Any = "user" if own else "project"
    return Recipe("notes", "", steps, "notes.yaml", place, (RecipeInput("where"),), trusted=True)


def scene(*turns: Turn, **options: Any) -> Scene:
    """An agent that can run recipes."""
    return doubles.scene(*turns, acts=EXTENSION.in_conversations.acts, **options)


def act(*steps: RecipeStep, own: bool = False, **options: bool) -> RunRecipe:
    return RunRecipe(recipe(*steps, own=own), {"where": "src"}, **options)


async def run(s: Scene, given: RunRecipe) -> list[KnownEvent]:
    return [event async for event in s.agent.run(given)]


def prompts(s: Scene) -> list[str]:
    return [
        text_of(m.content)
        for m in s.agent.history
        if isinstance(m, UserMessage) and m.source != "note"
    ]


async def test_each_step_is_a_run_and_the_next_is_told_what_it_said() -> None:
    s = scene(Turn("two files"), Turn("written"))
    events = await run(s, act(LOOK, WRITE))
    assert prompts(s) == ["What is in src?", "Write about: two files"]
    assert [event.text for event in of(events, RunFinished)] == ["two files", "written"]
    assert [(event.step, event.number, event.of) for event in of(events, RecipeStepBegun)] == [
        ("look", 1, 2),
        ("write", 2, 2),
    ]
    assert not of(events, RecipeStopped) and not s.agent.running


async def test_a_step_has_only_its_own_tools_and_the_next_run_has_all_again() -> None:
    s = scene(
        Turn("", (do("ok", "asking"),)),
        Turn("so be it"),
        Turn("", (do("ok", "asking"),)),
        Turn("fine"),
    )
    events = await run(s, act(RecipeStep("a", "x", tools=("do", "al*"))))
    (result,) = of(events, ToolResultAdded)
    assert result.error.message == "asking is not among the tools of this step: do, al*"
    assert [tool.name for tool in s.model.requests[0].tools] == ["do", "alone"]
    events = await s.run()
    assert of(events, ToolResultAdded)[0].error is None
    assert "asking" in [tool.name for tool in s.model.requests[-1].tools]


async def test_a_step_without_tools_is_told_of_none_and_can_call_none() -> None:
    s = scene(Turn("", (do("ok"),)), Turn("so be it"))
    events = await run(s, act(RecipeStep("a", "x", tools=())))
    assert s.model.requests[0].tools == ()
    assert (
        of(events, ToolResultAdded)[0].error.message
        == "do is not among the tools of this step: it has none"
    )


async def test_it_stops_at_the_first_step_that_does_not_end_well_and_says_what_was_done() -> None:
    fails = RecipeStep("fails", "x", limits=StepLimits(max_turns=1))
    s = scene(Turn("two files"), Turn("", (do("ok"),)))
    events = await run(s, act(LOOK, fails, WRITE))
    assert [event.reason for event in of(events, RunFinished)] == ["done", "limit"]
    (stopped,) = of(events, RecipeStopped)
    assert (stopped.step, stopped.done, stopped.left, stopped.error) == (
        "fails",
        ("look",),
        ("write",),
        None,
    )
    assert stopped.text == (
        "the recipe notes stopped at step fails; done: look; not begun: write; "
        "codeagent run --recipe notes with the same inputs and --continue resumes at fails"
    )


async def test_limits_of_a_step_end_with_it() -> None:
    s = scene(
        Turn("", (do("ok"),)), Turn("", (do("ok"),)), Turn("done"), limits=Limits(max_turns=5)
    )
    await run(s, act(RecipeStep("a", "x", limits=StepLimits(max_turns=1))))
    events = await s.run()
    assert len(of(events, TurnStarted)) == 2 and of(events, RunFinished)[0].reason == "done"


async def test_a_tool_is_told_the_model_the_mode_and_the_limits_of_the_run() -> None:
    using = Using(
        lambda ctx: (ctx.model, ctx.mode, ctx.limits.get("max_turns"), "max_tokens" in ctx.limits)
    )
    other = TurnsModel(Turn("", (USE,)), Turn("done"))
    other.name = "other"

    async def opens(
        name: str, api_base: str | None, effort: Effort | None
    ) -> tuple[Model, ModelInUse]:
        return other, ModelInUse(name)

    turns = (Turn("", (USE,)), Turn("done"), Turn("", (USE,)), Turn("done"))
    s = scene(
        *turns, more=(using,), limits=Limits(max_turns=5), policy=Policy("auto"), open_model=opens
    )
    await s.run()
    await run(
        s,
        act(
            RecipeStep(
                "a",
                "x",
                model="other",
                mode="plan",
                limits=StepLimits(max_turns=2, max_tokens=10**6),
            )
        ),
    )
    await s.run()
    assert using.found == [
        ("turns", "auto", 5, False),
        ("other", "plan", 2, True),
        ("turns", "auto", 5, False),
    ]


async def test_a_projects_recipe_only_tightens_limits_and_the_users_own_sets_them() -> None:
    wide = RecipeStep("a", "x", limits=StepLimits(max_turns=9))
    for given, reached in (
        (act(wide), 1.0),
        (act(wide, own=True, tightens=True), 1.0),
        (act(wide, own=True), None),
    ):
        s = scene(Turn("", (do("ok"),)), Turn("done"), limits=Limits(max_turns=1))
        events = await run(s, given)
        assert [event.maximum for event in of(events, LimitReached)] == (
            [] if reached is None else [reached]
        )


async def test_a_step_limits_the_time_of_each_call_and_a_projects_recipe_only_lowers_it() -> None:
    for before, wanted in ((60.0, 0.02), (0.02, 60.0), (None, 0.02)):
        s = scene(Turn("", (do("partial"),)), Turn("slow"), limits=Limits(timeout_per_call=before))
        events = await run(s, act(RecipeStep("a", "x", limits=StepLimits(timeout_per_call=wanted))))
        assert [result.error.kind for result in of(events, ToolResultAdded)] == ["timeout"]


async def test_the_time_of_each_call_is_that_of_the_session_again_after_the_step() -> None:
    s = scene(
        Turn("done"), Turn("", (do("partial"),)), Turn("slow"), limits=Limits(timeout_per_call=0.02)
    )
    await run(s, act(RecipeStep("a", "x", limits=StepLimits(timeout_per_call=600)), own=True))
    assert [result.error.kind for result in of(await s.run(), ToolResultAdded)] == ["timeout"]


async def test_a_projects_recipe_only_tightens_the_mode_and_the_users_own_sets_it() -> None:
    modes: list[tuple[Mode, Mode, bool, Mode]] = [
        ("ask", "plan", False, "plan"),
        ("ask", "auto", False, "ask"),
        ("accept-edits", "ask", False, "ask"),
        ("plan", "auto", False, "plan"),
        ("ask", "auto", True, "auto"),
        ("auto", "accept-edits", True, "accept-edits"),
    ]
    for before, wanted, own, held in modes:
        s = scene(policy=Policy(before))
        events = await run(s, act(RecipeStep("a", "x", mode=wanted), own=own))
        assert [event.mode for event in of(events, RecipeStepBegun)] == [held]
        assert [event.mode for event in of(events, RunStarted)] == [before]


async def test_the_mode_of_a_step_is_not_that_of_the_session_even_if_the_log_breaks_off() -> None:
    s = scene(Turn("planned"), Turn("", (do("ok", "asking"),)), Turn("fine"), policy=Policy("ask"))
    events = await run(s, act(RecipeStep("a", "x", mode="auto"), own=True))
    cut = next(at for at, event in enumerate(events) if isinstance(event, TurnStarted))
    assert last_mode(events[:cut]) == last_mode(events) == "ask"
    assert [event.approval for event in of(await s.run(), ToolResultAdded)] == ["user"]


async def test_a_mode_that_the_user_chooses_in_between_stays() -> None:
    s = scene(Turn("", (do("ok"),)), Turn("done"), Turn("again"))
    s.agent.observe(
        lambda event: isinstance(event, ToolResultAdded) and s.act(SetMode("accept-edits"))
    )
    await run(s, act(RecipeStep("a", "x", mode="plan")))
    assert of(await s.run(), RunStarted)[0].mode == "accept-edits"


async def test_a_step_has_its_own_model_and_the_next_one_that_of_the_session() -> None:
    other, opened = TurnsModel(Turn("said by another")), []

    async def open_model(
        name: str, api_base: str | None, effort: Effort | None
    ) -> tuple[Model, ModelInUse]:
        opened.append((name, api_base, effort))
        return other, ModelInUse(name)

    s = scene(Turn("written"), open_model=open_model)
    await run(s, act(RecipeStep("look", "x", model="other/m"), WRITE))
    assert opened == [("other/m", None, None)]
    assert (len(other.requests), len(s.model.requests)) == (1, 1)
    assert prompts(s)[-1] == "Write about: said by another" and s.agent.model.name == "turns"


async def test_the_host_of_a_steps_model_is_named_before_it_is_asked_and_so_is_the_way_back() -> (
    None
):
    other = TurnsModel(Turn("said by another"))
    other.name = "other/m"

    async def open_model(
        name: str, api_base: str | None, effort: Effort | None
    ) -> tuple[Model, ModelInUse]:
        return other, ModelInUse(name, server="api.example.org")

    s = scene(Turn("written"), Turn("again"), open_model=open_model, server="127.0.0.1:8080")
    asked: list[tuple[str, int, int]] = []

    def note(event: KnownEvent) -> None:
        if isinstance(event, Notice) and event.code == "model.server":
            asked.append((event.text, len(other.requests), len(s.model.requests)))

    s.agent.observe(note)
    events = await run(s, act(RecipeStep("look", "x", model="other/m"), WRITE))
    assert asked == [
        ("the model is other/m; from now on: api.example.org", 0, 0),
        ("the model is turns; from now on: 127.0.0.1:8080", 1, 0),
    ]
    assert [event.server for event in of(events, RunStarted)] == [
        "api.example.org",
        "127.0.0.1:8080",
    ]
    await s.run()
    assert len(asked) == 2


async def test_a_summary_that_is_asked_for_after_a_step_elsewhere_names_its_host_first() -> None:
    async def open_model(
        name: str, api_base: str | None, effort: Effort | None
    ) -> tuple[Model, ModelInUse]:
        return TurnsModel(Turn("said at home " + "at length " * 40)), ModelInUse(
            name, server="127.0.0.1:8080"
        )

    s = scene(
        Turn("the gist"),
        open_model=open_model,
        server="api.example.org",
        model=TurnsModel(Turn("the gist")),
    )
    told: list[tuple[str, int]] = []

    def note(event: KnownEvent) -> None:
        if isinstance(event, Notice) and event.code == "model.server":
            told.append((event.text.partition("; ")[2], len(s.model.requests)))

    s.agent.observe(note)
    watched(s)
    await run(s, act(RecipeStep("look", "x", model="home"), RecipeStep("on", "y", model="home")))
    s.act(Compact())
    await until(lambda: len(s.model.requests) == 1)
    assert told == [("from now on: 127.0.0.1:8080", 0), ("from now on: api.example.org", 0)]


async def test_a_step_at_the_same_host_and_one_that_plays_a_script_are_not_announced() -> None:
    for server in ("127.0.0.1:8080", ""):

        async def open_model(
            name: str, api_base: str | None, effort: Effort | None, server: str = server
        ) -> tuple[Model, ModelInUse]:
            return TurnsModel(Turn("looked")), ModelInUse(name, server=server)

        s = scene(Turn("written"), open_model=open_model, server="127.0.0.1:8080")
        events = await run(s, act(RecipeStep("look", "x", model="other"), WRITE))
        assert not [event for event in of(events, Notice) if event.code == "model.server"]


async def test_a_model_that_cannot_be_opened_stops_the_recipe_before_the_step() -> None:
    async def open_model(
        name: str, api_base: str | None, effort: Effort | None
    ) -> tuple[Model, ModelInUse]:
        raise ConfigError("no key")

    s = scene(Turn("two files"), open_model=open_model)
    events = await run(s, act(LOOK, RecipeStep("write", "x", model="other/m")))
    (stopped,) = of(events, RecipeStopped)
    assert stopped.error == "step write cannot have the model other/m: no key"
    assert len(of(events, RunStarted)) == 1 and not s.agent.running


async def test_nothing_else_begins_between_two_steps_and_something_can_right_after_the_last() -> (
    None
):
    s = scene(Turn("one"), Turn("two"), Turn("three"))
    refused: list[str] = []

    def try_another(event: KnownEvent) -> None:
        if isinstance(event, RunFinished) and len(refused) < 2:
            answer = s.agent.do(Prompt("mine"))
            refused.append("" if answer is None else answer.reason)

    s.agent.observe(try_another)
    watched(s)
    s.act(act(LOOK, WRITE))
    await to_the_end(s, 3)
    assert refused[:2] == ["this agent is already running; steer it, or wait for the end", ""]
    assert prompts(s) == ["What is in src?", "Write about: one", "mine"]


async def test_a_run_right_after_the_last_step_has_nothing_of_it() -> None:
    s = scene(Turn("one"), Turn("two"), policy=Policy("ask"))
    s.agent.observe(
        lambda event: (
            isinstance(event, RunFinished) and event.text == "one" and s.agent.do(Prompt("mine"))
        )
    )
    watched(s)
    s.act(act(RecipeStep("a", "x", tools=("do",), mode="plan")))
    await to_the_end(s, 2)
    assert [event.mode for event in of(s.events, RunStarted)] == ["ask", "ask"]
    assert len(s.model.requests[0].tools) == 1 < len(s.model.requests[1].tools)


async def test_a_stop_ends_the_step_and_begins_no_other() -> None:
    s = scene(Turn("", (do("sleep"),)))
    watched(s)
    s.act(act(LOOK, WRITE))
    await until(lambda: of(s.events, ToolStarted))
    s.act(Stop())
    await until(lambda: of(s.events, RecipeStopped))
    assert [event.reason for event in of(s.events, RunFinished)] == ["interrupted"]
    assert not s.agent.running and of(s.events, RecipeStopped)[0].done == ()


async def test_text_that_is_queued_in_between_is_read_in_the_step_that_runs() -> None:
    s = scene(Turn("one"), Turn("and that"), Turn("two"))
    s.agent.observe(
        lambda event: (
            isinstance(event, TurnStarted)
            and len(s.model.requests) == 0
            and s.agent.do(FollowUp("too"))
        )
    )
    watched(s)
    s.act(act(LOOK, WRITE))
    await to_the_end(s, 2)
    assert prompts(s)[:2] == ["What is in src?", "too"] and prompts(s)[-1].startswith(
        "Write about: "
    )


async def test_a_hook_may_deny_the_prompt_of_a_step() -> None:
    async def prompt_submit(prompt: SubmittedPrompt) -> TextAnswer:
        return Deny("not today")

    s = scene(hooks=Hooks((Hook("no", prompt_submit=prompt_submit),)))
    events = await run(s, act(LOOK, WRITE))
    assert not of(events, RunStarted) and of(events, RecipeStopped)[0].left == ("write",)


async def test_a_resumed_session_continues_with_the_first_step_that_is_not_done() -> None:
    first = scene(Turn("two files"), Turn("", (do("ok"),)))
    events = await run(
        first, act(LOOK, RecipeStep("write", WRITE.prompt, limits=StepLimits(max_turns=1)))
    )
    assert [event.reason for event in of(events, RunFinished)] == ["done", "limit"]
    given = act(
        LOOK, RecipeStep("write", WRITE.prompt, limits=StepLimits(max_turns=1)), proceed=True
    )
    second = scene(Turn("written"), restored=fold(events))
    await run(second, given)
    assert prompts(second)[-1] == "Write about: two files"
    assert [event.step for event in of(second.journal.events, RecipeStepBegun)] == ["write"]


async def test_with_other_inputs_or_once_it_was_done_it_begins_again() -> None:
    events = await run(scene(Turn("two files"), Turn("written")), act(LOOK, WRITE))
    again = scene(restored=fold(events))
    await run(again, act(LOOK, WRITE, proceed=True))
    assert [event.step for event in of(again.journal.events, RecipeStepBegun)] == ["look", "write"]
    other = scene(restored=fold(events[:-4]))
    await run(other, RunRecipe(recipe(LOOK, WRITE), {"where": "docs"}, proceed=True))
    assert [event.step for event in of(other.journal.events, RecipeStepBegun)] == ["look", "write"]


async def test_what_was_done_before_it_began_again_does_not_count() -> None:
    first = await run(scene(Turn("two files"), Turn("written")), act(LOOK, WRITE))
    second = scene(Turn("three files"), Turn("", error=ModelError("no", kind="bad_request")))
    events = [*first, *await run(second, act(LOOK, WRITE))]
    assert [(one.step, one.text) for one in fold(events).steps] == [("look", "three files")]


def test_a_recipe_of_a_project_that_is_not_trusted_is_refused() -> None:
    s = scene()
    given = Recipe("look", "", (RecipeStep("1", "go"),), ".codeagent/commands/look.md", "project")
    why = (
        f"{given.where} comes with this project, whose recipes you have not trusted as they are "
        "now; nothing was run: read them, then codeagent recipes trust"
    )
    assert s.agent.do(RunRecipe(given, {})) == Refused(why)
    assert not s.agent.running


async def test_a_step_tightens_the_network_level_for_itself_only_and_never_loosens_it(
    tmp_path: Path,
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = fetching(
            sandbox, "a.org", "a.org", "a.org", level="open", acts=EXTENSION.in_conversations.acts
        )
        s.model.turns[1:1] = [Turn("so be it")]
        step = RecipeStep("a", "x", network="allow-list")
        given = Recipe("r", "", (step,), "r.yaml", "project", trusted=True)
        events = await run(s, RunRecipe(given, {}))
        assert "not on the allow-list" in results(events)[0]
        await s.run()
        assert sandbox.origin.connections == 2
