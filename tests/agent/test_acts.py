"""What the user does: every act is done, begun or refused, and what is refused changes nothing."""

import asyncio
from typing import get_args

import pytest

from codeagent.core import acts
from codeagent.core.acts import (
    Act,
    AgreeToServer,
    AllowRule,
    Answer,
    AnswerSummary,
    Background,
    CancelCall,
    Compact,
    EditCall,
    FollowUp,
    GiveVariables,
    Interrupt,
    Pause,
    Pin,
    Prompt,
    Refused,
    Reorder,
    RestartServer,
    Restore,
    RestoreFile,
    Resume,
    RevokeRule,
    Rewrite,
    RunRecipe,
    RunShell,
    SendToJob,
    SetBudget,
    SetEffort,
    SetMode,
    SetModel,
    SetNetwork,
    SetToolset,
    SkipCall,
    Steer,
    Step,
    Stop,
    StopJob,
    StopTrigger,
    TakeBack,
    TrustServers,
    TrustTools,
    Unpin,
)
from codeagent.core.budget import Budget, Effort
from codeagent.core.errors import ConfigError
from codeagent.core.model import Model, ModelInUse
from codeagent.core.policy import Decision, Rule
from codeagent.core.recipes import Recipe, RecipeStep
from codeagent.extensions.mcp import EXTENSION as SERVERS
from tests.agent.doubles import Scene, Turn, TurnsModel, do, scene
from tests.agent.job_doubles import Backstage
from tests.agent.memory_checkpoints import MemoryCheckpoints
from tests.agent.watching import notices, to_the_end, watched
from tests.fakes import FakeSandbox

RECIPE = Recipe("look", "", (RecipeStep("1", "go"),), "look.md", "user", trusted=True)
NO_EXTENSION = "no extension that is switched on can do that; nothing was changed"
NO_SERVER = "no MCP server is configured; codeagent mcp add adds one"
REFUSED: tuple[tuple[Act, str], ...] = (
    (Prompt(None), "nothing is queued, so there is nothing to begin with"),
    (RunRecipe(RECIPE, {}), NO_EXTENSION),
    (TakeBack("q1"), "the agent has already read it"),
    (Rewrite("q1", "other words"), "the agent has already read it"),
    (Reorder("q1", 0), "the agent has already read it"),
    (Pause(), "nothing is running that could be paused"),
    (Resume(), "nothing is paused"),
    (Stop(), "nothing is running"),
    (CancelCall("call_1"), "that call is no longer running"),
    (SkipCall("call_1"), "the run is no longer paused; nothing was changed"),
    (EditCall("call_1", "{}"), "this call is no longer pending"),
    (Background(), "it cannot be moved, or has just ended: nothing was moved to the background"),
    (Answer("call_1.1", Decision("once")), "the question is no longer pending"),
    (AllowRule("bash"), "bash would allow every call of the tool; write bash(pattern)"),
    (SetModel("demo"), "this conversation keeps its model"),
    (SetEffort("high"), "this conversation keeps its model"),
    (
        RunShell("ls", shared=False),
        "without a sandbox, commands cannot run; /status says what is missing",
    ),
    (StopJob("job-1"), "job-1 is not a job of this session; /jobs lists them"),
    (SendToJob("job-1", "q"), "job-1 is not a job of this session; /jobs lists them"),
    (StopTrigger("trigger-1"), NO_EXTENSION),
    (SetToolset("web", on=False), "no toolsets here; nothing was changed"),
    (TrustTools(True), "no tools are read from files here; nothing was changed"),
    *(
        (act, NO_SERVER)
        for act in (
            TrustServers(True),
            GiveVariables("a", ("KEY",), ()),
            RestartServer("a"),
            AgreeToServer("a", ()),
        )
    ),
    (AnswerSummary("all"), "no summary waits for an answer; nothing was changed"),
    (Unpin(1), "pin 1 does not exist; nothing was changed"),
    (Restore("c1", "undo"), "no checkpoints are kept here; nothing was changed"),
    (RestoreFile("a.py", None, None), "no checkpoints are kept here; nothing was changed"),
)
"""What an idle agent without extensions, sandbox, checkpoints and another model cannot do."""
NOT_SAVED = "rules cannot be saved here; allow it for this session instead"
DONE: tuple[Act, ...] = (
    Steer("look there"),
    Interrupt("stop that"),
    FollowUp("then commit"),
    Step(True),
    SetMode("plan"),
    SetNetwork("none"),
    SetBudget(Budget("tokens", 1_000_000)),
    AllowRule("asking(one)"),
    RevokeRule(Rule("auto", "asking", "one", "session")),
    Pin("never touch a.py"),
    Prompt("go"),
    Compact("cover the tests"),
)


async def test_what_cannot_be_done_now_is_refused_with_a_reason_and_changes_nothing() -> None:
    s = scene(acts=SERVERS.in_conversations.acts)
    events = watched(s)
    for act, reason in REFUSED:
        assert await s.agent.finish(act) == s.agent.do(act) == Refused(reason), act
    await s.agent.settled()
    assert (events, s.agent.queued, s.agent.rules, s.agent.running) == ([], (), (), False)


async def test_every_other_act_is_done_and_none_is_left_out() -> None:
    s = scene()
    watched(s)
    for act in DONE:
        assert await s.agent.finish(act) is None, act
    await to_the_end(s)
    tried = {type(act) for act in (*DONE, *(act for act, _ in REFUSED))}
    assert tried == set(get_args(acts.Act))


async def test_what_an_act_refused_to_the_one_who_waits_is_not_told_again() -> None:
    s = scene()
    watched(s)
    refused = await s.agent.finish(AllowRule("asking(one)", keep=True))
    assert refused == Refused(NOT_SAVED)
    assert s.agent.rules == () and notices(s, "act.failed") == []


async def test_what_fails_after_it_was_begun_is_told_as_an_event() -> None:
    s = scene()
    watched(s)
    s.act(AllowRule("asking(one)", keep=True))
    await s.agent.settled()
    [notice] = notices(s, "act.failed")
    assert (notice.level, notice.act) == ("error", "AllowRule")
    assert notice.text == NOT_SAVED


async def test_the_failure_of_an_act_whose_waiter_gave_up_is_told_as_an_event() -> None:
    store = MemoryCheckpoints({"a.py": "1"})
    s = scene(Turn("done"), sandbox=FakeSandbox(), checkpoints=store)
    watched(s)
    await s.run()
    assert s.agent.rewind is not None
    store.gate = asyncio.Event()
    waiter = asyncio.ensure_future(s.agent.finish(Restore(s.agent.rewind.points()[0].id, "rewind")))
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    store.broken = "the disk is full"
    store.gate.set()
    await s.agent.settled()
    assert [notice.text for notice in notices(s, "act.failed")] == ["the disk is full"]


async def test_what_was_begun_is_done_before_the_agent_is_closed() -> None:
    store = MemoryCheckpoints({"a.py": "1"})
    s = scene(Turn("done"), sandbox=FakeSandbox(), checkpoints=store)
    await s.run()
    assert s.agent.rewind is not None
    store.files["a.py"] = "2"
    s.act(Restore(s.agent.rewind.points()[0].id, "rewind"))
    await s.agent.close()
    assert store.files == {"a.py": "1"}


async def test_a_job_takes_text_and_is_stopped_by_its_id() -> None:
    b = Backstage(Turn("", (("chat", "{}"),)))
    await b.run()
    b.act(SendToJob("job-1", "hi"))
    assert await b.agent.finish(StopJob("job-1")) is None
    assert [end.status for end in b.ends()] == ["stopped"]
    assert b.scene.refusal(SendToJob("job-1", "hi")) == "job-1 accepts no text; it was not sent"
    await b.agent.close()


class Opener:
    """Opens models that are only named, once it may; refuses the name `broken`."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.opened: list[TurnsModel] = []
        self.server = ""

    async def __call__(
        self, name: str, api_base: str | None, effort: Effort | None
    ) -> tuple[Model, ModelInUse]:
        await self.may.wait()
        if name == "broken":
            raise ConfigError("there is no such model")
        self.opened.append(TurnsModel(Turn("from the other")))
        return self.opened[-1], ModelInUse(name, api_base, effort, 1000, server=self.server)


def changing(opener: Opener) -> Scene:
    s = scene(Turn("", (do("sleep"),)), open_model=opener)
    watched(s)
    return s


async def test_another_model_answers_from_the_next_request_on() -> None:
    opener = Opener()
    s = changing(opener)
    opener.may.set()
    assert await s.agent.finish(SetModel("other", "http://here")) is None
    assert await s.agent.finish(SetEffort("high")) is None
    assert s.agent.model == ModelInUse("other", "http://here", "high", 1000)
    told = [(event.model, event.api_base) for event in notices(s, "model.changed")]
    assert told == [("other", "http://here")] * 2
    await s.run()
    assert [len(model.requests) for model in (s.model, *opener.opened)] == [0, 0, 1]


async def test_another_server_is_named_before_anything_is_sent_to_it() -> None:
    opener = Opener()
    s = changing(opener)
    opener.may.set()
    opener.server = "api.example.org"
    assert await s.agent.finish(SetModel("other")) is None
    assert await s.agent.finish(SetEffort("high")) is None
    assert [event.text for event in notices(s, "model.changed")] == [
        "the model is other; from now on: api.example.org",
        "thinking: high",
    ]
    assert [model.requests for model in opener.opened] == [[], []]


async def test_a_model_that_cannot_be_opened_leaves_the_one_in_use() -> None:
    opener = Opener()
    s = changing(opener)
    opener.may.set()
    before = s.agent.model
    assert await s.agent.finish(SetModel("broken")) == Refused("there is no such model")
    assert s.agent.model == before


async def test_a_run_that_begins_while_another_model_is_opened_keeps_its_own() -> None:
    opener = Opener()
    s = changing(opener)
    s.act(SetModel("other"))
    s.act(Prompt("go"))
    opener.may.set()
    await s.agent.settled()
    assert "between runs" in notices(s, "act.failed")[0].text
    assert "between runs" in s.refusal(SetModel("other"))
    assert s.agent.model.name == "turns"
    await s.agent.close()
