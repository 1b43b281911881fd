"""An example of a rule is judged as a call would be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.policy import Permission, Rule
from codeagent.tools.shell.rules import decides


def judged(rule: str, example: str, permission: Permission = "auto") -> bool:
    return decides(Rule.parse(rule, permission), example)


def test_a_command_is_taken_apart_and_an_allowing_rule_must_match_all_of_it() -> None:
    assert judged("bash(git log *)", "git log -3")
    assert not judged("bash(git log *)", "git log -3; rm x")
    assert not judged("bash(git log *)", "git log $(rm x)")
    assert not judged("bash(git log *)", "git push")


def test_a_rule_that_denies_or_asks_needs_a_part_only() -> None:
    for permission in ("deny", "prompt"):
        assert judged("bash(rm *)", "make && sudo rm -rf x", permission)
        assert not judged("bash(rm *)", "make", permission)


def test_a_command_that_only_reads_is_no_merit_of_the_rule() -> None:
    assert not judged("bash(pytest *)", "ls")


def test_a_rule_for_the_network_is_judged_by_a_call_that_has_it() -> None:
    assert judged("bash(network: pip install *)", "pip install x")
    assert not judged("bash(network: pip install *)", "pip install x; curl y")
    assert judged("bash(network: *)", "curl y", "deny")


def test_a_path_is_matched_without_its_detours() -> None:
    assert judged("write(src/**)", "src/a/b.py")
    assert judged("write(src/**)", "./docs/../src/a.py")
    assert not judged("write(src/**)", "src/../setup.py")


def test_a_path_that_is_sensitive_is_decided_only_by_a_rule_that_names_it() -> None:
    assert not judged("write(**)", ".github/workflows/ci.yaml")
    assert judged("write(Makefile)", "Makefile")
    assert not judged("read(**)", "deploy/.env")
    assert judged("read(**)", "Makefile")


@pytest.mark.parametrize("path", ["../other/src/a.py", "/etc/passwd", ".."])
def test_a_path_outside_the_workspace_is_never_allowed(path: str) -> None:
    assert not judged("write(**)", path)


def test_arguments_of_any_other_tool_are_matched_as_text() -> None:
    assert judged('fetch({"url":"https://docs.*)', '{"url":"https://docs.python.org"}')
    assert not judged('fetch({"url":"https://docs.*)', '{"url":"https://evil.example"}')


def test_a_rule_for_several_tools_is_tried_on_one_of_them() -> None:
    assert judged("ba*(make *)", "make test")
    assert judged("github__*(*issue*)", '{"issue":1}')


@given(st.text(max_size=40), st.text(max_size=40))
def test_whatever_the_example_is_there_is_an_answer(pattern: str, example: str) -> None:
    for tool in ("bash", "write", "fetch"):
        decides(Rule("auto", tool, pattern or "*"), example)
