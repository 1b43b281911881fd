"""Where among the words of a command a value would be run, and not only be read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "csh", "tcsh"})
_WRAPPERS = frozenset({
    "sudo", "env", "nice", "nohup", "time", "timeout", "xargs", "command", "builtin", "exec", "setsid", "stdbuf",
    "ionice", "chroot", "doas", "unbuffer", "busybox", "chrt", "taskset", "unshare", "strace", "ltrace", "coproc",
})  # fmt: skip
EVALUATE = frozenset({
    "eval", "source", ".", "trap", "alias", "let", "watch", "ssh", "su", "script", "parallel", "at", "batch", "tmux",
    "screen", "expect", "complete", "compgen", "bind", "read", "mapfile", "readarray", "getopts", "declare", "typeset",
    "local", "readonly", "export", "unset", "enable", "hash", "fc", "wait", "crontab", "setpriv", "runuser", "flock",
})  # fmt: skip
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_TAKE_A_VALUE = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_WRAPPER_ARGUMENT = re.compile(r"-.*|[A-Za-z_]\w*=.*|\d+(?:\.\d+)?[smhd]?", re.DOTALL)
_CODE_FLAG = {
    "perl": {"-e", "-E"}, "ruby": {"-e"}, "node": {"-e", "--eval", "-p", "--print"}, "php": {"-r"}, "lua": {"-e"},
}  # fmt: skip
_CODE_FIRST = frozenset({"awk", "gawk", "mawk", "sed", "jq", "bc"})
_PLAIN_TESTS = "= == != < > -z -n -f -d -e -s -r -w -x -L -h !"
_TEST_OPERATORS = frozenset(_PLAIN_TESTS.split())


@dataclass(frozen=True)
class Word:
    """One word of a command."""

    text: str
    """Without its quotes; where a placeholder stands there is nothing."""
    holds: bool = False
    """A placeholder stands in it."""
    open: bool = False
    """What it is in the end is not fixed: a variable, a pattern, a substitution. A path counts by its last part."""
    expands: bool = False
    """Some part of it is not fixed."""
    kept: bool = False
    """A variable stands in it that the script sets, and that may hold a value."""


def reason_against(words: Sequence[Word], at: int) -> str | None:
    """Why no value may stand in that word, as a phrase that begins with `it would`; None where one may."""
    if at == 0:
        return "it would name the program"
    inner = program_at(words)
    if any(word.open and not word.holds for word in words[: inner + 1]):
        return "it would be given to a program that is not fixed"
    if at <= inner or _follows_a_flags_value(words, inner, at):
        return f"it would name the program that {words[0].text} runs"
    name = bare(words[inner].text)
    if name in EVALUATE:
        return f"it would be evaluated by {name}"
    if words[at - 1].text in _FIND_RUNS and name == "find":
        return "it would name the program that find runs"
    if name == "printf" and words[1 + inner].text.startswith("-v") and not words[1 + inner].holds and at == inner + 2:
        return "it would name a variable"
    if name == "test" and not tests_are_plain([word.text for word in words[inner + 1 :] if not word.holds]):
        return "it would be evaluated by test; only = != -z -n and tests of files are safe"
    return _as_shell_code(words, at)


def has_code(flags: Sequence[str]) -> bool:
    return any(re.fullmatch(r"-\w*c\w*", flag) for flag in flags)


def warning_about(words: Sequence[Word], at: int) -> str | None:
    """What to tell the author where the value becomes part of a program in another language."""
    inner = program_at(words)
    if at <= inner:
        return None
    name = bare(words[inner].text)
    flags = {"-c"} if re.fullmatch(r"python[\d.]*", name) else _CODE_FLAG.get(name, set())
    first = next((n for n in range(inner + 1, len(words)) if words[n].holds or not words[n].text.startswith("-")), -1)
    if words[at - 1].text in flags or (name in _CODE_FIRST and first == at):
        return f"the value becomes part of a program for {name}, which may take it for code; give it as an argument"
    return None


def is_behind_dashes(words: Sequence[Word], at: int) -> bool:
    """A `--` of the program itself, not of one that runs it, stands before."""
    return any(word.text == "--" and not word.holds for word in words[program_at(words) + 1 : at])


def tests_are_plain(operators: Sequence[str]) -> bool:
    """No operator of a `[` or `test` evaluates what it compares."""
    return all(text in _TEST_OPERATORS for text in operators if re.fullmatch(r"-\w+|[=!<>~]+", text))


def program_at(words: Sequence[Word]) -> int:
    """Which word names the program that is run in the end."""
    at = 0
    while at < len(words) and not words[at].holds and bare(words[at].text) in _WRAPPERS:
        following = _behind_flags(words, at + 1)
        if following >= len(words):
            return at
        at = following
    return at


def bare(word: str) -> str:
    return word.rpartition("/")[2]


def _behind_flags(words: Sequence[Word], at: int) -> int:
    while at < len(words) and not words[at].holds and _WRAPPER_ARGUMENT.fullmatch(words[at].text):
        at += 1
    return at


def _follows_a_flags_value(words: Sequence[Word], inner: int, at: int) -> bool:
    """`sudo -u root X`: what looks like the program may be the value of a flag, and X the program."""
    flagged = inner > 0 and words[inner - 1].text.startswith("-") and words[inner - 1].text != "--"
    return flagged and at == inner + 1


def _as_shell_code(words: Sequence[Word], at: int) -> str | None:
    for shell in range(at):
        if words[shell].holds or bare(words[shell].text) not in SHELLS:
            continue
        flags, first = shells_own(words, shell)
        if any(word.open and not word.holds for word in words[shell + 1 : min(at, (first or at) + 1)]):
            return f"it is not fixed what {bare(words[shell].text)} is given before"
        if first is None or first > at:
            return f"it would be taken for an option of {bare(words[shell].text)}"
        if first == at:
            what = "be run as shell code" if has_code(flags) else f"name the script that {bare(words[shell].text)} runs"
            return f"it would {what}; put it behind, and use it there as $1"
    return None


def shells_own(words: Sequence[Word], shell: int) -> tuple[list[str], int | None]:
    """The flags a shell is given, and the first word that is none."""
    flags: list[str] = []
    at = shell + 1
    while at < len(words):
        word = words[at]
        if word.holds or word.open or not re.match(r"[-+]", word.text):
            return flags, at
        flags.append(word.text)
        at += 2 if word.text in _TAKE_A_VALUE and at + 1 < len(words) and not words[at + 1].holds else 1
    return flags, None
