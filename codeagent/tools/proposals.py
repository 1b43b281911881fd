"""Which rule is proposed with a question: it allows this call and others like it, and the person may edit it first.

Never the bare tool name, and nothing that would allow anything at all: no shell, no interpreter, no program that runs
others, none that reaches another machine or removes files.
"""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from codeagent.core.errors import ConfigError
from codeagent.core.policy import ApprovalKey, Policy, Rule
from codeagent.tools.breadth import DESTROYS, GOES_OUT, RUNS_ANYTHING, too_broad
from codeagent.tools.reading.judge import judge
from codeagent.tools.reading.words import SimpleCommand, strict_commands

_LONGEST = 100
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=-]+")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*")

_ANY_FURTHER_WORDS = frozenset({
    "pytest", "py.test", "mypy", "pyright", "ruff", "black", "isort", "flake8", "pylint", "autoflake", "tox", "nox",
    "tsc", "eslint", "prettier", "jest", "vitest", "mocha", "ava", "biome", "stylelint", "rspec", "rubocop",
    "phpunit", "phpstan", "ctest", "ninja", "clang-format", "gofmt", "rustfmt", "shellcheck", "shfmt", "hadolint",
    "markdownlint", "yamllint", "golangci-lint", "staticcheck", "mkdir", "touch",
})  # fmt: skip
"""What these do is said by their name, whatever their arguments."""
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
_MODULES = frozenset({"pytest", "unittest", "mypy", "ruff", "black", "isort", "flake8", "pylint", "coverage", "build"})
_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?")
_NONE = RUNS_ANYTHING | GOES_OUT | DESTROYS | {
    "irb", "R", "java", "jshell", "ghci", "scala", "ipython", "sed", "lldb", "sqlite3", "psql", "mysql", "rmdir",
    "nmap", "glab", "helm", "ansible", "vagrant", "pip", "pip3", "apt", "apt-get", "brew", "tar", "unzip", "zip", "tee",
    "install", "crontab", "at", "systemctl", "mount",
}  # fmt: skip


def bash_proposal(command: str, key: ApprovalKey) -> str:
    """The beginning of the one command of the line that does more than read.

    Empty where there is none such, or more than one, and where a file of secrets is read.
    """
    if key.opaque:
        return ""
    commands = strict_commands(command) or ()
    judged = [judge(one) for one in commands]
    if any(its.secret for its in judged):
        return ""
    asking = [one for one, its in zip(commands, judged, strict=True) if not its.reads]
    if not asking and len(commands) == 1:
        return _that_allows(_reading_rule(commands[0]), "bash", key, ask_reads=True)
    rules = {_command_rule(one) for one in asking}
    return _that_allows(rules.pop(), "bash", key) if len(rules) == 1 else ""


def path_proposal(tool: str, key: ApprovalKey) -> str:
    """The file's folder; for a file at the top its suffix, or its name. Empty for a file that is sensitive."""
    if key.opaque or key.sensitive is not None or not key.parts:
        return ""
    path = PurePosixPath(key.parts[0])
    if re.search(r"[*?\s()]", str(path)) or path.is_absolute() or ".." in path.parts:
        return ""
    if len(path.parts) > 1:
        return _that_allows(f"{tool}({path.parent}/**)", tool, key)
    return _that_allows(f"{tool}(*{path.suffix})" if path.suffix else f"{tool}({path})", tool, key)


def _that_allows(rule: str, tool: str, key: ApprovalKey, *, ask_reads: bool = False) -> str:
    """The rule, where it does what it is proposed for and may come of an answer."""
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


def _command_rule(command: SimpleCommand) -> str:
    size = _prefix(command.texts)
    return "" if size is None else _beginning(command.texts, size)


def _reading_rule(command: SimpleCommand) -> str:
    """Where reading is asked about, too."""
    return _beginning(command.texts, 2 if command.texts[0] == "git" and _NAME.fullmatch(_word(command.texts, 1)) else 0)


def _beginning(words: Sequence[str], size: int) -> str:
    """So many words and whatever follows; 0: the command as it is. Empty where a word could be read otherwise."""
    kept = words[: size or len(words)]
    if not all(map(_PLAIN.fullmatch, kept)):
        return ""
    return f"bash({' '.join(kept)}{' *' if size else ''})"


def _prefix(words: Sequence[str]) -> int | None:
    """How many of the words make the rule, before a star; 0: the command as it is; None: no rule.

    An interpreter has none, but that a well-known module of Python's is run, as it is.
    """
    name, first, second = words[0], _word(words, 1), _word(words, 2)
    if _PYTHON.fullmatch(name):
        return 0 if first == "-m" and second in _MODULES else None
    if (name, first) in _RUN_A_TOOL or name in _NPX:
        skipped = 1 if name in _NPX else 2
        return _inner(words, skipped)
    if name in _SCRIPTS and first == "run":
        return 3 if _NAME.fullmatch(second) else None
    if name in _NONE or (name == "git" and first.startswith("-")):
        return None
    if name in _ANY_FURTHER_WORDS:
        return 1
    if name in _TARGETS:
        return 2 if _NAME.fullmatch(first) and "=" not in first else 0
    if name in _SUBCOMMANDS:
        return 2 if first in _SUBCOMMANDS[name].split() else None
    return 0


def _inner(words: Sequence[str], skipped: int) -> int | None:
    """A tool that is run through another: as it would be by itself."""
    if len(words) <= skipped or words[skipped].startswith("-"):
        return None
    size = _prefix(words[skipped:])
    return None if not size else skipped + size


def _word(words: Sequence[str], at: int) -> str:
    return words[at] if at < len(words) else ""
