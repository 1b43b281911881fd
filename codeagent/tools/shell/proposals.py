"""Proposes a rule for shell commands like one that the user was asked about."""

from collections.abc import Sequence

from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.policy import ApprovalKey
from codeagent.tools.shell.programs import is_never_proposed, word_set
from codeagent.tools.shell.read_only import judge
from codeagent.tools.shell.rules import that_allows
from codeagent.tools.shell.strict import strict_commands

_PLAIN = lazy_regex(r"[A-Za-z0-9_./:@%+,=-]+")
_NAME = lazy_regex(r"[A-Za-z][A-Za-z0-9_.:-]*")
_ANY_FURTHER_WORDS = word_set("""
    pytest py.test mypy pyright ruff black isort flake8 pylint autoflake tox nox tsc eslint prettier
    jest vitest mocha ava biome stylelint rspec rubocop phpunit phpstan ctest ninja clang-format
    gofmt rustfmt shellcheck shfmt hadolint markdownlint yamllint golangci-lint staticcheck mkdir
    touch
""")
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
_TARGETS = word_set("make just task rake")
"""The next word names what is made."""
_SCRIPTS = word_set("npm pnpm yarn bun composer")
_RUN_A_TOOL = {
    ("uv", "run"),
    ("poetry", "run"),
    ("bundle", "exec"),
    ("pnpm", "exec"),
    ("pipenv", "run"),
    ("hatch", "run"),
}
_NPX = word_set("npx bunx uvx")
_MODULES = word_set("""
    pytest unittest mypy ruff black isort flake8 pylint coverage build
""")
_PYTHON = lazy_regex(r"python(?:3(?:\.\d+)?)?")


def bash_proposal(command: str, key: ApprovalKey) -> str:
    """A rule for the beginning of the one command of the line that does more than read.

    Empty if there is no such command, or more than one, or a file of secrets is read.
    """
    if key.opaque:
        return ""
    commands = strict_commands(command) or ()
    judged = [judge(one) for one in commands]
    if any(its.secret for its in judged):
        return ""
    asking = [one for one, its in zip(commands, judged, strict=True) if not its.reads]
    if not asking and len(commands) == 1:
        words = commands[0].texts
        size = 2 if words[0] == "git" and _NAME.fullmatch(_word(words, 1)) else 0
        return that_allows(_beginning(words, size), "bash", key, ask_reads=True)
    sizes = [(one, _prefix(one.texts)) for one in asking]
    rules = {"" if size is None else _beginning(one.texts, size) for one, size in sizes}
    return that_allows(rules.pop(), "bash", key) if len(rules) == 1 else ""


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
