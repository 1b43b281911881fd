"""Arguments that are a language of their own: those of `find`, `test` and `tar`, and scripts of sed and awk."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from codeagent.tools.shell.strict import Word

_FIND_ALONE = frozenset({
    "-empty", "-readable", "-writable", "-executable", "-nouser", "-nogroup", "-true", "-false", "-print", "-print0",
    "-ls", "-prune", "-quit", "-depth", "-d", "-xdev", "-mount", "-daystart", "-follow", "-noleaf", "-warn", "-nowarn",
    "-ignore_readdir_race", "-noignore_readdir_race", "-not", "!", "-a", "-and", "-o", "-or", "(", ")", ",",
})  # fmt: skip
_FIND_WITH_VALUE = frozenset({
    "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-regextype", "-type",
    "-xtype", "-maxdepth", "-mindepth", "-size", "-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin", "-newer",
    "-anewer", "-cnewer", "-newermt", "-newerat", "-newerct", "-perm", "-user", "-group", "-uid", "-gid", "-links",
    "-inum", "-samefile", "-lname", "-ilname", "-fstype", "-used", "-printf",
})  # fmt: skip
_FIND_FIRST = frozenset({"-L", "-P", "-H", "-O1", "-O2", "-O3"})

_TEST_WORDS = frozenset({"-ot", "-nt", "-ef", "-o", *(f"-{letter}" for letter in "abcdefghknprstuwxGLNOSz")})
_TEST_NUMBERS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_NUMBER = re.compile(r"-?\d+")

_TAR_LIST = re.compile(r"-?[tvzjJf]*")
_TAR_FLAGS = frozenset({"-v", "-z", "-j", "-J", "--list", "--verbose", "--gzip", "--bzip2", "--xz"})
_SED_ADDRESS = re.compile(r"\d+(?:~\d+)?|\$|\+\d+")
_SED_FLAGS = re.compile(r"[gpIi\d]*")
_SED_PRINTS = frozenset("pdq=")
_DELIMITERS = "/|#,@:!%_"
_AWK_FUNCTIONS = frozenset({
    "if", "for", "in", "print", "printf", "length", "substr", "split", "tolower", "toupper", "index", "match", "gsub",
    "sub", "gensub", "sprintf", "int", "sqrt", "log", "exp", "rand", "return", "else", "and", "or",
})  # fmt: skip
_AWK_NEVER = frozenset({
    "getline", "system", "close", "fflush", "function", "func", "while", "do", "delete", "load", "include", "namespace",
    "ARGV", "ARGC", "ARGIND", "ENVIRON", "PROCINFO", "SYMTAB", "FUNCTAB", "BINMODE",
})  # fmt: skip
_AWK_COMPARES = re.compile(r"\((?:[\w\s$.+*%<>=!-]|&&|\|\|)*\)")
"""In parentheses `>` compares; with no call, text or pattern about, these are what they seem."""
_AWK_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")
_AWK_WORD = re.compile(r"[A-Za-z_]\w*")
AWK_VARIABLE = re.compile(r"(?!ARG|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|BINMODE)[A-Za-z_]\w*=.*", re.DOTALL)


def find_reads(words: Sequence[Word], runs: Callable[[Sequence[Word]], bool]) -> bool:
    """Whether there are only folders, tests and actions that print, none of which a glob could become.

    `runs` tells whether a command that is given names of files, each with the folder it was found in, only reads.
    """
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.text == "-exec":
            texts = [None, *(one.text for one in rest)]
            end = next((at for at, two in enumerate(pairwise(texts)) if two[1] == ";" or two == ("{}", "+")), None)
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
        elif word.text not in _FIND_ALONE | _FIND_FIRST and (word.text.startswith("-") or not word.text):
            return False
    return True


def _may_become_an_action(word: Word) -> bool:
    """Whether it is a glob that may match a word of the language; no such word holds a dot (`-name *.py`)."""
    return word.globs and (word.text[0] in "-*?[") and ("." not in word.text or "[" in word.text)


def test_reads(words: Sequence[Word]) -> bool:
    """Whether `test` or `[` only reads: never `-v`, which evaluates an index; only digits are compared as numbers."""
    if any(word.globs for word in words):
        return False
    texts = [word.text for word in words]
    for at, text in enumerate(texts):
        if text in _TEST_NUMBERS:
            around = [*texts[max(0, at - 1) : at], *texts[at + 1 : at + 2]]
            if len(around) != 2 or not all(_NUMBER.fullmatch(number) for number in around):
                return False
        elif text.startswith("-") and len(text) > 1 and not (text in _TEST_WORDS or _NUMBER.fullmatch(text)):
            return False
    return True


def tar_lists(words: Sequence[Word]) -> bool:
    """Whether tar only lists, as in `tar -tzvf a.tar.gz`: a colon in the name would be another machine."""
    if len(words) < 2 or any(word.globs or ":" in word.text for word in words):
        return False
    first, *rest = (word.text for word in words)
    listing = first == "--list" or (_TAR_LIST.fullmatch(first) is not None and "t" in first)
    cluster = first.lstrip("-")
    if not listing or ("f" in cluster[:-1] and first != "--list"):
        return False
    return all(text in _TAR_FLAGS or text == "-f" or not text.startswith("-") for text in rest)


def sed_prints(script: str) -> bool:
    """Whether a sed script only prints: addresses with `p`, `d`, `q`, `=`, and `s` without flags that write or run."""
    at = 0
    while at < len(script):
        if script[at] in " \t;":
            at += 1
            continue
        after = _after_sed_command(script, at)
        if after is None:
            return False
        at = after
    return True


def awk_prints(script: str) -> bool:
    """Whether an awk script only prints: no redirection, no pipe, no function but built-in ones that compute.

    Literals are not told from code, because a slash may be a division: what is not allowed is refused in a text or a
    pattern, too, except `>` and `|` before the first brace, where nothing is printed yet.
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


def _after_sed_command(script: str, at: int) -> int | None:
    """Where the command at `at` ends; None if it is not one of those that only print."""
    found: int | None = _after_address(script, at)
    if found is not None and script[found : found + 1] == ",":
        found = _after_address(script, found + 1, must_be_there=True)
    if found is None:
        return None
    at = found
    while script[at : at + 1] in (" ", "!") and at < len(script):
        at += 1
    command = script[at : at + 1]
    if command == "s":
        return _after_substitution(script, at + 1)
    return _end(script, at + 1) if command and command in _SED_PRINTS else None


def _after_address(script: str, at: int, *, must_be_there: bool = False) -> int | None:
    if script[at : at + 1] == "/":
        end = _after_part(script, at + 1, "/")
        return None if end is None else end + (script[end : end + 1] == "I")
    match = _SED_ADDRESS.match(script, at)
    if match is None:
        return None if must_be_there else at
    return match.end()


def _after_substitution(script: str, at: int) -> int | None:
    delimiter = script[at : at + 1]
    if not delimiter or delimiter not in _DELIMITERS:
        return None
    middle = _after_part(script, at + 1, delimiter)
    end = None if middle is None else _after_part(script, middle, delimiter, pattern=False)
    if end is None:
        return None
    match = _SED_FLAGS.match(script, end)
    return _end(script, match.end() if match else end)


def _after_part(script: str, at: int, delimiter: str, *, pattern: bool = True) -> int | None:
    """Index behind the next delimiter; None if brackets make it unclear, because seds differ in where they end."""
    start = at
    while at < len(script) and script[at] != delimiter:
        if script[at] == "\n":
            return None
        at += 2 if script[at] == "\\" else 1
    if at >= len(script):
        return None
    text = script[start:at]
    if pattern and (re.search(r"\[\^?\]", text) or text.count("[") != text.count("]")):
        return None
    return at + 1


def _end(script: str, at: int) -> int | None:
    while script[at : at + 1] == " ":
        at += 1
    return at if at == len(script) or script[at] == ";" else None
