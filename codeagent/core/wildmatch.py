"""Git's glob patterns as regular expressions: what a line of an ignore file matches."""

import re

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex

_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \t",
    "cntrl": "\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_NEVER = lazy_regex(r"(?!)")


@dataclass(frozen=True)
class IgnoreLine:
    """A pattern that matches a path itself; skipping what is below an ignored directory is up to
    the walk."""

    expression: re.Pattern[str]
    negated: bool
    directories_only: bool
    whole_path: bool
    """Whether it is matched against the path from the ignore file's directory, not just against the
    last part."""

    def matches(self, path: str, directory: bool) -> bool:
        if self.directories_only and not directory:
            return False
        text = path if self.whole_path else path.rpartition("/")[2]
        return self.expression.fullmatch(text) is not None


def ignore_line(line: str) -> IgnoreLine | None:
    """Parse a line; None if it is empty or a comment."""
    pattern = _without_trailing_blanks(line.removesuffix("\r"))
    if not pattern or pattern.startswith("#"):
        return None
    negated = pattern.startswith("!")
    pattern = pattern[1:] if negated else pattern
    directories_only = pattern.endswith("/")
    pattern = pattern[:-1] if directories_only else pattern
    if not pattern:
        return None
    whole_path = "/" in pattern
    return IgnoreLine(wildmatch(pattern.removeprefix("/")), negated, directories_only, whole_path)


def wildmatch(pattern: str) -> re.Pattern[str]:
    """Translate: `*`, `?` and `[…]` stop at a slash, `**` between slashes does not; a broken one
    matches nothing."""
    out: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            piece, at = _stars(pattern, at)
        elif char == "?":
            piece, at = "[^/]", at + 1
        elif char == "[":
            found = _bracket(pattern, at)
            if found is None:
                return _NEVER
            piece, at = found
        elif char == "\\":
            if at + 1 == len(pattern):
                return _NEVER
            piece, at = re.escape(pattern[at + 1]), at + 2
        else:
            piece, at = re.escape(char), at + 1
        out.append(piece)
    return re.compile("".join(out), re.DOTALL)


def _stars(pattern: str, at: int) -> tuple[str, int]:
    end = at
    while end < len(pattern) and pattern[end] == "*":
        end += 1
    alone = end - at >= 2 and (at == 0 or pattern[at - 1] == "/")
    if alone and end == len(pattern):
        return ".*", end
    if alone and pattern[end] == "/":
        return "(?:.*/)?", end + 1
    if alone and pattern.startswith("\\/", end):
        return "(?:.*/)?", end + 2
    return "[^/]*", end


def _bracket(pattern: str, at: int) -> tuple[str, int] | None:
    """Return the set that opens at `at`, and where it ends; None if it is not closed or names no
    class."""
    at += 1
    negated = pattern[at : at + 1] in ("!", "^") and pattern[at : at + 1] != ""
    at += negated
    out: list[str] = []
    first = True
    while at < len(pattern):
        char = pattern[at]
        if char == "]" and not first:
            return _set(out, negated), at + 1
        first = False
        if pattern.startswith("[:", at):
            end = pattern.find(":]", at + 2)
            name = pattern[at + 2 : end]
            if end >= 0 and name in _CLASSES:
                out.append(_CLASSES[name])
                at = end + 2
                continue
            if end >= 0 and "]" not in name:
                return None
        low, at = _literal(pattern, at)
        if pattern.startswith("-", at) and at + 1 < len(pattern) and pattern[at + 1] != "]":
            high, at = _literal(pattern, at + 1)
            if low <= high:
                out.append(f"{re.escape(low)}-{re.escape(high)}")
            continue
        out.append(re.escape(low))
    return None


def _literal(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at] == "\\" and at + 1 < len(pattern):
        return pattern[at + 1], at + 2
    return pattern[at], at + 1


def _set(items: list[str], negated: bool) -> str:
    inside = "".join(items)
    if negated:
        return f"[^/{inside}]"
    return f"(?!/)[{inside}]" if inside else "(?!)"


def _without_trailing_blanks(line: str) -> str:
    """Remove trailing spaces except one after a backslash."""
    end = len(line)
    while end and line[end - 1] == " ":
        backslashes = len(line[: end - 1]) - len(line[: end - 1].rstrip("\\"))
        if backslashes % 2:
            break
        end -= 1
    return line[:end]
