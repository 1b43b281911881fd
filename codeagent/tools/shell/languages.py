"""Judges arguments that are a language of their own: those of `find`, `test` and `tar`, and sed and
awk scripts."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from codeagent.core.lazy_regex import lazy_regex
from codeagent.tools.shell.programs import word_set
from codeagent.tools.shell.strict import Word

_FIND_ALONE = word_set("""
    -empty -readable -writable -executable -nouser -nogroup -true -false -print -print0 -ls -prune
    -quit -depth -d -xdev -mount -daystart -follow -noleaf -warn -nowarn -ignore_readdir_race
    -noignore_readdir_race -not ! -a -and -o -or ( ) ,
""")
_FIND_WITH_VALUE = word_set("""
    -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype
    -maxdepth -mindepth -size -mtime -atime -ctime -mmin -amin -cmin -newer -anewer -cnewer -newermt
    -newerat -newerct -perm -user -group -uid -gid -links -inum -samefile -lname -ilname -fstype
    -used -printf
""")
_FIND_FIRST = word_set("-L -P -H -O1 -O2 -O3")

_TEST_WORDS = frozenset(
    {"-ot", "-nt", "-ef", "-o", *(f"-{letter}" for letter in "abcdefghknprstuwxGLNOSz")}
)
_TEST_NUMBERS = word_set("-eq -ne -lt -le -gt -ge")
_NUMBER = lazy_regex(r"-?\d+")

_TAR_LIST = lazy_regex(r"-?[tvzjJf]*")
_TAR_FLAGS = word_set("-v -z -j -J --list --verbose --gzip --bzip2 --xz")
_SED_ADDRESS = r"(?:\d+(?:~\d+)?|\$|\+\d+|/(?P<NAME>(?:\\[\s\S]|[^/\\\n])*)/I?)"
_SED_PART = r"(?:\\[\s\S]|(?!(?P=delimiter))[^\\\n])*"
_SED_COMMAND = lazy_regex(
    rf"{_SED_ADDRESS.replace('NAME', 'first')}?(?:,{_SED_ADDRESS.replace('NAME', 'second')})?[ !]*"
    rf"(?:[pdq=]|s(?P<delimiter>[/|#,@:!%_])(?P<pattern>{_SED_PART})(?P=delimiter){_SED_PART}(?P=delimiter)[gpIi\d]*)"
    r" *(?:;[ \t;]*|\Z)"
)
_AWK_FUNCTIONS = word_set("""
    if for in print printf length substr split tolower toupper index match gsub sub gensub sprintf
    int sqrt log exp rand return else and or
""")
_AWK_NEVER = word_set("""
    getline system close fflush function func while do delete load include namespace ARGV ARGC
    ARGIND ENVIRON PROCINFO SYMTAB FUNCTAB BINMODE
""")
_AWK_COMPARES = lazy_regex(r"\((?:[\w\s$.+*%<>=!-]|&&|\|\|)*\)")
"""In parentheses `>` compares; with no call, text or pattern about, these are what they seem."""
_AWK_CALL = lazy_regex(r"([A-Za-z_]\w*)\s*\(")
_AWK_WORD = lazy_regex(r"[A-Za-z_]\w*")
AWK_VARIABLE = lazy_regex(
    r"(?!ARG|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|BINMODE)[A-Za-z_]\w*=.*", re.DOTALL
)


def find_reads(words: Sequence[Word], runs: Callable[[Sequence[Word]], bool]) -> bool:
    """Whether there are only folders, tests and actions that print, and globs cannot become another
    action.

    `runs` says whether a command is read-only if it gets names of files, each with its folder.
    """
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.text == "-exec":
            texts = [None, *(one.text for one in rest)]
            end = next(
                (
                    at
                    for at, two in enumerate(pairwise(texts))
                    if two[1] == ";" or two == ("{}", "+")
                ),
                None,
            )
            if end is None or not runs(rest[:end]):
                return False
            rest = rest[end + 1 :]
            continue
        if _may_become_an_action(word):
            return False
        if word.text in _FIND_WITH_VALUE:
            if not rest or _may_become_an_action(rest[0]):
                return False
            rest.pop(0)
        elif word.text not in _FIND_ALONE | _FIND_FIRST and (
            word.text.startswith("-") or not word.text
        ):
            return False
    return True


def _may_become_an_action(word: Word) -> bool:
    """Whether a glob may match a word of the language; these words never contain a dot (`-name
    *.py`)."""
    return word.globs and (word.text[0] in "-*?[") and ("." not in word.text or "[" in word.text)


def test_reads(words: Sequence[Word]) -> bool:
    """Whether `test` or `[` only reads: without `-v`, which evaluates an index, and only digits
    compared as numbers."""
    if any(word.globs for word in words):
        return False
    texts = [word.text for word in words]
    for at, text in enumerate(texts):
        if text in _TEST_NUMBERS:
            around = [*texts[max(0, at - 1) : at], *texts[at + 1 : at + 2]]
            if len(around) != 2 or not all(_NUMBER.fullmatch(number) for number in around):
                return False
        elif (
            text.startswith("-")
            and len(text) > 1
            and not (text in _TEST_WORDS or _NUMBER.fullmatch(text))
        ):
            return False
    return True


def tar_lists(words: Sequence[Word]) -> bool:
    """Whether tar only lists, as in `tar -tzvf a.tar.gz`, and from a name without a colon (another
    machine)."""
    if len(words) < 2 or any(word.globs or ":" in word.text for word in words):
        return False
    first, *rest = (word.text for word in words)
    listing = first == "--list" or (_TAR_LIST.fullmatch(first) is not None and "t" in first)
    cluster = first.lstrip("-")
    if not listing or ("f" in cluster[:-1] and first != "--list"):
        return False
    return all(text in _TAR_FLAGS or text == "-f" or not text.startswith("-") for text in rest)


def sed_prints(script: str) -> bool:
    """Whether a sed script only prints: addresses with `p`, `d`, `q`, `=`, and `s` without flags
    that write or run.

    It is not known where brackets without a partner make a pattern end: seds differ in that.
    """
    at = len(script) - len(script.lstrip(" \t;"))
    while at < len(script):
        found = _SED_COMMAND.match(script, at)
        patterns = [] if found is None else filter(None, found.group("first", "second", "pattern"))
        if found is None or any(
            re.search(r"\[\^?\]", one) or one.count("[") != one.count("]") for one in patterns
        ):
            return False
        at = found.end()
    return True


def awk_prints(script: str) -> bool:
    """Whether an awk script only prints: no redirection, no pipe, no function but built-in ones
    that compute.

    Literals cannot be told from code, because a slash may be a division, so what is not allowed is
    also refused in a text or a pattern, except `>` and `|` before the first brace, where nothing is
    printed yet.
    """
    names, calls = set(_AWK_WORD.findall(script)), set(_AWK_CALL.findall(script))
    while (plain := _AWK_COMPARES.sub(" 0 ", script)) != script:
        script = plain
    before, _, actions = script.partition("{")
    if not script.isascii() or "@" in script or "`" in script or "\\\n" in script:
        return False
    if ">" in actions or "|" in actions.replace("||", "") or "|&" in before:
        return False
    return not names & _AWK_NEVER and calls <= _AWK_FUNCTIONS
