"""What stays of any conversation: every rule that says "always" holds for all of them."""

from hypothesis import given
from hypothesis import strategies as st

from codeagent.agent.compaction.plan import (
    LARGE,
    CompactionPlan,
    GrowingLength,
    SummaryContext,
    TokenGauge,
    length_of,
    make_cut,
    make_plan,
    measured,
    note_of,
    request_characters,
    to_summarize,
)
from codeagent.core.compaction import ContextCompacted, PrunedResult, compacted, is_kept, preview
from codeagent.core.messages import (
    AssistantMessage,
    Message,
    ProviderContent,
    TextPart,
    Thinking,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    text_of,
    transcript_problems,
)
from codeagent.core.model import ModelRequest

LENGTHS = st.sampled_from((0, 10, 300, LARGE, LARGE + 1, 9_000))


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Any conversation that a provider takes: notes, steering, thinking, calls with results of all
    lengths."""
    messages: list[Message] = [UserMessage.from_text("the task")]
    for turn in range(draw(st.integers(0, 9))):
        messages += [
            UserMessage.from_text(f"said {turn} " + "w" * draw(LENGTHS), source=source)
            for source in draw(
                st.lists(st.sampled_from(("steer", "note", "prompt", "follow_up")), max_size=2)
            )
        ]
        calls = tuple(
            ToolCall(id=f"c{turn}_{number}", name="do", arguments="a" * draw(LENGTHS))
            for number in range(draw(st.integers(0, 3)))
        )
        thinking = (Thinking(text="hm", signature=f"signed {turn}"),) if draw(st.booleans()) else ()
        messages.append(
            AssistantMessage(text="t" * draw(LENGTHS) or "ok", thinking=thinking, calls=calls)
        )
        messages += [
            ToolMessage(call_id=call.id, name="do", content=(TextPart(text="r" * draw(LENGTHS)),))
            for call in calls
        ]
    return messages


def event_of(
    messages: list[Message], room: int, summarize: bool, summary: str
) -> ContextCompacted | None:
    plan = make_plan(messages, room, summarize=summarize)
    return None if plan is None else event_by(plan, messages, summary)


def event_by(plan: CompactionPlan, messages: list[Message], summary: str) -> ContextCompacted:
    return ContextCompacted(
        cause="window",
        tail=plan.tail,
        note=note_of(SummaryContext(), summary) if plan.tail < len(messages) else "",
        pins=(),
        summary=summary,
        pruned=tuple(
            PrunedResult(
                call_id=one.call_id, text=preview(text_of(one.content), "h", unseen=plan.unseen)
            )
            for one in plan.pruned
        ),
        replaced=0,
        before_tokens=0,
        after_tokens=0,
    )


@given(conversations(), st.integers(1, 60_000), st.booleans(), st.sampled_from(("s", "s" * 4_000)))
def test_a_compaction_keeps_what_is_the_users_what_is_new_and_every_pair_and_never_grows(
    messages: list[Message], room: int, summarize: bool, summary: str
) -> None:
    event = event_of(messages, room, summarize, summary)
    if event is None:
        return
    after = compacted(messages, event)
    pruned = {one.call_id for one in event.pruned}
    # A call and its result stay together, in an order that providers take.
    assert transcript_problems(after) == []
    # The user's own messages are there, word for word and in order.
    assert [one for one in after if is_kept(one)] == [one for one in messages if is_kept(one)]
    # What stays of the model's messages is unchanged, signatures and all, and so is what was not
    # pruned.
    left = [one for one in after if not isinstance(one, ToolMessage) or one.call_id not in pruned]
    assert [one for one in left if not isinstance(one, UserMessage)] == [
        one for one in messages if one in left and not isinstance(one, UserMessage)
    ]
    # What the model has not read yet is there, if perhaps in part.
    answers = [at for at, one in enumerate(messages) if isinstance(one, AssistantMessage)]
    unread = messages[answers[-1] + 1 :] if answers else messages
    assert [type(one) for one in unread] == [type(one) for one in after[len(after) - len(unread) :]]
    # The provider's cache holds up to the first message that is another one now.
    first = next(
        (at for at, (a, b) in enumerate(zip(messages, after, strict=False)) if a != b), len(after)
    )
    gone = [at for at, one in enumerate(messages) if one not in after]
    assert first >= min(gone, default=0)
    # Nothing replaces anything shorter.
    request = ModelRequest("system", tuple(messages), ())
    gaining = measured(event, request, TokenGauge())
    assert (gaining is not None) == (length_of(after) < length_of(messages))
    assert gaining is None or gaining.after_tokens <= TokenGauge().tokens(
        len("system") + length_of(messages)
    )


@given(conversations(), st.integers(0, 30), st.text(max_size=5))
def test_numbers_that_no_longer_fit_a_damaged_log_still_give_a_conversation_that_providers_take(
    messages: list[Message], tail: int, note: str
) -> None:
    event = ContextCompacted(
        cause="user", tail=tail, note=note, summary="", replaced=0, before_tokens=0, after_tokens=0
    )
    assert transcript_problems(compacted(messages, event)) == []


@given(conversations(), st.integers(1, 60_000))
def test_what_is_sent_to_be_summarized_fits_and_is_a_conversation(
    messages: list[Message], room: int
) -> None:
    plan = make_plan(messages, room, summarize=True)
    head = None if plan is None else to_summarize(messages, plan.tail, room)
    if head is not None:
        assert transcript_problems((*head, UserMessage.from_text("summarize"))) == []
        assert length_of(head) <= room


def conversation(*results: int) -> list[Message]:
    messages: list[Message] = [UserMessage.from_text("the task")]
    for number, length in enumerate(results):
        call = ToolCall(id=f"c{number}", name="do")
        messages.append(AssistantMessage(calls=(call,)))
        messages.append(
            ToolMessage(call_id=call.id, name="do", content=(TextPart(text="r" * length),))
        )
    return messages


def test_what_a_provider_searched_gives_way_to_the_text_of_its_answer_before_nothing_can_be_summarized() -> (
    None
):
    found = ProviderContent(
        origin="o", items=({"type": "web_search_tool_result", "content": "f" * 9_000},)
    )
    answers = [AssistantMessage(text=text, provider_content=found) for text in ("It is large.", "")]
    head = to_summarize([UserMessage.from_text("the task"), *answers], 0, 4_000)
    assert head is not None and transcript_problems(head) == []
    assert next(one.text for one in head if isinstance(one, AssistantMessage)) == "It is large."


def test_large_old_results_are_pruned_first_and_no_summary_is_needed_if_that_is_enough() -> None:
    messages = conversation(9_000, 9_000, 100)
    plan = make_plan(messages, 20_000, summarize=False)
    assert plan is not None and plan.tail == len(messages)
    assert [one.call_id for one in plan.pruned] == ["c0", "c1"]
    asked = make_plan(messages, 20_000, summarize=True)
    assert asked is not None and asked.tail < len(messages)


def test_without_a_summary_old_results_go_first_then_the_oldest_turns_and_the_newest_turn_last() -> (
    None
):
    messages = conversation(9_000, 9_000, 5_000, 5_000)
    for room, tail, pruned in (
        (18_000, 9, ["c0", "c1", "c2"]),
        (10_500, 2, []),
        (4_000, 2, ["c3"]),
        (1_000, 0, []),
    ):
        plan = make_cut(messages, room)
        assert plan is not None
        assert (plan.tail, [one.call_id for one in plan.pruned]) == (tail, pruned), room
    assert make_cut([UserMessage.from_text("w" * 90_000)], 1_000) is None


@given(conversations(), st.integers(1, 60_000))
def test_a_cut_keeps_what_is_the_users_and_every_pair_and_fits_if_the_users_words_do(
    messages: list[Message], room: int
) -> None:
    plan = make_cut(messages, room)
    words = [one for one in messages if is_kept(one)]
    if plan is None:
        assert length_of(words) > room or length_of(messages) <= room
        return
    after = compacted(messages, event_by(plan, messages, ""))
    assert [one for one in after if is_kept(one)] == words
    assert transcript_problems(after) == []
    note = sum(
        length_of([one]) for one in after if one not in messages and isinstance(one, UserMessage)
    )
    previews = 200 * len(plan.pruned)
    assert length_of(after) - note - previews <= room or length_of(words) > room


def test_results_that_the_model_has_not_read_are_pruned_if_they_alone_are_too_much() -> None:
    plan = make_plan(conversation(50_000), 20_000, summarize=False)
    assert plan is not None and (plan.unseen, [one.call_id for one in plan.pruned]) == (
        True,
        ["c0"],
    )


def test_there_is_nothing_to_leave_out_of_the_users_own_messages() -> None:
    assert make_plan([UserMessage.from_text("w" * 90_000)], 1_000, summarize=False) is None
    assert make_plan([], 1_000, summarize=True) is None


def test_the_note_lists_what_stays_word_for_word_each_on_one_quoted_line() -> None:
    facts = SummaryContext(
        ("[>] fix b.py",), ("which port?", "why?"), ("a.py: read, unchanged since",)
    )
    note = note_of(facts, "# Done\n- all of it")
    lines = [line for line in note.split("\n") if line.startswith("> ")]
    assert lines == [
        "> [>] fix b.py",
        "> which port?",
        "> why?",
        "> a.py: read, unchanged since",
        "> # Done",
        "> - all of it",
    ]


def test_the_gauge_learns_how_long_a_token_is() -> None:
    gauge = TokenGauge()
    gauge.learn(1_000, Usage(input_tokens=250))
    assert (gauge.tokens(4_000), gauge.characters(1_000)) == (1_000, 4_000)
    gauge.learn(1_000, Usage())
    assert gauge.tokens(4_000) == 1_000
    gauge.learn(1, Usage(input_tokens=10_000))
    assert gauge.tokens(100) == 200


@given(st.lists(conversations(), min_size=1, max_size=3), st.integers(1, 5))
def test_a_conversation_that_grows_is_as_long_as_one_that_is_counted_at_once(
    lists: list[list[Message]], step: int
) -> None:
    length = GrowingLength()
    for whole in lists:
        line: list[Message] = []
        for at in range(0, len(whole), step):
            line.extend(whole[at : at + step])
            request = ModelRequest("system", tuple(line), ())
            assert length.of(line, request) == request_characters(request)
