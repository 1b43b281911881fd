"""Programs whose arguments are a language of their own: `find`, `test`, `tar`. Each is read word by word."""

import re
from collections.abc import Sequence

from codeagent.tools.reading.words import Word

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

_TEST_OF_ONE = frozenset({f"-{letter}" for letter in "abcdefghknprstuwxGLNOSz"})
_TEST_BETWEEN = frozenset({"=", "==", "!=", "-ot", "-nt", "-ef"})
_TEST_NUMBERS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_TEST_JOINS = frozenset({"!", "(", ")", "-a", "-o"})
_NUMBER = re.compile(r"-?\d+")

_TAR_LIST = re.compile(r"-?[tvzjJf]*")
_TAR_FLAGS = frozenset({"-v", "-z", "-j", "-J", "--list", "--verbose", "--gzip", "--bzip2", "--xz"})


def find_reads(words: Sequence[Word]) -> bool:
    """Folders, then tests and actions that print. A glob must not be able to become one of them."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
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
    """A glob, unless each name it could stand for holds a dot, as no word of the language does (`-name *.py`)."""
    return word.globs and (word.text[0] in "-*?[") and ("." not in word.text or "[" in word.text)


def test_reads(words: Sequence[Word]) -> bool:
    """`test` and `[`: never `-v`, which evaluates what stands between brackets; only numbers are compared as such."""
    if any(word.globs for word in words):
        return False
    texts = [word.text for word in words]
    for at, text in enumerate(texts):
        if text in _TEST_NUMBERS:
            around = [*texts[max(0, at - 1) : at], *texts[at + 1 : at + 2]]
            if len(around) != 2 or not all(_NUMBER.fullmatch(number) for number in around):
                return False
        elif text.startswith("-") and len(text) > 1 and not _is_test_word(text):
            return False
    return True


def tar_lists(words: Sequence[Word]) -> bool:
    """`tar tf a.tar`, `tar -tzvf a.tar.gz`: a colon in the name would be another machine."""
    if len(words) < 2 or any(word.globs or ":" in word.text for word in words):
        return False
    first, *rest = (word.text for word in words)
    listing = first == "--list" or (_TAR_LIST.fullmatch(first) is not None and "t" in first)
    cluster = first.lstrip("-")
    if not listing or ("f" in cluster[:-1] and first != "--list"):
        return False
    return all(text in _TAR_FLAGS or text == "-f" or not text.startswith("-") for text in rest)


def _is_test_word(text: str) -> bool:
    return text in _TEST_OF_ONE | _TEST_BETWEEN | _TEST_JOINS or text == "-n" or _NUMBER.fullmatch(text) is not None
