"""Which answers may become rules."""

from codeagent.core.policy import Rule
from codeagent.tools.shell.rules import too_broad
from tests.table import for_each


@for_each(
    "rule",
    [
        "bash(pytest *)",
        "bash(npm run test*)",
        "bash(git commit *)",
        "bash(make)",
        "bash(network: pip install *)",
        "bash(network: curl https://example.org/)",
        "bash(python tools/check.py)",
        "bash(curl http://localhost:8000/health)",
        "write(src/**)",
        "edit(*.md)",
        "read(docs/*)",
    ],
)
def test_a_narrow_rule_is_taken(rule: str) -> None:
    assert too_broad(Rule.parse(rule, "auto")) is None


@for_each(
    ("rule", "why"),
    [
        ("bash", "it would allow every call of the tool"),
        ("*(x)", "it would allow more than one tool"),
        ("bash(*)", "it matches everything"),
        ("bash(* --version)", "it begins with anything"),
        ("write(**)", "it matches everything"),
        ("write(./**)", "it matches everything"),
        ("bash(py*)", "other programs than py begin with py; put a blank before the *"),
        ("bash(python *)", "python runs whatever comes behind it"),
        ("bash(python3.11 *)", "python3.11 runs whatever comes behind it"),
        ("bash(/usr/bin/env *)", "env runs whatever comes behind it"),
        ("bash(bash -c *)", "bash runs whatever comes behind it"),
        ("bash(sudo *)", "sudo runs whatever comes behind it"),
        ("bash(find *)", "find runs whatever comes behind it"),
        ("bash(curl *)", "curl talks to other machines"),
        ("bash(git push *)", "git push talks to other machines"),
        ("bash(git *)", "git without a sub-command can be made to run anything"),
        ("bash(git -c *)", "git without a sub-command can be made to run anything"),
        ("bash(network: *)", "it begins with anything"),
        ("bash(network: curl *)", "curl talks to other machines"),
        ("bash(network: pip*)", "other programs than pip begin with pip; put a blank before the *"),
        ("bash(rm *)", "rm destroys whatever comes behind it"),
    ],
)
def test_a_rule_whose_reach_cannot_be_seen_is_not(rule: str, why: str) -> None:
    assert too_broad(Rule.parse(rule, "auto")) == why
