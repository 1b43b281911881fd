"""Rules on tools: which are too broad to come from an answer, and which one a
question proposes.

A proposed rule allows this call and others like it, and the user may edit it first. It is never the
bare tool name, nor anything that would allow everything: no shell, no interpreter, no program that
runs others, reaches another machine or removes files.
"""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from codeagent.core.errors import ConfigError
from codeagent.core.host_files import kind_of
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.paths import host_reason, secret_reason
from codeagent.core.policy import HOSTS, NETWORK, ApprovalKey, Policy, Rule
from codeagent.core.sanitize import spelled
from codeagent.core.tool import Failed

_WILD = lazy_regex(r"[*?]")
_READING = ("read", "list", "search", "glob", "tree", "json_read")
_WRITING = ("write", "edit", "multi_edit", "apply_patch", "json_write")
"""The tools whose rules are matched against a path."""
_LONGEST = 100
_PLAIN = lazy_regex(r"[A-Za-z0-9_./:@%+,=-]+")
_NAME = lazy_regex(r"[A-Za-z][A-Za-z0-9_.:-]*")
_ANY_FURTHER_WORDS = frozenset({
    "pytest", "py.test", "mypy", "pyright", "ruff", "black", "isort", "flake8", "pylint", "autoflake", "tox", "nox",
    "tsc", "eslint", "prettier", "jest", "vitest", "mocha", "ava", "biome", "stylelint", "rspec", "rubocop",
    "phpunit", "phpstan", "ctest", "ninja", "clang-format", "gofmt", "rustfmt", "shellcheck", "shfmt", "hadolint",
    "markdownlint", "yamllint", "golangci-lint", "staticcheck", "mkdir", "touch",
})  # fmt: skip  # a table, many words to the line
"""Programs whose name says what they do, whatever their arguments."""
_SUBCOMMANDS: dict[str, str] = {
    "git": "add commit checkout switch restore stash merge cherry-pick revert mv tag branch",
    "cargo": "build check test clippy fmt bench doc run tree metadata update",
    "go": "build vet test fmt list mod doc",
    "npm": "test ci ls outdated",
    "yarn": "test build lint",
    "pnpm": "test build lint",
    "dotnet": "build test format restore",
    "mix": "test compile format",
    "swift": "build test",
    "zig": "build test fmt",
    "gradle": "build test check assemble",
    "./gradlew": "build test check assemble",
    "mvn": "test compile package verify",
    "./mvnw": "test compile package verify",
    "uv": "sync lock tree",
    "poetry": "check lock show",
    "coverage": "report html xml combine",
    "pre-commit": "run",
    "terraform": "fmt validate",
    "composer": "test validate",
}
_TARGETS = frozenset({"make", "just", "task", "rake"})
"""The next word names what is made."""
_SCRIPTS = frozenset({"npm", "pnpm", "yarn", "bun", "composer"})
_RUN_A_TOOL = {
    ("uv", "run"),
    ("poetry", "run"),
    ("bundle", "exec"),
    ("pnpm", "exec"),
    ("pipenv", "run"),
    ("hatch", "run"),
}
_NPX = frozenset({"npx", "bunx", "uvx"})
_MODULES = frozenset(
    {
        "pytest",
        "unittest",
        "mypy",
        "ruff",
        "black",
        "isort",
        "flake8",
        "pylint",
        "coverage",
        "build",
    }
)
_PYTHON = lazy_regex(r"python(?:3(?:\.\d+)?)?")


def too_broad(rule: Rule) -> str | None:
    """Why an answer must not become this rule, as a phrase; None if it may."""
    if rule.pattern is None:
        return "it would allow every call of the tool"
    if _WILD.search(rule.tool):
        return "it would allow more than one tool"
    if not re.search(r"\w", rule.pattern):
        return "it matches everything"
    fixed = _WILD.split(rule.pattern, maxsplit=1)[0].removeprefix(NETWORK)
    if rule.tool != "bash" or fixed == rule.pattern.removeprefix(NETWORK):
        return None
    return _of_command(fixed) if fixed.strip() else "it starts with a wildcard"


def _of_command(fixed: str) -> str | None:
    """Why a rule for all commands that begin with this is too broad, as a phrase; None if it is
    not."""
    from codeagent.tools.shell.programs import DESTROYS, GOES_OUT, runs_anything  # no start asks

    words = fixed.split()
    name = words[0].rpartition("/")[2]
    whole = len(words) > 1 or fixed.endswith(" ")
    if not whole:
        return f"the names of other programs begin with {name} too; put a space before the *"
    if runs_anything(name):
        return f"{name} runs whatever follows it"
    if name in GOES_OUT or words[:2] == ["git", "push"]:
        return f"{' '.join(words[:2]) if name == 'git' else name} connects to other machines"
    if name in DESTROYS:
        return f"{name} destroys whatever it is given"
    if name == "git" and (len(words) == 1 or words[1].startswith("-")):
        return "git without a sub-command can be made to run anything"
    return None


def bash_proposal(command: str, key: ApprovalKey) -> str:
    """A rule for the beginning of the one command of the line that does more than read.

    Empty if there is no such command, or more than one, or a file of secrets is read.
    """
    if key.opaque:
        return ""
    from codeagent.tools.shell.read_only import judge  # not before the first command
    from codeagent.tools.shell.strict import strict_commands

    commands = strict_commands(command) or ()
    judged = [judge(one) for one in commands]
    if any(its.secret for its in judged):
        return ""
    asking = [one for one, its in zip(commands, judged, strict=True) if not its.reads]
    if not asking and len(commands) == 1:
        words = commands[0].texts
        size = 2 if words[0] == "git" and _NAME.fullmatch(_word(words, 1)) else 0
        return _that_allows(_beginning(words, size), "bash", key, ask_reads=True)
    sizes = [(one, _prefix(one.texts)) for one in asking]
    rules = {"" if size is None else _beginning(one.texts, size) for one, size in sizes}
    return _that_allows(rules.pop(), "bash", key) if len(rules) == 1 else ""


def path_proposal(tool: str, key: ApprovalKey) -> str:
    """A rule for the file's folder; at the top level, for its suffix or its name.

    For a file that runs outside the sandbox when the project is built or a tool starts: one for its
    kind, in every folder. Empty for any other sensitive file.
    """
    if key.opaque or not key.parts:
        return ""
    path = PurePosixPath(key.parts[0])
    plain = spelled(str(path)) == str(path) and not re.search(r"[*?\s()]", str(path))
    if not plain or path.is_absolute() or ".." in path.parts:
        return ""
    if key.sensitive is not None:
        kind = kind_of(path.name)
        return _that_allows(f"{tool}(**/{kind})", tool, key) if kind else ""
    if len(path.parts) > 1:
        return _that_allows(f"{tool}({path.parent}/**)", tool, key)
    return _that_allows(f"{tool}(*{path.suffix})" if path.suffix else f"{tool}({path})", tool, key)


def _that_allows(rule: str, tool: str, key: ApprovalKey, *, ask_reads: bool = False) -> str:
    """The rule, if it does what it is proposed for and may come from an answer; else empty."""
    if not rule or len(rule) > _LONGEST:
        return ""
    try:
        parsed = Rule.parse(rule, "auto")
    except ConfigError:
        return ""
    if too_broad(parsed) is not None:
        return ""
    policy = Policy(rules=(parsed,), ask_reads=ask_reads)
    return rule if policy.check(tool, key, "prompt", "anything").source == "rule" else ""


def _beginning(words: Sequence[str], size: int) -> str:
    """A rule for the first `size` words and whatever follows; 0: exactly this command. Empty if a
    word is ambiguous."""
    kept = words[: size or len(words)]
    if not all(map(_PLAIN.fullmatch, kept)):
        return ""
    return f"bash({' '.join(kept)}{' *' if size else ''})"


def _prefix(words: Sequence[str]) -> int | None:
    """How many words make the rule, before a star; 0: exactly this command; None: no rule.

    An interpreter gets no rule, except that a well-known module of Python gets one for exactly this
    command.
    """
    from codeagent.tools.shell.programs import is_never_proposed  # not before the first command

    name, first, second = words[0], _word(words, 1), _word(words, 2)
    if _PYTHON.fullmatch(name):
        return 0 if first == "-m" and second in _MODULES else None
    if (name, first) in _RUN_A_TOOL or name in _NPX:
        inner = words[1 if name in _NPX else 2 :]
        size = _prefix(inner) if inner and not inner[0].startswith("-") else None
        return len(words) - len(inner) + size if size else None
    if name in _SCRIPTS and first == "run":
        return 3 if _NAME.fullmatch(second) else None
    if is_never_proposed(name) or (name == "git" and first.startswith("-")):
        return None
    if name in _ANY_FURTHER_WORDS:
        return 1
    if name in _TARGETS:
        return 2 if _NAME.fullmatch(first) and "=" not in first else 0
    if name in _SUBCOMMANDS:
        return 2 if first in _SUBCOMMANDS[name].split() else None
    return 0


def _word(words: Sequence[str], at: int) -> str:
    return words[at] if at < len(words) else ""


def decides(rule: Rule, example: str) -> bool:
    """Whether the rule, by itself, decides calls like the example; never raises.

    The example is what the rule's tool is asked about: a command line, a path relative to the
    workspace, a host, or JSON arguments. A rule that allows must match all of it, any other only a
    part.
    """
    if rule.tool == HOSTS:
        return rule.reaches(example)
    tool, key = _example_call(rule, example)
    return (
        Policy("ask", (rule,), ask_reads=True).check(tool, key, "prompt", "anything").source
        == "rule"
    )


def _example_call(rule: Rule, example: str) -> tuple[str, ApprovalKey]:
    if rule.covers("bash"):
        from codeagent.tools.shell.syntax import command_key  # few rules have examples

        return "bash", replace(
            command_key(example), network=(rule.pattern or "").startswith(NETWORK)
        )
    for tool in (*_WRITING, *_READING):
        if rule.covers(tool):
            return tool, _example_path(example, reading=tool in _READING)
    return rule.tool, ApprovalKey(kind="text", parts=(example,))


def _example_path(path: str, *, reading: bool) -> ApprovalKey:
    """As `path_key` makes it, without a workspace: links cannot be followed."""
    folded = posixpath.normpath(path)
    outside = folded.startswith(("/", "../")) or folded == ".."
    sensitive = secret_reason(folded) if reading else host_reason(folded)
    return ApprovalKey(kind="path", parts=(folded,), opaque=outside, sensitive=sensitive)


def refuse_hidden_secret(asked: str, resolved: str) -> None:
    """Raise Failed if a link with a harmless name leads to a file of secrets."""
    reason = secret_reason(resolved)
    if reason is not None and secret_reason(asked) is None:
        raise Failed(
            f"{spelled(asked)} is a link, and {reason}; ask for {spelled(resolved)} by its own name"
        )
