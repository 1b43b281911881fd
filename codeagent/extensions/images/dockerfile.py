"""Reads a Dockerfile as the engine does: its lines, its instructions, their words, and the values
of variables.

What engines of different versions read differently, or what is not certain, is a DockerfileError.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import one_line

SCRATCH = "scratch"
"""The name of the empty base."""
SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680"
    + "".join(map(chr, range(0x2000, 0x200B)))
    + "\u2028\u2029\u202f\u205f\u3000"
)
"""What the engine takes for a space at the ends of a line, after a flag, and between words that may
be quoted."""
_BETWEEN = lazy_regex(r"[\t\v\f\r ]+")
"""Between an instruction and its text, and between words that are not quoted."""
_DIRECTIVE = lazy_regex(r"#\s*(?P<key>[a-zA-Z][a-zA-Z0-9]*)\s*=\s*(?P<value>\S.*)", re.ASCII)
_FLAG = lazy_regex(r"--(?P<name>[a-z-]+)=(?P<value>[^\"'\\`]*)")
_NAME = lazy_regex(r"\w+")
_VARIABLE = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_STAGE = lazy_regex(r"[a-z][a-z0-9_.-]*", re.ASCII)
_SPECIAL = "@*#?-$!"
"""After `$`, characters that engines of different versions read differently."""

Lookup = Callable[[str], str | None]
"""Returns the value of a variable; None if it has none."""


class DockerfileError(ConfigError):
    """One line: the instruction, and what about it cannot be read or done."""


@dataclass(frozen=True)
class Instruction:
    name: str
    """In capitals."""
    text: str
    """What follows the name, as the engine reads it."""
    shown: str
    """All of it for the user: as `text`, but without the indentation of further lines."""

    def __str__(self) -> str:
        return self.shown

    def refuse(self, why: str) -> DockerfileError:
        return DockerfileError(f"{one_line(self.shown, 100)}: {why}")

    def flags(self, *allowed: str) -> tuple[dict[str, str], str]:
        """Return the flags by their names, and the text after them. Raises DockerfileError if there
        are others."""
        found: dict[str, str] = {}
        rest = self.text
        while rest.startswith("--"):
            end = next((at for at, each in enumerate(rest) if each in SPACES), len(rest))
            flag = _FLAG.fullmatch(rest[:end])
            if flag is None or flag["name"] not in allowed or flag["name"] in found:
                raise self.refuse(f"{one_line(rest[:end], 40)} is not supported")
            found[flag["name"]] = flag["value"]
            rest = rest[end:].strip(SPACES)
        return found, rest


@dataclass(frozen=True)
class Dockerfile:
    instructions: tuple[Instruction, ...]
    escape: str
    """The character that escapes the next one, and a line's end."""


def read_dockerfile(text: str) -> Dockerfile:
    """Split a Dockerfile into its instructions, without comments. Raises DockerfileError."""
    if "\0" in text:
        raise DockerfileError("the Dockerfile contains a NUL character")
    lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    escape = _escape(lines)
    continued = re.compile(rf"{re.escape(escape)}[ \t]*$")
    found: list[Instruction] = []
    pieces: list[str] = []
    for raw in lines:
        begun = raw.lstrip(SPACES)
        if not begun or begun.startswith("#"):
            continue
        line = raw if pieces else begun
        kept = continued.sub("", line)
        pieces.append(kept)
        if kept == line:
            found += _instruction(pieces)
            pieces = []
    return Dockerfile((*found, *_instruction(pieces)), escape)


def instructions(text: str) -> tuple[Instruction, ...]:
    """Return the instructions alone. Raises DockerfileError."""
    return read_dockerfile(text).instructions


def copies_files(text: str) -> bool:
    """Tell whether files of the build context are copied."""
    return any(
        each.name in ("ADD", "COPY")
        and not any(word.startswith("--from=") for word in words(each.text))
        for each in instructions(text)
    )


def bases(text: str, arguments: Mapping[str, str]) -> tuple[str, ...]:
    """Return the images that a build with these arguments begins with or copies from. Raises
    DockerfileError."""
    file = read_dockerfile(text)
    variables: dict[str, str | None] = {}
    stages: set[str] = set()
    found: list[str] = []
    begun = False
    for each in file.instructions:
        if each.name == "ARG" and not begun:
            variables |= declared(each, file.escape, arguments, variables.get)
        elif each.name == "FROM":
            begun = True
            base, name = stage(each, file.escape, variables.get)
            found += [base] if base.lower() not in stages and base != SCRATCH else []
            stages.add(name)
        elif each.name == "COPY":
            sources = [
                word.removeprefix("--from=")
                for word in words(each.text)
                if word.startswith("--from=")
            ]
            found += [
                source
                for source in sources
                if source.lower() not in stages and not source.isdecimal()
            ]
    return tuple(dict.fromkeys(found))


def words(text: str) -> list[str]:
    """Split a text into words where the engine knows no quotes."""
    return _BETWEEN.split(text) if text else []


def first_word(text: str) -> tuple[str, str]:
    """Split off the first word."""
    first, *rest = _BETWEEN.split(text, maxsplit=1)
    return first, "".join(rest)


def quoted_words(text: str, escape: str) -> list[str]:
    """Split a text into words in which quotes and escapes hide a space; they are kept."""
    found: list[str] = []
    word = ""
    quote = ""
    at = 0
    while at < len(text):
        each = text[at]
        if not quote and each in SPACES:
            found += [word] if word else []
            word = ""
        elif each == escape and quote != "'":
            word += text[at : at + 2] if at + 1 < len(text) else ""
            at += 1
        else:
            if each in "\"'":
                quote = "" if quote == each else quote or each
            word += each
        at += 1
    return [*found, word] if word else found


def texts(each: Instruction, text: str) -> list[str] | None:
    """Return the elements of an array in JSON; None if the text is not one.

    Raises DockerfileError if an element is not text, or not a text that a program can be given.
    """
    if not text.startswith("["):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    except RecursionError as error:
        raise each.refuse("it is nested too deeply") from error
    if not all(isinstance(one, str) for one in found):
        raise each.refuse("an element is not text")
    if any("\0" in one or (not one.isascii() and _is_broken(one)) for one in found):
        raise each.refuse("an element contains a character that programs cannot be given")
    return list(found)


def pairs(each: Instruction, escape: str, value_of: Lookup) -> dict[str, str]:
    """Return what ENV and LABEL set, in either of their two forms. Raises DockerfileError."""
    text = each.flags()[1]
    found = quoted_words(text, escape)
    if not found:
        raise each.refuse("it sets nothing")
    if "=" in found[0]:
        parts = [word.partition("=") for word in found]
    else:
        name, value = first_word(text)
        parts = [(name, "=" if value else "", value)]
    if not all(sign for _, sign, _ in parts):
        raise each.refuse("it is not of the form NAME=VALUE")
    return {
        expand(each, name, escape, value_of): expand(each, value, escape, value_of)
        for name, _, value in parts
    }


def declared(
    each: Instruction, escape: str, given: Mapping[str, str], value_of: Lookup
) -> dict[str, str | None]:
    """Return the variables that an ARG declares: as they are given, or else by default. Raises
    DockerfileError."""
    found: dict[str, str | None] = {}
    for word in quoted_words(each.flags()[1], escape):
        name, sign, value = word.partition("=")
        if _VARIABLE.fullmatch(name) is None:
            raise each.refuse(f"{one_line(name, 40)} is not the name of a variable")
        found[name] = given.get(name, expand(each, value, escape, value_of) if sign else None)
    return found


def stage(each: Instruction, escape: str, value_of: Lookup) -> tuple[str, str]:
    """Return what a stage begins with, and its name in small letters, empty if it has none. Raises
    DockerfileError."""
    base, *named = words(each.flags("platform")[1]) or [""]
    name = named[1].lower() if len(named) == 2 and named[0].lower() == "as" else ""
    if named and (_STAGE.fullmatch(name) is None or name == SCRATCH):
        raise each.refuse("it is not of the form FROM IMAGE AS NAME")
    expanded = expand(each, base, escape, value_of)
    if not expanded:
        raise each.refuse("the image it begins with has no name")
    return expanded, name


def expand(each: Instruction, word: str, escape: str, value_of: Lookup) -> str:
    """Put in the values of variables, and take away quotes and escapes. Raises DockerfileError."""
    try:
        return _Expansion(each, word, escape, value_of).up_to("")
    except RecursionError as error:
        raise each.refuse("its variables are nested too deeply") from error


class _Expansion:
    """One word on its way through the rules of variables; `_at` is the next character."""

    def __init__(self, each: Instruction, word: str, escape: str, value_of: Lookup) -> None:
        self._each = each
        self._word = word
        self._escape = escape
        self._value_of = value_of
        self._at = 0
        if "\ufeff" in word:
            raise each.refuse("it contains a byte order mark")

    def up_to(self, end: str) -> str:
        """Return the text before `end`, which is passed; empty: the end of the word. Raises
        DockerfileError."""
        found = ""
        while self._at < len(self._word):
            match self._next():
                case each if each == end:
                    return found
                case "$":
                    found += self._variable()
                case "'":
                    found += self._single()
                case '"':
                    found += self._double()
                case each if each == self._escape:
                    found += self._next() if self._at < len(self._word) else ""
                case each:
                    found += each
        if end:
            raise self._each.refuse(f"{end} is missing")
        return found

    def _next(self) -> str:
        self._at += 1
        return self._word[self._at - 1]

    def _single(self) -> str:
        end = self._word.find("'", self._at)
        if end < 0:
            raise self._each.refuse("a quote is not closed")
        found = self._word[self._at : end]
        self._at = end + 1
        return found

    def _double(self) -> str:
        found = ""
        while self._at < len(self._word):
            match self._next():
                case '"':
                    return found
                case "$":
                    found += self._variable()
                case each if each == self._escape and self._word[self._at : self._at + 1] in (
                    '"',
                    "$",
                    self._escape,
                ):
                    found += self._next()
                case each:
                    found += each
        raise self._each.refuse("a quote is not closed")

    def _variable(self) -> str:
        braced = self._word.startswith("{", self._at)
        self._at += braced
        named = _NAME.match(self._word, self._at)
        if named is None:
            if braced or self._word[self._at : self._at + 1] in (*_SPECIAL,):
                raise self._each.refuse("it has a variable that is not supported")
            return "$"
        if _VARIABLE.fullmatch(named[0]) is None:
            raise self._each.refuse(f"${one_line(named[0], 40)} is not supported")
        self._at = named.end()
        value = self._value_of(named[0]) or ""
        if not braced:
            return value
        kind = self._word[self._at : self._at + 2]
        if kind.startswith("}"):
            self._at += 1
            return value
        if kind not in (":-", ":+", ":?"):
            raise self._each.refuse(f"${{{named[0]}{one_line(kind, 2)}…}} is not supported")
        self._at += 2
        other = self.up_to("}")
        if kind == ":?" and not value:
            raise self._each.refuse(f"{named[0]} has no value")
        return (
            (other if value else "") if kind == ":+" else value or (other if kind == ":-" else "")
        )


def _escape(lines: list[str]) -> str:
    """Return the escape character that the directives at the top choose. Raises DockerfileError."""
    seen: dict[str, str] = {}
    for line in lines:
        match = _DIRECTIVE.fullmatch(line.strip(SPACES))
        key = match["key"].lower() if match is not None else ""
        if match is None or key not in ("escape", "syntax"):
            break
        if key in seen or (key == "escape" and match["value"] not in ("\\", "`")):
            raise DockerfileError(
                f"{one_line(line, 60)}: it is not a directive that can be followed"
            )
        seen[key] = match["value"]
    return seen.get("escape", "\\")


def _instruction(pieces: list[str]) -> Iterator[Instruction]:
    line = "".join(pieces).strip(SPACES)
    if not line:
        return
    name, text = first_word(line)
    text = text.strip(SPACES)
    name = name.upper() if name.isascii() else name
    yield Instruction(name, text, _joined(name, pieces))


def _joined(name: str, pieces: list[str]) -> str:
    """Join the lines of an instruction with one space wherever they have any."""
    line = pieces[0]
    for piece in pieces[1:]:
        spaced = line[-1:] in SPACES or piece[:1] in SPACES
        line = f"{line.rstrip(SPACES)} {piece.lstrip(SPACES)}" if spaced else line + piece
    text = first_word(line.strip(SPACES))[1].strip(SPACES)
    return f"{name} {text}" if text else name


def _is_broken(text: str) -> bool:
    """Tell whether the text has half a character, as an escape of JSON can."""
    return any("\ud800" <= each <= "\udfff" for each in text)
