"""Who may do what without being asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.errors import ConfigError
from codeagent.core.paths import host_reason
from codeagent.core.patterns import HOLE
from codeagent.core.policy import ApprovalKey, Mode, Policy, Rule
from tests.table import for_each


def key(
    *parts: str, kind: str = "command", opaque: bool = False, sensitive: str | None = None
) -> ApprovalKey:
    return ApprovalKey(kind=kind, parts=parts, opaque=opaque, sensitive=sensitive)  # type: ignore[arg-type]  # literals


def ask(
    approval: ApprovalKey,
    *,
    allow: str = "",
    deny: str = "",
    prompt: str = "",
    mode: Mode = "ask",
    tool: str = "bash",
) -> str:
    rules = [Rule.parse(text, "auto") for text in allow.split(";") if text]
    rules += [Rule.parse(text, "deny") for text in deny.split(";") if text]
    rules += [Rule.parse(text, "prompt") for text in prompt.split(";") if text]
    effect = "files" if tool in ("edit", "write") else "anything"
    return Policy(mode, tuple(rules)).check(tool, approval, "prompt", effect).permission  # type: ignore[arg-type]  # literals


def test_a_mutating_tool_asks_by_default() -> None:
    assert ask(key("make")) == "prompt"


def test_a_rule_allows_what_it_matches_and_nothing_else() -> None:
    assert ask(key("git status -s"), allow="bash(git status*)") == "auto"
    assert ask(key("git push"), allow="bash(git status*)") == "prompt"


def test_every_part_of_a_compound_command_must_be_allowed() -> None:
    assert ask(key("git status", "touch PWNED"), allow="bash(git status*)") == "prompt"
    assert ask(key("git status", "git diff"), allow="bash(git status*);bash(git diff*)") == "auto"


def test_what_could_not_be_parsed_whole_is_never_allowed_by_a_pattern() -> None:
    assert ask(key("git status", opaque=True), allow="bash(git status*)") == "prompt"
    assert ask(key("git status", opaque=True), allow="bash(*)") == "prompt"


def test_the_bare_tool_name_allows_everything() -> None:
    assert ask(key("rm -rf build", opaque=True), allow="bash") == "auto"


def test_a_part_that_only_reads_needs_no_rule_beside_one_that_has_it() -> None:
    both = ApprovalKey("command", ("cd src", "pytest -q"), reading=frozenset({"cd src"}))
    rules = (Rule.parse("bash(pytest *)", "auto"),)
    assert Policy("ask", rules).check("bash", both, "prompt", "anything").permission == "auto"
    assert (
        Policy("ask", rules, ask_reads=True).check("bash", both, "prompt", "anything").permission
        == "prompt"
    )
    assert Policy("ask").check("bash", both, "prompt", "anything").permission == "prompt"


@for_each(
    ("policy", "key", "tried"),
    [
        (Policy("ask"), key("make"), True),
        (Policy("accept-edits"), key("make"), True),
        (Policy("auto"), key("make"), False),
        (Policy("ask", ask_reads=True), key("make"), False),
        (Policy("ask", ask_reads=True), ApprovalKey("command", ("ls",), reads="freely"), False),
        (Policy("ask", (Rule.parse("bash(make)", "auto"),)), key("make"), False),
        (Policy("ask", (Rule.parse("bash(make)", "prompt"),)), key("make"), False),
        (Policy("ask", (Rule.parse("bash(make)", "deny"),)), key("make"), False),
        (Policy("ask"), key("make", sensitive="it may run on your machine"), False),
        (Policy("ask"), ApprovalKey("command", ("curl",), network=True), False),
    ],
)
def test_a_command_is_tried_out_if_nobody_decided_about_it(
    policy: Policy, key: ApprovalKey, *, tried: bool
) -> None:
    verdict = policy.check("bash", key, "prompt", "anything")
    assert policy.trying(key, verdict).tried is tried


@for_each(
    ("rule", "permission"),
    [("write", "prompt"), ("write(**)", "prompt"), ("write(src/conftest.py)", "auto")],
)
def test_a_sensitive_path_is_asked_about_unless_a_rule_names_it(rule: str, permission: str) -> None:
    runs = key("src/conftest.py", kind="path", sensitive="it may run on your machine")
    assert ask(runs, allow=rule, tool="write") == permission
    assert ask(runs, mode="accept-edits", tool="write") == "prompt"


@for_each(
    ("rule", "path", "permission"),
    [
        ("write(**/package.json)", "package.json", "auto"),
        ("write(**/package.json)", "packages/a/package.json", "auto"),
        ("write(packages/*/package.json)", "packages/a/package.json", "auto"),
        ("write(**/*.config.js)", "web/vite.config.js", "auto"),
        ("write(**/*.config.js)", "web/vite.config.ts", "prompt"),
        ("write(**/*.js)", "web/vite.config.js", "prompt"),
        ("write(**/*)", "web/vite.config.js", "prompt"),
        ("write(**/pack*)", "package.json", "prompt"),
        ("write(web/**)", "web/package.json", "prompt"),
        ("write(.github/**)", ".github/workflows/a.yml", "prompt"),
        ("write(**/package.json)", "node_modules/a/package.json", "prompt"),
        ("write(**/package.json)", ".husky/package.json", "prompt"),
        ("write(**/.npmrc)", "web/.npmrc", "prompt"),
        ("write(web/.npmrc)", "web/.npmrc", "auto"),
        ("write(**/AGENTS.md)", "sub/AGENTS.md", "auto"),
    ],
)
def test_a_rule_that_ends_with_the_name_of_a_kind_allows_the_kind(
    rule: str, path: str, permission: str
) -> None:
    runs = key(path, kind="path", sensitive=host_reason(path))
    assert ask(runs, allow=rule, tool="write") == permission
    assert ask(runs, mode="auto", tool="write") == "prompt"


def test_a_rule_for_a_kind_does_not_answer_another_reason_to_ask() -> None:
    linked = key("Makefile", kind="path", sensitive="Makefile is what .envrc leads to")
    assert ask(linked, allow="write(**/Makefile)", tool="write") == "prompt"
    assert ask(linked, allow="write(Makefile)", tool="write") == "auto"
    several = key("package.json", ".env", kind="path", sensitive=host_reason("package.json"))
    assert ask(several, allow="write(**/package.json);write(**/.env)", tool="write") == "prompt"


def test_one_denied_part_denies_the_whole() -> None:
    assert ask(key("ls", "rm -rf /", opaque=True), allow="bash", deny="bash(rm *)") == "deny"


def test_deny_beats_prompt_beats_auto() -> None:
    assert ask(key("x"), allow="bash", prompt="bash", deny="bash") == "deny"
    assert ask(key("x"), allow="bash", prompt="bash") == "prompt"


def test_a_path_pattern_stops_at_a_slash_unless_it_says_otherwise() -> None:
    for pattern, path, matches in [
        ("src/**", "src/a/b.py", True),
        ("src/*", "src/a/b.py", False),
        ("src/*", "src/b.py", True),
        ("**/*.md", "README.md", True),
        ("**/*.md", "docs/a/x.md", True),
        ("src/**", "srcs/x", False),
    ]:
        expected = "auto" if matches else "prompt"
        assert ask(key(path, kind="path"), allow=f"write({pattern})", tool="write") == expected, (
            pattern,
            path,
        )


@for_each(
    ("mode", "tool", "expected"),
    [
        ("ask", "edit", "prompt"),
        ("accept-edits", "edit", "auto"),
        ("accept-edits", "bash", "prompt"),
        ("auto", "bash", "auto"),
        ("plan", "edit", "deny"),
        ("plan", "bash", "deny"),
    ],
)
def test_what_a_mode_answers(mode: Mode, tool: str, expected: str) -> None:
    assert ask(key("x"), mode=mode, tool=tool) == expected


def test_plan_mode_cannot_be_widened_by_a_rule() -> None:
    assert ask(key("x"), mode="plan", allow="bash") == "deny"


def test_a_sensitive_call_asks_in_every_mode_unless_a_rule_names_it() -> None:
    assert ask(key(".env", kind="path", sensitive="holds secrets"), mode="auto") == "prompt"
    assert ask(key(".env", kind="path", sensitive="holds secrets"), allow="bash(.env)") == "auto"


@for_each("text", ["", "bash(", "bash()", "two words", "bash) x"])
def test_what_is_no_rule_says_so(text: str) -> None:
    with pytest.raises(ConfigError):
        Rule.parse(text, "auto")


@given(
    st.lists(st.text(max_size=8), min_size=1, max_size=4).map(tuple),
    st.text(min_size=1, max_size=8),
)
def test_a_denying_rule_always_wins(parts: tuple[str, ...], pattern: str) -> None:
    rules = (Rule("auto", "bash"), Rule("auto", "bash", "*"), Rule("deny", "bash", pattern))
    verdict = Policy("auto", rules).check("bash", ApprovalKey("command", parts), "auto", "anything")
    assert (verdict.permission == "deny") == any(
        rules[2].matches(part, "command") for part in parts
    )


@for_each(
    ("pattern", "command", "matches"),
    [
        ("pytest *", "pytest", True),
        ("pytest *", "pytest -q tests", True),
        ("pytest *", "pytest-watch", False),
        ("npm run test *", "npm run test", True),
        ("npm run test *", "npm run test:evil", False),
        ("git status*", "git status", True),
        ("git status*", "git status -s", True),
        ("git status*", "git statusx", True),
        ("rm *", "rm", True),
        ("*", "anything at all", True),
        ("git * push", "git -C x push", True),
        ("git * push", "git push", False),
    ],
)
def test_a_star_behind_a_blank_is_any_further_words_or_none(
    pattern: str, command: str, matches: bool
) -> None:
    assert ask(key(command), allow=f"bash({pattern})") == ("auto" if matches else "prompt")
    assert ask(key(command), deny=f"bash({pattern})", mode="auto") == (
        "deny" if matches else "auto"
    )


@for_each("path", ["secret", "secret/a", "secret/a/b"])
def test_everything_in_a_folder_is_the_folder_too(path: str) -> None:
    assert ask(key(path, kind="path"), deny="read(secret/**)", tool="list") == "deny"
    assert ask(key("secrets", kind="path"), deny="read(secret/**)", tool="list") == "prompt"


@for_each(
    ("rule", "tool", "covers"),
    [
        ("write(src/**)", "write", True),
        ("write(src/**)", "edit", True),
        ("edit(src/**)", "edit", True),
        ("edit(src/**)", "write", False),
        ("write(src/**)", "read", False),
        ("read(src/**)", "read", True),
        ("read(src/**)", "search", True),
        ("read(src/**)", "list", True),
        ("read(src/**)", "write", False),
        ("search(src/**)", "read", False),
        ("*(src/**)", "edit", True),
    ],
)
def test_reading_and_writing_have_rules_of_their_own_and_each_includes_what_is_less(
    rule: str, tool: str, covers: bool
) -> None:
    at = key("src/a.py", kind="path")
    assert ask(at, allow=rule, tool=tool) == ("auto" if covers else "prompt")
    assert ask(at, deny=rule, mode="auto", tool=tool) == ("deny" if covers else "auto")


@given(
    st.text("ab *?", min_size=1, max_size=6),
    st.lists(st.text("ab ", max_size=4), min_size=2, max_size=3),
    st.lists(st.text("ab ", max_size=4), min_size=2, max_size=2),
)
def test_whatever_stands_in_a_hole_a_rule_that_matches_then_could_match_before(
    pattern: str, fixed: list[str], filled: list[str]
) -> None:
    rule = Rule("deny", "bash", pattern)
    meant = fixed[0] + "".join(hole + text for hole, text in zip(filled, fixed[1:], strict=False))
    if rule.matches(meant, "command"):
        assert rule.could_match(HOLE.join(fixed))


@for_each(
    ("pattern", "text", "could"),
    [
        ("git push*", f"{HOLE} push", True),
        ("git push*", f"git {HOLE}", True),
        ("git push*", f"git log {HOLE}", False),
        ("git push", f"{HOLE} git push", True),
        ("rm *", "rm", True),
        ("rm *", f"ls {HOLE}", False),
        ("rm *", f"r{HOLE}", True),
        ("/usr/bin/rm *", f"r{HOLE} x", True),
        ("npm publish", f"n{HOLE}m x", False),
    ],
)
def test_what_a_command_with_holes_could_be(pattern: str, text: str, could: bool) -> None:
    assert Rule("deny", "bash", pattern).could_match(text) is could


@for_each("permission", ["deny", "prompt"])
def test_what_cannot_be_seen_is_asked_about_only_where_a_rule_could_hold_for_it(
    permission: str,
) -> None:
    unseen = ApprovalKey("command", ("eval x",), unseen=True)
    rule = Rule.parse("bash(rm *)", permission)  # type: ignore[arg-type]  # literals
    for rules, expected in (
        ((), "auto"),
        ((rule,), "prompt"),
        ((Rule("auto", "bash", "rm *"),), "auto"),
    ):
        assert (
            Policy("auto", rules).check("bash", unseen, "prompt", "anything").permission == expected
        )
