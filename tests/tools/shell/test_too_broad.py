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
        ("bash(* --version)", "it starts with a wildcard"),
        ("write(**)", "it matches everything"),
        ("write(./**)", "it matches everything"),
        ("bash(py*)", "the names of other programs begin with py too; put a space before the *"),
        ("bash(python *)", "python runs whatever follows it"),
        ("bash(python3.11 *)", "python3.11 runs whatever follows it"),
        ("bash(/usr/bin/env *)", "env runs whatever follows it"),
        ("bash(bash -c *)", "bash runs whatever follows it"),
        ("bash(sudo *)", "sudo runs whatever follows it"),
        ("bash(find *)", "find runs whatever follows it"),
        ("bash(curl *)", "curl connects to other machines"),
        ("bash(git push *)", "git push connects to other machines"),
        ("bash(git *)", "git without a sub-command can be made to run anything"),
        ("bash(git -c *)", "git without a sub-command can be made to run anything"),
        ("bash(network: *)", "it starts with a wildcard"),
        ("bash(network: curl *)", "curl connects to other machines"),
        (
            "bash(network: pip*)",
            "the names of other programs begin with pip too; put a space before the *",
        ),
        ("bash(rm *)", "rm destroys whatever it is given"),
    ],
)
def test_a_rule_whose_reach_cannot_be_seen_is_not(rule: str, why: str) -> None:
    assert too_broad(Rule.parse(rule, "auto")) == why
