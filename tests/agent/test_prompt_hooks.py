"""What the user writes is judged before any of it is sent; what is denied goes back to them."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.agent.hooks.hook import (
    AddContext,
    Allow,
    Deny,
    Hook,
    Hooks,
    SubmittedPrompt,
    TextAnswer,
)
from codeagent.core.acts import FollowUp, Interrupt, Prompt, Queued, Rewrite, Steer, Stop, TakeBack
from codeagent.core.event_json import event_json
from codeagent.core.events import (
    KnownEvent,
    MessageAdded,
    Notice,
    RunFinished,
    RunStarted,
    SteerDelivered,
    SteerQueued,
    ToolFinished,
    ToolResultAdded,
    ToolStarted,
)
from codeagent.core.messages import UserMessage, text_of
from codeagent.core.notes import ADDED
from codeagent.core.notices import RunNotBegun
from codeagent.core.redact import Redactor
from codeagent.session.fold import History
from tests.agent.doubles import Scene, Turn, do, of, scene
from tests.effort import times
from tests.table import for_each

NEVER = "secret"


def judge(prompt: SubmittedPrompt) -> TextAnswer:
    return Deny("that word stays here") if NEVER in prompt.text else True


def judged(*turns: Turn, answer=judge, timeout: float = 5, **options: object) -> Scene:  # type: ignore[no-untyped-def]  # any answer, also wrong ones
    async def prompt_submit(prompt: SubmittedPrompt) -> TextAnswer:
        return answer(prompt) if callable(answer) else answer

    hooks = Hooks((Hook("guard", prompt_submit=prompt_submit),), timeout)
    return scene(*turns, hooks=hooks, **options)  # type: ignore[arg-type]  # options pass through


def sent(s: Scene) -> str:
    """All that reached the model."""
    return "\n".join(str(request.messages) for request in s.model.requests)


@for_each(
    ("answer", "reason"),
    [
        (Deny("not on a Friday"), "not on a Friday"),
        (Deny(), "denied by the hook guard"),
        (False, "denied by the hook guard"),
        (None, "the hook guard failed: it answered NoneType, which is not a decision here"),
    ],
)
async def test_a_denied_prompt_is_not_sent_no_run_begins_and_the_prompt_comes_back(
    answer: object, reason: str
) -> None:
    s = judged(Turn("hello"), answer=answer)
    (notice,) = await s.run("do it")
    assert isinstance(notice, RunNotBegun) and (notice.code, notice.level) == (
        "run.not_begun",
        "warning",
    )
    assert notice.text == f"the prompt was not sent: a hook denied it: {reason}"
    assert notice.prompt == "do it"
    assert (s.model.requests, s.agent.history, s.agent.running) == ([], (), False)


async def test_a_hook_that_crashes_or_hangs_denies_the_prompt() -> None:
    def crash(prompt: SubmittedPrompt) -> TextAnswer:
        raise RuntimeError("no")

    async def hang(prompt: SubmittedPrompt) -> TextAnswer:
        await asyncio.sleep(60)
        return True

    (crashed,) = await judged(answer=crash).run()
    (hung,) = await scene(hooks=Hooks((Hook("guard", prompt_submit=hang),), 0.05)).run()
    assert isinstance(crashed, RunNotBegun) and crashed.text.endswith("the hook guard failed: no")
    assert isinstance(hung, RunNotBegun) and hung.text.endswith(
        "the hook guard did not answer within 0.05 s"
    )


@pytest.mark.parametrize("answer", [True, Allow()])
async def test_an_allowed_prompt_is_sent(answer: object) -> None:
    s = judged(Turn("hello"), answer=answer)
    assert of(await s.run(), RunFinished)[0].reason == "done"


async def test_after_a_denial_the_next_prompt_begins_a_run() -> None:
    s = judged(Turn("hello"))
    await s.run(f"the {NEVER}")
    assert of(await s.run("hello"), RunFinished)[0].reason == "done"
    assert NEVER not in sent(s)


async def test_what_hooks_add_follows_the_prompt_as_notes_in_order() -> None:
    async def first(prompt: SubmittedPrompt) -> TextAnswer:
        return AddContext("it is Friday")

    async def second(prompt: SubmittedPrompt) -> TextAnswer:
        return AddContext("the build is red")

    s = scene(
        Turn("ok"), hooks=Hooks((Hook("a", prompt_submit=first), Hook("b", prompt_submit=second)))
    )
    await s.run("go")
    told = [(message.source, text_of(message.content)) for message in s.model.requests[0].messages]  # type: ignore[union-attr]  # all of the user
    assert told == [
        ("prompt", "go"),
        ("note", f"({ADDED}\n> it is Friday\n)"),
        ("note", f"({ADDED}\n> the build is red\n)"),
    ]


async def test_steering_interrupts_and_follow_ups_are_judged_too_and_only_they_go_back() -> None:
    s = judged(Turn("", (do("nap"),)), Turn("done"), Turn("more"))

    def type_ahead(event: KnownEvent) -> None:
        if isinstance(event, ToolStarted):
            s.act(Steer(f"use the {NEVER}"))
            s.act(Steer("use tabs"))
            s.act(FollowUp(f"print the {NEVER}"))
            s.act(FollowUp("then commit"))

    events = await s.run(on_event=type_ahead)
    assert [(event.kind, event.taken_back) for event in of(events, SteerDelivered)] == [
        ("steer", True),
        ("steer", False),
        ("follow_up", True),
        ("follow_up", False),
    ]
    denied = [event for event in of(events, Notice) if event.code == "prompt.denied"]
    assert [event.data["source"] for event in denied] == ["steer", "follow_up"]
    assert denied[0].text == "what you typed was not sent: a hook denied it: that word stays here"
    assert NEVER not in sent(s) and "use tabs" in sent(s) and "then commit" in sent(s)


async def test_a_hook_is_asked_only_about_text_that_concerns_it() -> None:
    asked: list[str] = []

    async def read(prompt: SubmittedPrompt) -> TextAnswer:
        asked.append(prompt.text)
        return True

    hook = Hook("mentions", prompt_submit=read, concerns=lambda text: "@" in text)
    s = scene(Turn("", (do("nap"),)), Turn("done"), Turn("more"), hooks=Hooks((hook,)))

    def type_ahead(event: KnownEvent) -> None:
        if isinstance(event, ToolStarted):
            s.act(Steer("use tabs"))
            s.act(Steer("see @a.py"))
            s.act(FollowUp("then commit"))

    await s.run(on_event=type_ahead)
    assert asked == ["see @a.py"]
    assert all(text in sent(s) for text in ("use tabs", "see @a.py", "then commit"))


async def test_a_run_begins_with_its_prompt_at_once_if_no_hook_judges_it() -> None:
    hook = Hook(
        "mentions",
        prompt_submit=lambda prompt: asyncio.sleep(0, True),
        concerns=lambda text: "@" in text,
    )
    s = scene(Turn("hello"), hooks=Hooks((hook,)))
    s.act(Prompt("go"))
    assert [type(event) for event in s.journal.events] == [RunStarted, MessageAdded]
    await s.agent.close()


async def test_an_interrupt_whose_words_are_denied_still_interrupts_and_its_words_reach_nobody() -> (
    None
):
    s = judged(Turn("", (do("ok"), do("ok"))), Turn("done"), strategy="sequential")

    def interrupt(event: KnownEvent) -> None:
        if isinstance(event, ToolFinished):
            s.act(Interrupt(f"not the {NEVER}"))

    events = await s.run(on_event=interrupt)
    first, second = of(events, ToolResultAdded)
    assert (first.executed, second.executed) == (True, False)
    assert text_of(second.content) == "Skipped: the user interrupted"
    assert NEVER not in sent(s)


async def test_queued_text_in_other_words_is_judged_again() -> None:
    s = judged(Turn("", (do("nap"),)), Turn("", (do("nap"),)), Turn("done"))

    def rewrite(event: KnownEvent) -> None:
        if isinstance(event, ToolStarted) and event.call_id == "call_1":
            s.act(FollowUp("fine"))
        if isinstance(event, ToolStarted) and event.call_id == "call_2":
            s.act(Rewrite(s.agent.queued[0].id, f"the {NEVER}"))

    events = await s.run(on_event=rewrite)
    assert [event.taken_back for event in of(events, SteerDelivered)] == [True]
    assert NEVER not in sent(s)


async def test_what_is_taken_back_while_the_hook_thinks_is_not_sent() -> None:
    s: Scene

    def take_back(prompt: SubmittedPrompt) -> TextAnswer:
        if prompt.source == "follow_up":
            s.act(TakeBack(s.agent.queued[0].id))
        return True

    def queue(event: KnownEvent) -> None:
        if isinstance(event, ToolStarted):
            s.act(FollowUp("later"))

    s = judged(Turn("", (do("nap"),)), Turn("done"), answer=take_back)
    await s.run(on_event=queue)
    assert "later" not in sent(s) and s.agent.queued == ()


async def started(s: Scene) -> list[KnownEvent]:
    """What a run that begins with the queue emits."""
    reader = s.agent.events()
    s.act(Prompt(None))
    assert s.agent.running
    seen: list[KnownEvent] = []
    async for event in reader:
        seen.append(event)
        if isinstance(event, RunFinished | RunNotBegun):
            return seen
    raise AssertionError("it never ended")


async def test_a_run_does_not_begin_where_all_that_was_queued_is_denied() -> None:
    restored = History(
        undelivered=(Queued("q1", "follow_up", f"the {NEVER}"), Queued("q2", "steer", f"a {NEVER}"))
    )
    s = judged(Turn("hello"), restored=restored)
    events = await started(s)
    assert of(events, RunStarted) == []
    assert [event.taken_back for event in of(events, SteerDelivered)] == [True, True]
    assert (s.agent.queued, s.model.requests, s.agent.running) == ((), [], False)


async def test_a_run_begins_with_the_first_that_is_allowed_of_what_was_queued() -> None:
    restored = History(
        undelivered=(Queued("q1", "follow_up", f"the {NEVER}"), Queued("q2", "follow_up", "go on"))
    )
    events = await started(s := judged(Turn("hello"), restored=restored))
    assert text_of(of(events, MessageAdded)[0].message.content) == "go on"
    assert of(events, RunFinished)[0].reason == "done" and NEVER not in sent(s)


async def test_an_abort_while_a_hook_thinks_sends_nothing_and_gives_everything_back() -> None:
    thinking = asyncio.Event()

    async def think(prompt: SubmittedPrompt) -> TextAnswer:
        thinking.set()
        await asyncio.sleep(60)
        return True

    s = scene(Turn("hello"), hooks=Hooks((Hook("guard", prompt_submit=think),)))
    reader = s.agent.events()
    s.act(Prompt("do it"))
    await thinking.wait()
    s.act(Steer("and this"))
    s.act(Stop())
    seen = []
    async for event in reader:
        seen.append(event)
        if isinstance(event, RunNotBegun):
            break
    assert (seen[-1].code, seen[-1].prompt) == ("run.not_begun", "do it")
    assert [event.taken_back for event in of(seen, SteerDelivered)] == [True]
    assert (s.model.requests, s.agent.running) == ([], False)


async def test_closing_while_a_hook_thinks_ends_and_keeps_the_prompt_in_the_log() -> None:
    async def think(prompt: SubmittedPrompt) -> TextAnswer:
        await asyncio.sleep(60)
        return True

    s = scene(hooks=Hooks((Hook("guard", prompt_submit=think),)))
    s.act(Prompt("do it"))
    await asyncio.sleep(0)
    await s.agent.close()
    assert "do it" in "".join(event_json(event, Redactor({})) for event in s.journal.events)


TYPED = st.tuples(
    st.sampled_from(["steer", "interrupt", "follow_up"]), st.booleans(), st.integers(1, 4)
)


@settings(max_examples=times(20), deadline=None)
@given(typed=st.lists(TYPED, max_size=5), strategy=st.sampled_from(["sequential", "parallel"]))
async def test_whenever_it_is_typed_denied_text_never_reaches_the_model_and_all_other_does_once(
    typed: list[tuple[str, bool, int]], strategy: str
) -> None:
    texts = [
        (kind, f"{NEVER if denied else 'word'}-{n}-", at)
        for n, (kind, denied, at) in enumerate(typed)
    ]
    s = judged(
        Turn("", (do("ok"), do("ok"))),
        Turn("", (do("ok"), do("ok"))),
        Turn("done"),
        strategy=strategy,
    )
    seen = 0

    def write(event: KnownEvent) -> None:
        nonlocal seen
        if isinstance(event, ToolResultAdded):
            seen += 1
            for kind, text, at in texts:
                if at == seen:
                    s.act(
                        {"steer": Steer, "interrupt": Interrupt, "follow_up": FollowUp}[kind](text)
                    )

    events = await s.run(on_event=write)
    given_back = [event.id for event in of(events, SteerDelivered) if event.taken_back]
    denied = {event.id for event in of(events, SteerQueued) if NEVER in event.text}
    assert NEVER not in sent(s)
    assert set(given_back) == denied and len(given_back) == len(denied)
    said = [
        text_of(message.content) for message in s.agent.history if isinstance(message, UserMessage)
    ]
    queued = [event.text for event in of(events, SteerQueued) if event.id not in denied]
    assert sorted(text for text in said if "word" in text) == sorted(queued)
