"""What a run may use up: tokens, time and calls at once, beside turns, calls and cost."""

from codeagent.agent.limits import Limits, RunMeter
from codeagent.core.acts import Prompt, Resume, Stop
from codeagent.core.events import LimitReached, RunFinished, ToolResultAdded
from codeagent.core.messages import Usage, text_of, transcript_problems
from tests.agent.doubles import Turn, do, of, scene
from tests.agent.watching import paused, to_the_end, until, watched


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def steps(count: int) -> list[Turn]:
    """A request takes 12 tokens."""
    return [Turn("", (do(f"step {number}"),)) for number in range(count)]


async def test_the_limit_of_tokens_stops_before_the_request_that_would_pass_it() -> None:
    s = scene(*steps(5), limits=Limits(max_tokens=30))
    events = await s.run()
    assert [(e.limit, e.maximum) for e in of(events, LimitReached)] == [("max_tokens", 30)]
    assert (of(events, RunFinished)[0].reason, len(s.model.requests)) == ("limit", 2)


async def test_tokens_that_just_fit_are_within_the_limit() -> None:
    s = scene(*steps(1), Turn("done"), limits=Limits(max_tokens=24))
    assert of(await s.run(), RunFinished)[0].reason == "done"


async def test_where_a_user_is_there_as_many_tokens_again_may_be_allowed() -> None:
    s = scene(*steps(3), Turn("done"), limits=Limits(max_tokens=25), attended=True)
    watched(s)
    s.act(Prompt("go"))
    await until(lambda: paused(s))
    assert paused(s)[0].text == "the limit max_tokens = 25 is reached"
    s.act(Resume())
    await to_the_end(s)
    assert (of(s.events, RunFinished)[0].reason, len(s.model.requests)) == ("done", 4)


async def test_when_the_time_is_up_a_running_call_is_stopped_and_every_call_has_its_result() -> (
    None
):
    s = scene(
        Turn("", (do("sleep"), do("sleep"), do("ok", "alone"))), limits=Limits(max_seconds=0.05)
    )
    events = await s.run()
    results = of(events, ToolResultAdded)
    assert [result.error.kind for result in results] == ["cancelled"] * 3
    assert "the limit max_seconds = 0.05 is reached" in text_of(results[0].content)
    assert [(e.limit, e.maximum) for e in of(events, LimitReached)] == [("max_seconds", 0.05)]
    assert of(events, RunFinished)[0].reason == "limit"
    assert transcript_problems(s.agent.history) == []


async def test_a_run_that_ends_in_time_is_not_stopped_later() -> None:
    s = scene(Turn("done"), Turn("", (do("nap"),)), Turn("done"), limits=Limits(max_seconds=30))
    assert of(await s.run(), RunFinished)[0].reason == "done"
    assert of(await s.run(), RunFinished)[0].reason == "done"


async def test_where_a_user_is_there_time_stops_no_call_but_is_asked_about_before_the_next_request() -> (
    None
):
    s = scene(Turn("", (do("nap"),)), Turn("done"), limits=Limits(max_seconds=0.001), attended=True)
    watched(s)
    s.act(Prompt("go"))
    await until(lambda: paused(s))
    assert (paused(s)[0].why, paused(s)[0].text) == (
        "limit",
        "the limit max_seconds = 0.001 is reached",
    )
    s.act(Stop())
    await to_the_end(s)
    assert all(not result.is_error for result in of(s.events, ToolResultAdded))


def test_time_that_went_by_while_the_user_was_asked_is_not_taken_from_what_they_allow() -> None:
    clock = Clock()
    meter = RunMeter(Limits(max_seconds=60), clock)
    clock.now += 60
    assert meter.before_request() == LimitReached(limit="max_seconds", maximum=60)
    clock.now += 36_000
    meter.extend(LimitReached(limit="max_seconds", maximum=60))
    clock.now += 59
    assert meter.before_request() is None
    clock.now += 1
    assert meter.before_request() == LimitReached(limit="max_seconds", maximum=36_120)


async def test_calls_past_the_limit_at_once_wait_and_do_not_fail() -> None:
    s = scene(
        Turn("", tuple(do("nap", key=str(number)) for number in range(5))),
        Turn("done"),
        limits=Limits(max_concurrency=1),
    )
    events = await s.run()
    assert [result.is_error for result in of(events, ToolResultAdded)] == [False] * 5
    log = s.tools["do"].log
    assert all(
        log[at].startswith("start") and log[at + 1].startswith("end") for at in range(0, 10, 2)
    )


def test_a_limit_of_none_never_applies() -> None:
    none = {
        "max_turns": None,
        "max_calls": None,
        "max_cost_usd": None,
        "max_tokens": None,
        "max_seconds": None,
    }
    meter = RunMeter(Limits(**none), Clock())  # type: ignore[arg-type]  # each of them may be None
    meter.turns = 10**9
    meter.add_request(Usage(input_tokens=10**12, cost_usd=10.0**9))
    assert (meter.before_request(), meter.after_calls(), meter.calls_left()) == (None, None, None)
