"""The programs given to `sed` and `awk`: which of them only print."""

import re

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
_AWK_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")
_AWK_WORD = re.compile(r"[A-Za-z_]\w*")
AWK_VARIABLE = re.compile(r"(?!ARG|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|BINMODE)[A-Za-z_]\w*=.*", re.DOTALL)


def sed_prints(script: str) -> bool:
    """Addresses with `p`, `d`, `q`, `=`, and `s` without the flags that write or run; separated by semicolons."""
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
    """No redirection, no pipe, no function but the built-in ones that compute.

    Literals are not told from code, because a slash may be a division: what is not allowed may not stand in a text or
    a pattern either, except `>` and `|` before the first brace, where nothing is printed yet.
    """
    before, _, actions = script.partition("{")
    if not script.isascii() or "@" in script or "`" in script or "\\\n" in script:
        return False
    if ">" in actions or "|" in actions.replace("||", "") or "|&" in before:
        return False
    names = set(_AWK_WORD.findall(script))
    return not names & _AWK_NEVER and set(_AWK_CALL.findall(script)) <= _AWK_FUNCTIONS


def _after_sed_command(script: str, at: int) -> int | None:
    """Where the command at `at` ends; None where it is none of those that only print."""
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
    """Behind the next delimiter. A pattern's brackets must be plain to see: not every sed ends it at the same place."""
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
