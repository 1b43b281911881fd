"""Judges whether code on a command line can start a program: sed, awk, Perl, Python and JavaScript.

The code is quiet if no word in it can: its words are compared with lists, also those in texts and
comments, and whatever could make up such a word while it runs is refused. A surplus refusal costs a
question.
"""

import re

from codeagent.core.patterns import HOLE
from codeagent.tools.shell.languages import awk_prints, sed_prints
from codeagent.tools.shell.programs import word_set

_SED_REGEX = r"(?:\\.|[^/\\\n])*"
_SED_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|[+~]\d+|/(?:{_SED_REGEX})/[IM]*)"
_SED_DELIMITER = r"[^\w\s\\{}\[\];]"
_SED_PARTS = (
    rf"s(?P<cut>{_SED_DELIMITER})(?:(?:\\[\s\S]|(?!(?P=cut))[^\\\n])*(?P=cut)){{2}}[gpIiMm\d]*",
    rf"y(?P<map>{_SED_DELIMITER})(?:(?:\\[\s\S]|(?!(?P=map))[^\\\n])*(?P=map)){{2}}",
    r"[aic](?:[ \t]*\\\n|[ \t]*)(?:\\[\s\S]|[^\\\n])*",
    r"[btT:][ \t]*[\w.-]*",
    r"[rR][ \t]*[^\n;}]+",
    r"[dDgGhHnNpPxzlF=qQ][ \t]*\d*",
    r"[{}]",
)
_SED_COMMAND = re.compile(
    rf"(?P<address>{_SED_ADDRESS}?(?:[ \t]*,[ \t]*{_SED_ADDRESS})?)[ \t!]*(?:{'|'.join(_SED_PARTS)})[ \t]*"
    r"(?:(?<=[{}])|(?=\})|[;\n]|\Z)[ \t;\n]*"
)
_BRACKET = re.compile(r"\[\^?\]")
_ESCAPED = re.compile(r"\\[\s\S]")

_WORD = re.compile(r"[A-Za-z_]\w*")
_PYTHON_WORDS = re.compile(
    r"_*(?:exec|eval|spawn|posix|fork|[pP]open|system|load_ext|gi_|cr_|ag_|f_[bgl]|tb_|co_)\w*|f_back"
    r"|compile|getattr|vars|globals|locals|modules|breakpoint|help|coding|license|credits|copyright"
    r"|\w*subprocess\w*|os_|builtins|importlib|ctypes|cffi|pty|runpy|asyncio|multiprocessing|pickle|marshal|operator"
    r"|Formatter|get_field|get_value|attrgetter|methodcaller|_getframe\w*|_current_frames|settrace|setprofile|startfile"
    r"|nt|platform_popen|webbrowser|__(?!name__|version__|file__|main__|doc__|init__|all__|str__|repr__)\w*"
)
"""Words with which Python starts a program, evaluates text, or reaches what is not named."""
_PYTHON_MODULES = word_set("""
os sys re json math datetime time pathlib collections itertools random csv statistics hashlib
base64 glob textwrap tomllib struct zlib difflib shutil urllib configparser ast io pprint
platform tempfile unicodedata html decimal fractions heapq bisect copy uuid calendar site
sysconfig zipfile tarfile gzip sqlite3 socket fnmatch binascii secrets locale xml stat errno
cmath keyword numbers
""")
_PYTHON_IMPORT = re.compile(
    r"\bfrom[ \t]+([\w.]+)[ \t]+import\b(?![ \t]*\\)"
    r"|\bimport[ \t]+((?:[\w.]+(?:[ \t]+as[ \t]+\w+)?(?:[ \t]*,[ \t]*)?)+)"
)
_PYTHON_ALIAS = re.compile(r"[ \t]+as[ \t]+\w+")
_CALL = re.compile(r"([\w.\])'\"}]+)[ \t]*\(")
_PYTHON_PLAIN_CALLS = word_set("""
    print len repr str sorted list dir type tuple set sum int bool hasattr
""")
_NODE_WORDS = re.compile(
    r"child_process|eval|Function|constructor|import|globalThis|global|this|Reflect|Proxy|module|mainModule|binding"
    r"|_\w+|dlopen|vm|Worker|worker_threads|cluster|exec\w*|spawn\w*|fork|with|createRequire|getBuiltinModule|repl|v8"
    r"|inspector|wasi|test|load\w*|prototype|arguments|callee|caller|\w*[Dd]escriptors?\w*|defineProperty|assign|bind"
)
_NODE_REQUIRES = re.compile(
    r"\brequire\((['\"])(?:\.{1,2}/[\w./-]+\.json|(?:node:)?(?:fs|path|os|util|url|crypto|assert))\1\)"
)
_NODE_PROCESS = re.compile(
    r"\bprocess\.(?:versions?|argv|cwd\(\)|platform|arch|exit|exitCode|stdout|uptime|memoryUsage|env\.\w+)\b"
)
_NODE_OBJECT = re.compile(r"\bObject\.(?:keys|values|entries)\b")
_NODE_INDEX = re.compile(r"\[(?:\d[\d, ]*|\s*|'[A-Za-z-]+'|\"[A-Za-z-]+\")\]")
_PERL_PART = r"(?:\\[\s\S]|(?!(?P=cut))[^\\])*"
_PERL_COMMAND = re.compile(
    rf"\s*(?:(?:s(?P<cut>[/|#,!%:])(?P<from>{_PERL_PART})(?P=cut)(?P<to>{_PERL_PART})(?P=cut)[gimsxrn]*"
    r"|(?:tr|y)/[^/\\]*/[^/\\]*/[cdsr]*|print|print \$_|print \"?\$[.\d\w]+(?:\\n)?\"?|next|\$_)"
    r"(?:\s+(?:if|unless)\s+(?:\$\.\s*[<>=]=?\s*\d+|/(?P<test>(?:\\.|[^/\\])*)/[imsx]*))?)?\s*(?:;|\Z)"
)
_PERL_RUNS = re.compile(r"[@$]\s*[{]|[@]\w|\(\?\??\{|\$\w*[\[{(]|\$\W?\{")


def sed_is_quiet(script: str) -> bool:
    """Whether a sed script neither runs a command (`e`, `s///e`) nor writes a file (`w`,
    `s///w`)."""
    if HOLE in script:
        return False
    if sed_prints(script):
        return True
    at = len(script) - len(script.lstrip(" \t;\n"))
    while at < len(script):
        found = _SED_COMMAND.match(script, at)
        if found is None or found.end() == at:
            return False
        plain = _ESCAPED.sub("", found[0])
        # Seds differ in where brackets without a partner make a pattern end.
        uneven = (
            _BRACKET.search(plain) or plain.count("[") != plain.count("]") or _splits(found, plain)
        )
        if uneven and (found["cut"] or found["address"]):
            return False
        at = found.end()
    return True


def _splits(found: re.Match[str], plain: str) -> bool:
    """Whether a bracket expression contains the delimiter, which ends the pattern in some seds
    only."""
    marks = {"/", found["cut"] or "/"}
    return any(mark in inner for inner in re.findall(r"\[([^\]]*)\]", plain) for mark in marks)


def awk_is_quiet(script: str) -> bool:
    """Whether an awk script runs no command, through `system`, a pipe, an indirect call or an
    extension."""
    if HOLE in script:
        return False
    return awk_prints(script) or (
        re.search(r"system|[@`]|\\\n", script) is None and "|" not in script.replace("||", "")
    )


def python_is_quiet(code: str) -> bool:
    """Whether Python code names nothing that starts a program, or that reaches something without
    naming it.

    A module that is not known to be harmless may be imported as a script may be run, but not
    called.
    """
    if HOLE in code or not code.isascii() or any(map(_PYTHON_WORDS.fullmatch, _WORD.findall(code))):
        return False
    imports = _PYTHON_IMPORT.findall(code)
    if len(re.findall(r"\bimport\b", code)) != len(imports):
        return False
    named = [
        one.strip()
        for pair in imports
        for part in pair
        for one in _PYTHON_ALIAS.sub("", part).split(",")
    ]
    if {one.partition(".")[0] for one in named if one} <= _PYTHON_MODULES:
        return True
    return "@" not in code and set(_CALL.findall(code)) <= _PYTHON_PLAIN_CALLS


def node_is_quiet(code: str) -> bool:
    """Whether JavaScript code names nothing that starts a program or evaluates text, and computes
    no names."""
    if HOLE in code or not code.isascii() or re.search(r"\\[ux]", code):
        return False
    rest = code
    for known in (_NODE_REQUIRES, _NODE_PROCESS, _NODE_OBJECT, _NODE_INDEX):
        rest = known.sub("0", rest)
    words = set(_WORD.findall(rest))
    return (
        "[" not in rest
        and not words & {"require", "process", "Object"}
        and not any(map(_NODE_WORDS.fullmatch, words))
    )


def perl_is_quiet(code: str) -> bool:
    """Whether Perl code only substitutes and prints, without code in its patterns."""
    if HOLE in code or "`" in code or _PERL_RUNS.search(_ESCAPED.sub("", code)):
        return False
    at = 0
    while at < len(code):
        found = _PERL_COMMAND.match(code, at)
        if found is None or found.end() == at:
            return False
        at = found.end()
    return True
