"""Finds what a command or a script would run or evaluate, so that values of a call cannot get
there."""

import re
from collections.abc import Callable, Iterator, Sequence

from codeagent.core.dataclass import dataclass
from codeagent.tools.shell.programs import (
    EVALUATE,
    PYTHON,
    RUN_BEHIND,
    RUN_THEIR_INPUT,
    SHELLS,
    WRAPPERS,
)

_NAME_VARIABLES = frozenset({
    "read", "mapfile", "readarray", "getopts", "unset", "wait", "let", "enable", "hash", "alias", "bind", "complete",
    "compgen", "declare", "typeset", "local", "readonly", "export",
})  # fmt: skip  # a table, many words to the line
"""Builtins that take names of variables, each of which may have an index that is evaluated."""
_TAKE_A_VALUE = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_WRAPPER_ARGUMENT = re.compile(r"-.*|[A-Za-z_]\w*=.*|\d+(?:\.\d+)?[smhd]?", re.DOTALL)
_CODE_FLAG = {
    "perl": {"-e", "-E"}, "ruby": {"-e"}, "node": {"-e", "--eval", "-p", "--print"}, "php": {"-r"}, "lua": {"-e"},
}  # fmt: skip  # a table, many words to the line
_XARGS_TAKES_VALUES = frozenset({"-a", "-d", "-E", "-I", "-J", "-L", "-n", "-P", "-R", "-s", "-S"})
_HARMLESS_ALONE = frozenset({"builtin", "command", "env", "exec", "time", "xargs"})
"""Programs that run another one, or nothing if none is named; others would then run a shell."""
_CODE_FIRST = frozenset({"awk", "gawk", "mawk", "sed", "jq", "bc"})
NUMBER_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
"""Operators that evaluate their operands in `[[ … ]]`, and accept only digits in `[ … ]`."""
_PLAIN_TESTS = "= == != < > =~ -nt -ot -ef -a -b -c -d -e -f -g -h -k -n -o -p -r -s -t -u -w -x -z -G -L -N -O -S"
PLAIN_TESTS = frozenset(_PLAIN_TESTS.split())
_ARITHMETIC = re.compile(r"\(\((.*?)\)\)|\$\[(.*?)\]", re.DOTALL)
_COMPUTES = re.compile(r"[\d\s+*/%<>=!&|^~?:(),-]*")
_INDIRECT = re.compile(r"\$\{!|\$\{[^{}]*@[A-Za-z]\}")
_SLICE = re.compile(r"\$\{\w+(?:\[[^\]]*\])?:(?![-=?+])[^}]*")
_PLAIN_SLICE = re.compile(r"\$\{\w+(?:\[[@*\d]*\])?:\s*-?\d+(?:\s*:\s*-?\d+)?")
_INDEX = re.compile(r"\$\{[#!]?\w+\[([^\]]*)")
PLAIN_INDEX = re.compile(r"-?\d+|[@*]")
_WRITES_A_COUNT = re.compile(r"%[^%A-Za-z]*[hjlLtz]*n")
"""`%n` of printf, whose argument is the name of a variable."""
INDEX_RUNS = "an index is evaluated as arithmetic"
TESTS_EVALUATE = "tests other than =, !=, -z, -n and those of files evaluate it"


@dataclass(frozen=True)
class TemplateWord:
    """One word of a command."""

    text: str
    """The fixed text, without quotes and placeholders."""
    holds: bool = False
    """A value may get into it, through a placeholder or a variable that may hold one."""
    open: bool = False
    """It is not fixed, because of a variable, a pattern or a substitution. In a path, only the last
    part counts."""
    expands: bool = False
    """Some part of it is not fixed."""

    @property
    def varies(self) -> bool:
        return self.holds or self.expands

    @property
    def program(self) -> str:
        return self.text.rpartition("/")[2]


Words = Sequence[TemplateWord]
Scan = Callable[[str], Iterator[str]]
"""Returns, as phrases, why a shell's code argument must not be run together with values."""


def refusals(words: Words, scan: Scan, *, fed: bool) -> Iterator[tuple[int | None, str]]:
    """Return everything that would make the command run a value or, if `fed`, its input.

    Each is the index of the word that must not hold a value (None for the whole command) and a
    phrase.
    """
    if not words:
        return
    for at, word in enumerate(words):
        if word.holds and (why := _reason_against(words, at)) is not None:
            yield at, why
    if (what := _runs_by_itself(words, fed=fed)) is not None:
        yield None, what
    for code in _scripts_in(words):
        for why in scan(code):
            yield None, why


def _reason_against(words: Words, at: int) -> str | None:
    """Return why that word must not hold a value, as a phrase; None if it may."""
    if at == 0:
        return "it would name the program"
    inner = program_at(words)
    if any(word.open and not word.holds for word in words[: inner + 1]):
        return "it would be given to a program that is not fixed"
    if at <= inner or _follows_a_flags_value(words, inner, at):
        return f"it would name the program that {words[0].text} runs"
    name, rest = words[inner].program, words[inner + 1 :]
    if name in EVALUATE:
        return f"it would be evaluated by {name}"
    if words[at - 1].text in RUN_BEHIND.get(name, ()):
        return f"it would name the program that {name} runs"
    if name == "printf" and at == inner + 2 and rest[0].text == "-v":
        return "it would name a variable"
    return next(
        filter(None, (_code_of_shell(words, shell, at) for shell in _shells(words, at))), None
    )


def _code_of_shell(words: Words, shell: int, at: int) -> str | None:
    """Return what the shell at index `shell` would do with the later word at `at`."""
    name = words[shell].program
    flags, first = _own_words(words, shell)
    if first is None or first > at:
        return f"it would be taken for an option of {name}"
    if words[first].open and not words[first].holds:
        return f"it is not fixed which arguments {name} gets before it"
    if first < at:
        return None
    what = "be run as shell code" if _has_code(flags) else f"name the script that {name} runs"
    return f"it would {what}; put it after that, and use it there as $1"


def _runs_by_itself(words: Words, *, fed: bool) -> str | None:
    """Return what the command runs or evaluates, whichever word holds a value, as a phrase; None if
    nothing."""
    inner = program_at(words)
    name, rest = words[inner].program, words[inner + 1 :]
    varies = any(word.varies for word in rest)
    if name == "eval":
        return "eval runs what variables hold"
    if name in ("source", ".", "trap") and any(word.open or _is_input(word) for word in rest[:1]):
        return f"{name} runs what a variable holds"
    if name in _NAME_VARIABLES and (
        varies or name == "let" or any("[" in word.text for word in rest)
    ):
        return f"{name} evaluates what it is given as a name"
    if name == "printf" and not _has_plain_format(rest):
        return "printf evaluates what it is given as a name: its format must be fixed, without %n"
    if (
        name == "test"
        and not _is_plain_test(rest)
        and (varies or any("[" in word.text for word in rest))
    ):
        return TESTS_EVALUATE
    if (
        puts := {word.program for word in words} & {"xargs", "parallel", "find"}
    ) and _puts_into_code(words):
        return (
            f"{puts.pop()} would put its input into shell code; give it to the shell as an argument"
        )
    if (named := _named_by_input(words, fed=fed)) is not None:
        return named
    needed = 1 if PYTHON.fullmatch(name) else RUN_THEIR_INPUT.get(name, 0)
    if fed and sum(map(_names_code, rest)) < needed:
        return f"{name} runs what it reads"
    return next(filter(None, (_shell_runs(words, shell) for shell in _running_shells(words))), None)


def _named_by_input(words: Words, *, fed: bool) -> str | None:
    """Return what would run a program named by its input, as a phrase; None if nothing."""
    at = next((at for at, word in enumerate(words) if word.program == "xargs"), None)
    if at is None:
        name = words[program_at(words)].program
        return f"{name} runs what it reads" if fed and name in WRAPPERS - _HARMLESS_ALONE else None
    begin, put = at + 1, ""
    while begin < len(words) and words[begin].text.startswith("-"):
        flag = words[begin].text
        begin += 2 if flag in _XARGS_TAKES_VALUES else 1
        if (found := re.match(r"-[IJi]|--replace=?", flag)) is not None:
            value = words[begin - 1].text if flag in ("-I", "-J") and begin <= len(words) else "{}"
            put = flag[found.end() :] or value
    if begin >= len(words):
        return None
    program = words[begin + program_at(words[begin:])]
    by_input = program.program in WRAPPERS or (put and put in program.text)
    return "xargs would use its input as the name of a program" if by_input else None


def _shell_runs(words: Words, shell: int) -> str | None:
    flags, first = _own_words(words, shell)
    name = words[shell].program
    if first is None:
        return None if flags == ["--version"] else f"{name} runs what it reads"
    if _has_code(flags) and words[first].varies:
        return f"{name} runs what a variable holds; write its code in single quotes and give it arguments"
    if "-s" in flags or _is_input(words[first]):
        return f"{name} runs what a variable, or its input, holds"
    return None


def _scripts_in(words: Words) -> Iterator[str]:
    """Return the fixed code arguments of shells."""
    for shell in _shells(words, len(words)):
        flags, first = _own_words(words, shell)
        if first is not None and _has_code(flags) and not words[first].holds:
            yield words[first].text
    if words[0].text == "trap" and len(words) > 1:
        yield words[1].text


def evaluated_text(text: str) -> Iterator[str]:
    """Return what a text evaluates, as phrases; by pattern, as the grammar does not see all of it
    inside quotes."""
    if any(
        _COMPUTES.fullmatch(found[1] or found[2] or "") is None
        for found in _ARITHMETIC.finditer(text)
    ):
        yield "arithmetic evaluates what its variables hold"
    if _INDIRECT.search(text):
        yield "${!…} and ${…@…} evaluate what a variable holds"
    if any(_PLAIN_SLICE.fullmatch(found[0]) is None for found in _SLICE.finditer(text)):
        yield "the numbers of ${…:…} are evaluated as arithmetic; write digits"
    if any(PLAIN_INDEX.fullmatch(found[1]) is None for found in _INDEX.finditer(text)):
        yield INDEX_RUNS


def warning_about(words: Words, at: int) -> str:
    """Return a warning if the value becomes part of a program in another language; else an empty
    text."""
    inner = program_at(words)
    name = words[inner].program
    flags = {"-c"} if re.fullmatch(r"python[\d.]*", name) else _CODE_FLAG.get(name, set())
    first = next(
        (
            n
            for n in range(inner + 1, len(words))
            if words[n].holds or not words[n].text.startswith("-")
        ),
        -1,
    )
    if at > inner and (words[at - 1].text in flags or (name in _CODE_FIRST and first == at)):
        return f"the value becomes part of a program for {name}, which may take it for code; give it as an argument"
    return ""


def is_behind_dashes(words: Words, at: int) -> bool:
    """Whether a `--` of the program itself, not of one that runs it, comes before the word."""
    return any(word.text == "--" and not word.holds for word in words[program_at(words) + 1 : at])


def program_at(words: Words) -> int:
    """Return the index of the word that names the program that is finally run."""
    at = 0
    while at < len(words) and not words[at].holds and words[at].program in WRAPPERS:
        following = at + 1
        while (
            following < len(words)
            and not words[following].holds
            and _WRAPPER_ARGUMENT.fullmatch(words[following].text)
        ):
            following += 1
        if following >= len(words):
            return at
        at = following
    return at


def _follows_a_flags_value(words: Words, inner: int, at: int) -> bool:
    """Whether the word before may be a flag's value, and this one the program, as in `sudo -u root
    X`."""
    flagged = inner > 0 and words[inner - 1].text.startswith("-") and words[inner - 1].text != "--"
    return flagged and at == inner + 1


def _shells(words: Words, most: int) -> list[int]:
    """Return the indexes below `most` of words that name a shell, as some program may run it."""
    return [at for at, word in enumerate(words[:most]) if not word.holds and word.program in SHELLS]


def _running_shells(words: Words) -> list[int]:
    """Return the indexes at which a shell is certainly run, by itself or by a program before it."""
    inner = program_at(words)
    runs_others = inner > 0 or words[inner].program in EVALUATE | {"find", "xargs"}
    return [at for at in _shells(words, len(words)) if at == inner or (at > inner and runs_others)]


def _own_words(words: Words, shell: int) -> tuple[list[str], int | None]:
    """Return the flags of a shell, and the index of the first word that is not a flag."""
    flags: list[str] = []
    at = shell + 1
    while at < len(words):
        word = words[at]
        if word.holds or word.open or not re.match(r"[-+]", word.text):
            return flags, at
        flags.append(word.text)
        at += (
            2
            if word.text in _TAKE_A_VALUE and at + 1 < len(words) and not words[at + 1].holds
            else 1
        )
    return flags, None


def _has_code(flags: Sequence[str]) -> bool:
    return any(re.fullmatch(r"-\w*c\w*", flag) for flag in flags)


def _is_plain_test(rest: Words) -> bool:
    """Whether the effect of `test` is fixed: at most one operator, in its place, that evaluates
    nothing."""
    if rest and rest[0].text == "!" and not rest[0].varies:
        rest = rest[1:]
    operator = {2: 0, 3: 1}.get(len(rest))
    if operator is None:
        return len(rest) < 2
    return not rest[operator].varies and rest[operator].text in PLAIN_TESTS | NUMBER_TESTS


def _has_plain_format(rest: Words) -> bool:
    """Whether printf's format is fixed and without `%n`, and the variable after `-v` fixed and
    without an index."""
    at = 0
    while at < len(rest) and rest[at].text.startswith("-v"):
        at += 2 if rest[at].text == "-v" else 1
    at += at < len(rest) and rest[at].text == "--"
    return not (
        any(word.varies for word in rest[: at + 1])
        or any("[" in word.text for word in rest[:at])
        or any(_WRITES_A_COUNT.search(word.text) for word in rest[at : at + 1])
    )


def _is_input(word: TemplateWord) -> bool:
    return word.text == "-" or word.text.startswith(("/dev/", "/proc/", "<("))


def _names_code(word: TemplateWord) -> bool:
    """Whether the word is a file of code, or the flag before code."""
    return not _is_input(word) and (word.holds or re.match(r"-(?![cefmr])", word.text) is None)


def _puts_into_code(words: Words) -> bool:
    replaces = any(re.match(r"-I|-i|-J|--replace", word.text) for word in words)
    return bool(_running_shells(words)) and (
        replaces or any("{}" in script for script in _scripts_in(words))
    )
