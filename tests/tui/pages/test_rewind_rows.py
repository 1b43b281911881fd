"""The moments of a conversation as a list, and the prompt that returns to the composer."""

from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.checkpoints import ChangedFile, Changes, Point
from codeagent.core.sanitize import one_line
from codeagent.tui.pages.rewind import point_rows, prompt_said, prompts_since, way_rows
from codeagent.tui.transcript.blocks import PromptBlock
from tests.table import for_each

LABEL = 200


def points_of(*prompts: str) -> list[Point]:
    return [
        Point(f"p{at}", "prompt", 0.0, one_line(text, LABEL)) for at, text in enumerate(prompts)
    ]


def test_batches_stand_below_their_prompt_and_the_present_at_the_end() -> None:
    points = [
        *points_of("fix it"),
        Point("b", "batch", 0.0, "edit a.py", 2),
        Point("r", "restore", 0.0, "fix it"),
    ]
    assert [row.text for row in point_rows(points)] == [
        "fix it",
        "└ batch 2: edit a.py",
        "(current)",
    ]


def test_prompts_are_counted_from_the_moment_on() -> None:
    points = points_of("a", "b", "c")
    assert [prompts_since(points, point) for point in points] == [3, 2, 1]


@for_each(
    ("cause", "files", "keys"),
    [
        ("prompt", 2, ["both", "files", "conversation"]),
        ("prompt", 0, ["conversation"]),
        ("batch", 1, ["files"]),
        ("batch", 0, []),
    ],
)
def test_only_what_would_do_something_is_offered(cause: str, files: int, keys: list[str]) -> None:
    point = Point("x", cause, 0.0, "fix it")  # type: ignore[arg-type]  # one of the words
    changes = Changes(tuple(ChangedFile(f"{n}.py", "modified") for n in range(files)))
    assert [row.key for row in way_rows(point, changes, 1)] == keys


def test_files_of_the_users_own_are_warned_of() -> None:
    changes = Changes(
        (ChangedFile("a.py", "modified", edited=True), ChangedFile("b.py", "modified"))
    )
    both, files, talk = way_rows(points_of("fix it")[0], changes, 2)
    assert both.about == "2 files, 1 of them edited by you; 2 prompts and what followed"
    assert (both.warn, files.warn, talk.warn) == (True, True, False)


@given(
    st.lists(st.text(min_size=1, max_size=300).filter(str.strip), min_size=1, max_size=5), st.data()
)
def test_the_prompt_of_a_moment_is_always_found_as_it_was_written(
    prompts: list[str], data: st.DataObject
) -> None:
    points = points_of(*prompts)
    at = data.draw(st.integers(0, len(prompts) - 1))
    blocks = [PromptBlock(key, text=text) for key, text in enumerate(prompts)]
    found = prompt_said(blocks, points, points[at])
    assert one_line(found, LABEL) == points[at].label


def test_of_two_prompts_in_the_same_words_the_one_of_the_moment_returns() -> None:
    points = points_of("again\nplease", "again please")
    blocks = [PromptBlock(0, text="again\nplease"), PromptBlock(1, text="again please")]
    assert [prompt_said(blocks, points, point) for point in points] == [
        "again\nplease",
        "again please",
    ]


def test_a_prompt_that_is_not_shown_any_more_returns_in_one_line() -> None:
    points = points_of("two\nlines")
    assert prompt_said([], points, points[0]) == "two lines"
