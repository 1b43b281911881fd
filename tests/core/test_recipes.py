"""The inputs of a recipe: how they are given, what is refused, and that a value stays data in a
prompt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.errors import ConfigError
from codeagent.core.recipes import (
    ARGUMENTS,
    LONGEST_VALUE,
    RESERVED,
    InputType,
    InputValue,
    Recipe,
    RecipeInput,
    RecipeStep,
    leads_inside,
)
from codeagent.core.sanitize import visible
from tests.table import for_each
from tests.tui.fake_launcher import TABLE

PROJECT = RecipeInput("project", "path", description="the folder")
DEPTH = RecipeInput("depth", "integer", required=False, default=2)
TONE = RecipeInput("tone", "choice", required=False, choices=("kind", "harsh"))


def recipe(*inputs: RecipeInput, prompt: str = "go", numbered: bool = False) -> Recipe:
    return Recipe(
        "look", "", (RecipeStep("1", prompt),), "look.md", "project", inputs, numbered=numbered
    )


def filled(prompt: str, values: dict[str, InputValue], **texts: str) -> str:
    one = recipe(prompt=prompt)
    return one.prompt(one.steps[0], values, texts)


READ: tuple[tuple[InputType, str, InputValue | None], ...] = (
    ("string", " any text\n", " any text\n"),
    ("integer", "-12", -12),
    ("integer", "1.5", None),
    ("integer", "٣", None),
    ("integer", "9" * 400, None),
    ("number", "1.5", 1.5),
    ("number", "nan", None),
    ("number", "inf", None),
    ("boolean", "Yes", True),
    ("boolean", "off", False),
    ("boolean", "perhaps", None),
    ("path", "src/../lib", "src/../lib"),
    ("path", "src/../../etc", None),
    ("path", "/etc", None),
    ("path", "", None),
    ("path", "a\0b", None),
)


@for_each("kind, text, value", READ)
def test_a_value_is_read_by_its_type_or_refused(
    kind: InputType, text: str, value: InputValue | None
) -> None:
    one = RecipeInput("x", kind)
    if value is not None:
        assert one.parse(text) == value and type(one.parse(text)) is type(value)
        return
    with pytest.raises(ConfigError, match=r"^x must be "):
        one.parse(text)


@for_each(
    ("path", "value"),
    [
        ("/w/x/src", "src"),
        ("/w/x/a/../b/", "b"),
        ("/w/x", "."),
        ("src", "src"),
        ("/w/x/../y", None),
        ("/w/xy", None),
        ("//w/x/src", None),
        ("/", None),
    ],
)
def test_an_absolute_path_below_the_workspace_is_the_relative_one(
    path: str, value: str | None
) -> None:
    one = RecipeInput("p", "path", root="/w/x")
    if value is not None:
        assert one.parse(path) == value
        return
    with pytest.raises(ConfigError):
        one.parse(path)


def test_a_choice_is_one_of_its_choices() -> None:
    assert TONE.parse("kind") == "kind"
    with pytest.raises(ConfigError, match="tone must be one of kind, harsh, not 'Kind'"):
        TONE.parse("Kind")


def test_everything_that_is_wrong_is_listed_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        recipe(PROJECT, DEPTH, TONE).values({"dept": "1", "depth": "deep", "tone": "rude"})
    assert str(refused.value).split("\n  ") == [
        "the recipe look was not run:",
        "dept is not an input; did you mean depth?",
        "project is missing (a path in the workspace: the folder)",
        "depth must be a whole number, not 'deep'",
        "tone must be one of kind, harsh, not 'rude'",
    ]


def test_a_value_that_is_too_long_is_refused_and_not_cut() -> None:
    with pytest.raises(ConfigError, match="longer than 32,768 characters"):
        RecipeInput("x").parse("x" * (LONGEST_VALUE + 1))


def test_defaults_are_used_and_what_is_optional_may_be_left_out() -> None:
    assert recipe(PROJECT, DEPTH, TONE).values({"project": "src"}) == {"project": "src", "depth": 2}


def test_inputs_are_given_by_name_or_by_position() -> None:
    one = recipe(PROJECT, DEPTH, TONE)
    assert one.spelled("src 3") == {"project": "src", "depth": "3"}
    assert one.spelled("tone=harsh 'my folder'") == {"tone": "harsh", "project": "my folder"}
    assert one.spelled("a=b") == {"project": "a=b"}


@for_each(
    "line, said",
    [
        ("a 1 kind more", "/look takes <project> [depth] [tone], not also 'more'"),
        ("project=a project=b", "/look: project is given twice"),
        ("'a", "/look: No closing quotation"),
    ],
)
def test_what_cannot_be_an_input_is_refused(line: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        recipe(PROJECT, DEPTH, TONE).spelled(line)
    assert str(refused.value) == said


@given(st.text(), st.text())
def test_a_value_is_put_in_once_and_never_looked_through_again(first: str, second: str) -> None:
    text = filled("a {{inputs.x}} b {{ inputs.y }} c", {"x": first, "y": second})
    assert text == f"a {visible(first)} b {visible(second)} c"


def test_a_value_that_looks_like_a_placeholder_stays_as_it_is() -> None:
    values: dict[str, InputValue] = {"x": "{{inputs.secret}} {{steps.a.text}}", "secret": "s"}
    assert filled("{{inputs.x}}", values) == "{{inputs.secret}} {{steps.a.text}}"


def test_control_characters_of_a_value_are_shown_as_escapes() -> None:
    assert filled("{{inputs.x}}", {"x": "a\x1b[2Jb\u202ec"}) == r"a\x1b[2Jb\u202ec"


def test_a_step_is_told_what_another_said_and_the_middle_of_a_long_text_is_left_out() -> None:
    assert filled("of {{steps.a.text}}.", {}, a="two files") == "of two files."
    long = filled("{{steps.a.text}}", {}, a="x" * 300_000)
    assert len(long) < 100_100 and "[… 200000 characters left out …]" in long


def test_a_boolean_and_what_was_left_out_read_as_one_expects() -> None:
    assert filled("{{inputs.x}}|{{inputs.y}}|", {"x": True}) == "true||"


@for_each(
    "prompt, line, text",
    [
        ("fix $1 of $ARGUMENTS", "12 'a b'", "fix 12 of 12 'a b'"),
        ("$2 and $3", "1 'a b'", "a b and "),
        ("it costs $10", "1", "it costs $10\n\nArguments: 1"),
        ("no word of it", "x y", "no word of it\n\nArguments: x y"),
        ("no word of it", "", "no word of it"),
        ("$1", "it's", "it's"),
        ("$1", "'$ARGUMENTS'", "$ARGUMENTS"),
    ],
)
def test_a_command_of_another_program_gets_its_arguments(prompt: str, line: str, text: str) -> None:
    one = recipe(RecipeInput(ARGUMENTS, required=False, default=""), prompt=prompt, numbered=True)
    assert one.prompt(one.steps[0], one.values(one.spelled(line)), {}) == text


@given(st.text(alphabet="./ab\\~ \0"))
def test_a_path_that_is_taken_never_leads_out(path: str) -> None:
    depth = lowest = 0
    for part in path.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        lowest = min(lowest, depth)
    if leads_inside(path):
        assert depth >= 0 and not path.startswith("/") and "\0" not in path and path


def test_no_recipe_can_have_the_name_of_a_command() -> None:
    names = {word for row in TABLE.commands for word in (row.name, *row.aliases)}
    assert names <= RESERVED


def test_the_digest_tells_other_steps_and_other_inputs_apart() -> None:
    one, other = recipe(PROJECT), recipe(PROJECT, prompt="another")
    assert one.digest({"project": "a"}) == recipe(PROJECT).digest({"project": "a"})
    assert (
        len(
            {
                one.digest({"project": "a"}),
                one.digest({"project": "b"}),
                other.digest({"project": "a"}),
            }
        )
        == 3
    )
