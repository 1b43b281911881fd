"""The document: streaming, batches, and one word per change."""

from codeagent.core.approval_events import PlannedCall
from codeagent.tui.transcript.blocks import AnswerBlock, Batch, Thoughts
from codeagent.tui.transcript.document import Document


def test_a_reader_is_told_once_however_much_changes() -> None:
    told: list[int] = []
    document = Document()
    document.on_change = lambda: told.append(1)
    for piece in ("a", "b", "c"):
        document.stream_text(piece)
    assert len(told) == 1
    assert document.take_changes() == {0}
    document.stream_text("d")
    assert len(told) == 2
    assert document.last_answer() == "abcd"


def test_text_ends_the_thoughts_before_it_at_its_time() -> None:
    document = Document()
    document.stream_thoughts("hm", 10.0)
    document.stream_text("so", 12.5)
    thoughts, answer = document.blocks
    assert isinstance(thoughts, Thoughts) and isinstance(answer, AnswerBlock)
    assert (thoughts.open, thoughts.ended, answer.open) == (False, 12.5, True)


def test_the_whole_answer_replaces_what_was_streamed_only_where_they_differ() -> None:
    document = Document()
    document.stream_text("same")
    document.finish_answer("same")
    document.stream_text("hal")
    document.finish_answer("whole", cut=True)
    same, other = document.blocks
    assert isinstance(same, AnswerBlock) and isinstance(other, AnswerBlock)
    assert (same.text, same.pieces.replaced, same.cut) == ("same", 0, False)
    assert (other.text, other.pieces.replaced, other.cut) == ("whole", 1, True)


def test_a_dropped_answer_is_empty_and_the_next_piece_begins_another() -> None:
    document = Document()
    document.stream_text("half")
    document.drop_answer()
    document.stream_text("whole")
    assert [block.text for block in document.blocks if isinstance(block, AnswerBlock)] == [
        "",
        "whole",
    ]
    assert document.last_answer() == "whole"


def test_a_call_that_no_plan_announced_gets_a_card_in_the_batch_that_is_there() -> None:
    document = Document()
    document.plan(1, [PlannedCall(call_id="a", name="read", target="x", permission="prompt")])
    document.card("b", "bash", "ls")
    document.say("next")
    document.card("c", "bash", "ls")
    batches = [block for block in document.blocks if isinstance(block, Batch)]
    assert [[card.call_id for card in batch.cards] for batch in batches] == [["a", "b"], ["c"]]
    assert batches[0].cards[0].asks


def test_commands_of_the_users_own_run_until_they_ended() -> None:
    document = Document()
    document.run_command("s1", "make", shared=True)
    document.run_command("s2", "ls", shared=False)
    document.card("s1", "").state = "done"
    assert document.running_commands() == ("s2",)
