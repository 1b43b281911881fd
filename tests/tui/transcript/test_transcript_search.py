"""Search: in everything a block holds, and in the rows as they are drawn."""

from codeagent.tui.rendering.lines import line
from codeagent.tui.rendering.output_buffer import OutputBuffer
from codeagent.tui.transcript.blocks import (
    AnswerBlock,
    AnyBlock,
    Batch,
    CallCard,
    Pieces,
    PromptBlock,
)
from codeagent.tui.transcript.search import FoundMatches, Match, MatchSpan


def blocks() -> list[AnyBlock]:
    output = OutputBuffer()
    output.feed("1 passed\nAll Passed\n")
    return [
        PromptBlock(0, text="it passed, it Passed"),
        Batch(1, cards=[CallCard("a", "bash", "pytest", output=output)]),
        AnswerBlock(2, pieces=Pieces("done")),
    ]


def test_case_counts_only_where_the_text_has_capitals() -> None:
    assert FoundMatches("passed", blocks()).matches == (
        Match(0, 0),
        Match(0, 1),
        Match(1, 0),
        Match(1, 1),
    )
    assert FoundMatches("Passed", blocks()).matches == (Match(0, 0), Match(1, 0))


def test_nothing_is_found_for_no_text_and_what_looks_like_a_pattern_is_text() -> None:
    assert FoundMatches("", blocks()).matches == ()
    assert FoundMatches("p.ssed", blocks()).matches == ()


def test_going_through_the_matches_goes_around() -> None:
    assert FoundMatches("passed", blocks()).current is None
    finding = FoundMatches("passed", blocks())
    assert [finding.move(-1) for _ in range(5)] == [
        Match(1, 1),
        Match(1, 0),
        Match(0, 1),
        Match(0, 0),
        Match(1, 1),
    ]
    assert finding.move(1) == Match(0, 0) == finding.current
    assert FoundMatches("passed", blocks()).move(1) == Match(0, 0)
    assert FoundMatches("absent", blocks()).move(1) is None


def test_a_match_that_a_wrap_breaks_is_marked_on_both_rows() -> None:
    rows = [
        line([("all tests", None)]),
        line([("passed now", None)], joins=" "),
        line([("tests passed", None)]),
    ]
    found = FoundMatches("tests passed", []).spans(0, rows)
    assert found == {
        0: [MatchSpan(0, 4, 9, 0)],
        1: [MatchSpan(1, 0, 6, 0)],
        2: [MatchSpan(2, 0, 12, 1)],
    }


def test_a_line_end_is_no_space() -> None:
    rows = [line([("all tests", None)]), line([("passed", None)])]
    assert FoundMatches("tests passed", []).spans(0, rows) == {}
