"""A rule that a user writes on the card is checked while it is written."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.display import DiffBlock, TextBlock
from codeagent.core.policy import Rule
from codeagent.tui.parts.card_content import Check
from codeagent.tui.parts.checks import check_rule
from codeagent.tui.rendering.marked import unseen
from tests.table import for_each
from tests.tui.parts.cards import asking, command, edit

PYTEST = command("pytest  -q tests")


def problem(text: str, waiting: ApprovalRequested = PYTEST) -> str:
    return check_rule(text, waiting, keep=False).problem


def test_a_rule_that_fits_says_for_how_long_it_holds() -> None:
    rule = "bash(pytest *)"
    assert check_rule(rule, PYTEST, keep=False) == Check(
        "", ("for this session", "no questions for what it matches")
    )
    assert check_rule(rule, PYTEST, keep=True).says[0] == "always, in this folder"


@for_each(
    ("text", "said"),
    [
        ("", "write what to allow, such as bash(git status*)"),
        (
            "bash(pytest",
            "not a rule: 'bash(pytest'; write tool or tool(pattern), as in bash(git status*)",
        ),
        ("bash", "a rule cannot allow every call of a tool: say which, bash(…)"),
        ("*", "it must be about bash, not *"),
        ("b*(pytest *)", "it must be about bash, not b*"),
        ("edit(pytest *)", "it must be about bash, not edit"),
        ("bash(*)", "that would allow everything: name a command, or the start of a path"),
        ("bash(** ?*)", "that would allow everything: name a command, or the start of a path"),
        ("bash(git *)", "it does not match this call: pytest -q tests"),
        ("bash(pytest -x*)", "it does not match this call: pytest -q tests"),
        ("bash(pytest\u200b *)", "it contains invisible characters, U+200B: remove them"),
        ("bash(pytest\u2800*)", "it contains invisible characters, U+2800: remove them"),
        ("bash(pytest\xa0*)", "it contains invisible characters, U+00A0: remove them"),
    ],
)
def test_what_is_wrong_with_a_rule_is_said(text: str, said: str) -> None:
    assert problem(text) == said


def test_letters_that_look_like_others_are_named() -> None:
    waiting = asking("deploy", "d", "prod")
    assert check_rule("deploy(pr\u043ed*)", waiting, keep=False).odd == "1 look-alike: U+043E as o"
    refused = check_rule("bash(p\u0443test *)", PYTEST, keep=False)
    assert "does not match" in refused.problem and refused.odd == "1 look-alike: U+0443 as y"


@for_each(
    "waiting",
    [
        command("pytest && rm -rf build"),
        command("echo $(date)"),
        command("pytest\nrm x"),
        command("FOO=1 pytest"),
        command("/bin/pytest -q"),
        asking("bash", "t", "pytest", TextBlock(text="pytest")),
    ],
)
def test_where_only_the_engine_knows_the_parts_it_is_said_that_it_checks_again(
    waiting: ApprovalRequested,
) -> None:
    assert check_rule("bash(git *)", waiting, keep=False).says[2:] == ("checked again when sent",)


def test_a_path_is_matched_as_a_path() -> None:
    assert problem("edit(src/**)", edit()) == problem("edit(src/*.py)", edit()) == ""
    assert problem("edit(*.py)", edit()) == "it does not match this call: src/dates.py"


def test_of_several_files_one_has_to_fit_and_then_the_engine_checks_the_rest() -> None:
    both = replace(
        edit(),
        blocks=(
            DiffBlock(path="a/x", before="", after="1"),
            DiffBlock(path="b/y", before="", after="1"),
        ),
    )
    assert check_rule("edit(a/*)", both, keep=False).says[2:] == ("checked again when sent",)
    assert problem("edit(c/*)", both) == "it does not match this call: a/x"


def test_of_a_file_whose_name_is_spelled_only_the_engine_knows_whether_the_rule_fits() -> None:
    odd = replace(edit(), blocks=(DiffBlock(path="bad\\xff", before="", after="1"),))
    assert check_rule("edit(bad*)", odd, keep=False).says[2:] == ("checked again when sent",)


@given(st.text(max_size=40) | st.builds("bash({})".format, st.text(max_size=30)))
def test_what_is_not_refused_is_a_narrow_rule_for_this_call_that_can_be_seen(text: str) -> None:
    if check_rule(text, PYTEST, keep=False).problem:
        return
    rule = Rule.parse(text, "auto")
    assert (
        rule.tool == "bash"
        and rule.pattern is not None
        and rule.matches("pytest -q tests", "command")
    )
    assert any(letter in "pytesq-" for letter in rule.pattern)
    assert not unseen(text)


@given(st.text(max_size=60))
def test_a_problem_is_one_line(text: str) -> None:
    assert "\n" not in problem(text) and "\x1b" not in problem(text)
