"""Finds what a command would run or evaluate, so that values of a call cannot get there."""

import re
from collections.abc import Callable, Iterator, Sequence

from codeagent.core.dataclass import dataclass
from codeagent.core.patterns import HOLE
from codeagent.tools.shell.programs import (
    EVALUATE,
    LANGUAGES,
    PYTHON,
    RUN_THEIR_INPUT,
    RUNNERS,
    SHELLS,
    WRAPPERS,
    word_set,
)
from codeagent.tools.shell.runs import command_starts

_NAME_VARIABLES = word_set(
    "read mapfile readarray getopts unset wait let enable hash alias bind complete compgen declare typeset local "
    "readonly export"
)
"""Builtins that take names of variables, each of which may have an index that is evaluated."""
_TAKE_A_VALUE = word_set("-o +o -O +O --rcfile --init-file")
_CODE_FLAG = re.compile(r"-[eEpr]|--eval|--print")
"""The flag before code, of an interpreter other than Python."""
_HARMLESS_ALONE = word_set("builtin command env exec time xargs")
"""Programs that run another one, or nothing if none is named; others would then run a shell."""
_CODE_FIRST = word_set("awk gawk mawk sed jq bc")
NUMBER_TESTS = word_set("-eq -ne -lt -le -gt -ge")
"""Operators that evaluate their operands in `[[ … ]]`, and accept only digits in `[ … ]`."""
PLAIN_TESTS = word_set(
    "= == != < > =~ -nt -ot -ef -a -b -c -d -e -f -g -h -k -n -o -p -r -s -t -u -w -x -z -G -L -N -O -S"
)
_WRITES_A_COUNT = re.compile(r"%[^%A-Za-z]*[hjlLtz]*n")
"""`%n` of printf, whose argument is the name of a variable."""
_CALLBACK = re.compile(r"-\w*C")
"""The flag of mapfile before what is run for lines of its input."""
_ANY = "value"
"""A fixed last word in place of one that is not, which else would count as added from input."""
RUN_AS_CODE = "it would be run as shell code"
TESTS_EVALUATE = "tests other than =, !=, -z, -n and those of files evaluate it"


@dataclass(frozen=True)
class TemplateWord:
    """One word of a command."""

    text: str
    """Without quotes, and with `HOLE` for what is not fixed: a value, a variable, a pattern, a
    substitution."""
    holds: bool = False
    """A value may get into it, through a placeholder or a variable that may hold one."""
    several: bool = False
    """It becomes any number of words."""

    @property
    def varies(self) -> bool:
        return HOLE in self.text

    @property
    def open(self) -> bool:
        """Whether it does not say which program it names: in a path, only the last part counts."""
        return self.varies and (not self.program or HOLE in self.program)

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
    size = len(words)
    every, starts = _with_input(words)
    said: set[int] = set()
    for at, start in enumerate(starts):
        following = starts[at + 1] if at + 1 < len(starts) else None
        for index, why in _of_command(every, start, following, scan, fed=fed):
            if index is None or index >= size or not words[index].holds:
                yield None, why if index is None else f"its input is a value: {why}"
            elif index not in said:
                said.add(index)
                yield index, why
    yield from _of_unknown_runner(every, starts, size, scan)


def _of_unknown_runner(
    words: Words, starts: Sequence[int], size: int, scan: Scan
) -> Iterator[tuple[int | None, str]]:
    """Return what shells and `xargs` would run if a program that is not known to run others runs
    them."""
    evaluates = any(words[start].program in EVALUATE for start in starts)
    for at, word in enumerate(words):
        if at in starts or word.holds:
            continue
        if word.program in SHELLS:
            for index, why in _given_to_shell(words, at, scan, runs=evaluates):
                yield index if index is not None and index < size else None, why
        elif word.program == "xargs":
            given = refusals(words[at:size], scan, fed=True)
            yield from ((index, why) for index, why in given if index is None)


def _with_input(words: Words) -> tuple[Words, list[int]]:
    """Return the words with those that a program would add from its input, and where commands
    begin."""
    texts = [word.text for word in words]
    known = [*texts[:-1], _ANY] if texts[-1] == HOLE else texts
    holed, starts = command_starts(known)
    marks = [
        at
        for at, text in enumerate(texts[:-1], 1)
        if text in ("-I", "-J") and HOLE not in texts[at]
    ]
    every = [
        word if text in (word.text, _ANY) or at in marks else TemplateWord(text, holds=True)
        for at, (word, text) in enumerate(zip(words, holed, strict=False))
    ]
    behind_program = [at for at, text in enumerate(texts, 2) if text == "--" and at - 1 in starts]
    own = [0, *(at for at in starts if at and at not in (*marks, *behind_program))]
    runner = next((at for at, word in enumerate(words) if word.program == "xargs"), None)
    if own[-1] == len(words) and own[-2] == runner:
        return every, own[:-1]  # it only writes what it reads
    added = (TemplateWord(text, holds=True, several=True) for text in holed[len(words) :])
    return [*every, *added], own


def _of_command(
    words: Words, start: int, following: int | None, scan: Scan, *, fed: bool
) -> Iterator[tuple[int | None, str]]:
    """Return what the command at `start` would run, up to the one at `following`, which it runs."""
    first, rest = words[start], words[start + 1 :]
    name, by = first.program, f" that {words[0].text} runs" if start else ""
    held = [start + 1 + at for at, word in enumerate(rest) if word.holds]
    if first.holds:
        yield start, f"it would name the program{by}"
        return
    if first.open:
        yield from ((at, "it would be given to a program that is not fixed") for at in held)
    if name in SHELLS:
        yield from _given_to_shell(words, start, scan, runs=True)
        if (
            fed
            and (script := _own_words(words, start)[1]) is not None
            and words[script].text == HOLE
        ):
            yield None, f"{name} runs what it reads if the name of its script is empty"
    if name in EVALUATE:
        yield from ((at, f"it would be evaluated by {name}") for at in held)
    if name in RUNNERS:
        end = _end_of_own_words(words, following)
        yield from ((at, f"it would name the program that {name} runs") for at in held if at < end)
        if any(word.open and not word.holds for word in words[start + 1 : end]):
            yield from ((at, "it would be given to a program that is not fixed") for at in held)
    if name == "trap" and rest:
        yield from ((None, why) for why in scan(rest[0].text))
    if (what := _evaluated(name, rest)) is not None:
        yield None, what
    if fed and (
        _runs_input(name, rest) or (following is None and name in WRAPPERS - _HARMLESS_ALONE)
    ):
        yield None, f"{name} runs what it reads"


def _end_of_own_words(words: Words, program: int | None) -> int:
    """Return where the words end that may be a runner's own, or the program that it runs.

    The word after a flag may be its value.
    """
    if program is None:
        return len(words)
    flag = words[program - 1].text
    is_value = flag.startswith("-") and flag != "--"
    return program + (2 if is_value else 1)


def _evaluated(name: str, rest: Words) -> str | None:
    """Return what the command evaluates, whichever word holds a value, as a phrase; None if
    nothing."""
    varies = any(word.varies for word in rest)
    indexed = any("[" in word.text for word in rest)
    match name:
        case "eval":
            return "eval runs what variables hold"
        case "source" | "." | "trap" if any(word.open or _is_input(word) for word in rest[:1]):
            return f"{name} runs what a variable holds"
        case "mapfile" | "readarray" if any(_CALLBACK.match(word.text) for word in rest):
            return f"{name} -C runs what it reads"
        case _ if name in _NAME_VARIABLES and (varies or indexed or name == "let"):
            return f"{name} evaluates what it is given as a name"
        case "printf" if not _has_plain_format(rest):
            return (
                "printf evaluates what it is given as a name: its format must be fixed, without %n"
            )
        case "test" if not is_plain_test(rest):
            return TESTS_EVALUATE
        case _:
            return None


def _given_to_shell(
    words: Words, shell: int, scan: Scan, *, runs: bool
) -> Iterator[tuple[int | None, str]]:
    """Return what the shell at that index would do with values in the words after it, with its code
    and, if it certainly `runs`, with its input."""
    name = words[shell].program
    flags, first = _own_words(words, shell)
    code = any(re.fullmatch(r"-\w*c\w*", flag) for flag in flags)
    for at in (at for at in range(shell + 1, len(words)) if words[at].holds):
        if first is None or first > at:
            yield at, f"it would be taken for an option of {name}"
        elif words[first].open and not words[first].holds:
            yield at, f"it is not fixed which arguments {name} gets before it"
        elif first == at:
            what = RUN_AS_CODE if code else f"it would name the script that {name} runs"
            yield at, f"{what}; put it after that, and use it there as $1"
    if first is None:
        if runs and flags != ["--version"]:
            yield None, f"{name} runs what it reads"
        return
    if code and not words[first].holds:
        yield from ((None, why) for why in scan(words[first].text))
    if runs and code and words[first].varies:
        said = "write its code in single quotes and give it arguments"
        yield None, f"{name} runs what a variable holds; {said}"
    elif runs and ("-s" in flags or _is_input(words[first])):
        yield None, f"{name} runs what a variable, or its input, holds"


def warning_about(words: Words, at: int) -> str:
    """Return a warning if the value becomes part of a program in another language; else an empty
    text."""
    inner = _program_before(words, at)
    name = words[inner].program
    before = words[at - 1].text
    flagged = name in LANGUAGES and _CODE_FLAG.fullmatch(before)
    others = range(inner + 1, len(words))
    first = next((n for n in others if words[n].holds or words[n].text[:1] != "-"), -1)
    leads = name in _CODE_FIRST and first == at
    if flagged or leads or (before == "-c" and PYTHON.fullmatch(name)):
        return f"the value becomes part of a program for {name}, which may take it for code; give it as an argument"
    return ""


def is_behind_dashes(words: Words, at: int) -> bool:
    """Whether a `--` of the program itself, not of one that runs it, comes before the word."""
    return any(word.text == "--" for word in words[_program_before(words, at) + 1 : at])


def _program_before(words: Words, at: int) -> int:
    """Return the index of the last word before `at` that names a program."""
    return max((start for start in _with_input(words)[1] if start < at), default=0)


def _own_words(words: Words, shell: int) -> tuple[list[str], int | None]:
    """Return the flags of a shell, and the index of the first word that is not a flag."""
    flags: list[str] = []
    at = shell + 1
    while at < len(words):
        word = words[at]
        if word.varies or not re.match(r"[-+]", word.text):
            return flags, at
        flags.append(word.text)
        valued = word.text in _TAKE_A_VALUE and at + 1 < len(words) and not words[at + 1].holds
        at += 2 if valued else 1
    return flags, None


def is_plain_test(rest: Words) -> bool:
    """Whether the effect of `test` is fixed: at most one operator, in its place, that evaluates
    nothing."""
    if not any(word.varies or "[" in word.text for word in rest):
        return True
    if any(word.several for word in rest):
        return False
    if rest and rest[0].text == "!":
        rest = rest[1:]
    operator = {2: 0, 3: 1}.get(len(rest))
    if operator is None:
        return len(rest) < 2
    return rest[operator].text in PLAIN_TESTS | NUMBER_TESTS


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


def _runs_input(name: str, rest: Words) -> bool:
    needed = 1 if PYTHON.fullmatch(name) else RUN_THEIR_INPUT.get(name, 0)
    return sum(map(_names_code, rest)) < needed


def _is_input(word: TemplateWord) -> bool:
    return word.text == "-" or word.text.startswith(("/dev/", "/proc/", "<("))


def _names_code(word: TemplateWord) -> bool:
    """Whether the word is a file of code, or the flag before code."""
    if word.several or _is_input(word):
        return False
    return word.holds or re.match(r"-(?![cefmr])", word.text) is None
