"""Placeholders in the templates of YAML tools, and the words of a command in which a value would be run."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codeagent.core.tool import InvalidArgs
from codeagent.tools.shell.programs import EVALUATE, RUN_BEHIND, SHELLS, WRAPPERS

_PLACEHOLDER = re.compile(r"\{\{\s*(?:args|inputs)\.(?P<name>[A-Za-z_][A-Za-z0-9_-]*)\s*\}\}")
_MEANT = re.compile(r"\{\{\s*(?P<what>[A-Za-z_][\w.-]*)\s*\}\}")

Values = Mapping[str, Any]
"""The arguments of a call by name; what is missing, or null, is not in it."""
_TAKE_A_VALUE = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_WRAPPER_ARGUMENT = re.compile(r"-.*|[A-Za-z_]\w*=.*|\d+(?:\.\d+)?[smhd]?", re.DOTALL)
_CODE_FLAG = {
    "perl": {"-e", "-E"}, "ruby": {"-e"}, "node": {"-e", "--eval", "-p", "--print"}, "php": {"-r"}, "lua": {"-e"},
}  # fmt: skip
_CODE_FIRST = frozenset({"awk", "gawk", "mawk", "sed", "jq", "bc"})
_PLAIN_TESTS = "= == != < > -z -n -f -d -e -s -r -w -x -L -h !"
_TEST_OPERATORS = frozenset(_PLAIN_TESTS.split())


@dataclass(frozen=True)
class Parameter:
    """What a template has to know about a parameter."""

    name: str
    type: str
    """As in JSON Schema, or `path`."""
    may_be_missing: bool = False
    """It is optional and has no default."""
    allow_dash: bool = False


def is_text(parameter: Parameter) -> bool:
    """Whether a model can write any text for it."""
    return parameter.type not in ("integer", "number", "boolean")


Parameters = Mapping[str, Parameter]


@dataclass(frozen=True)
class Placeholder:
    name: str
    start: int
    """Characters from the beginning of the text."""
    end: int
    source: str
    """The placeholder as it is written in the file."""


@dataclass(frozen=True)
class Flaw:
    """Why a template cannot be used, or why it should not."""

    text: str
    source: str = ""
    """The placeholder that it is about, as written in the file; empty for the whole template."""
    at: tuple[str | int, ...] = ()
    """Below the template's own key."""
    warning: bool = False


def placeholders(text: str) -> tuple[Placeholder, ...]:
    return tuple(
        Placeholder(match["name"], match.start(), match.end(), match[0]) for match in _PLACEHOLDER.finditer(text)
    )


def flaws_of_names(text: str, known: list[str]) -> tuple[Flaw, ...]:
    """Flaws of placeholders that name no parameter. `{{.Name}}` and the like are text for other programs."""
    flaws = []
    for match in _MEANT.finditer(text):
        inner = _PLACEHOLDER.fullmatch(match[0])
        if inner is None:
            name = match["what"].rpartition(".")[2]
            flaws.append(Flaw(f"{match[0]} is not a placeholder; write {{{{args.{name}}}}}", match[0]))
        elif inner["name"] not in known:
            from difflib import get_close_matches

            close = get_close_matches(inner["name"], known, n=1, cutoff=0.5)
            there = f"there are {', '.join(known)}" if known else "there are no parameters"
            hint = f"did you mean {{{{args.{close[0]}}}}}?" if close else there
            flaws.append(Flaw(f"{match[0]} names no parameter; {hint}", match[0]))
    return tuple(flaws)


def filled(text: str, values: Values) -> str:
    """The text with its placeholders replaced by `values`, which holds all of them."""
    return _PLACEHOLDER.sub(lambda match: text_of(values[match["name"]]), text)


def without_placeholders(text: str) -> str:
    return _PLACEHOLDER.sub("", text)


def text_of(value: Any) -> str:
    """A value as one text: a string unchanged, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def texts_of(value: Any) -> list[str]:
    """The texts of a list's items, or the one text of any other value."""
    return [text_of(item) for item in value] if isinstance(value, list) else [text_of(value)]


def refuse_nul(values: Values) -> None:
    """Raises InvalidArgs if a value holds a NUL, which no argument of a program can."""
    for name, value in values.items():
        if any("\0" in text for text in texts_of(value)):
            raise InvalidArgs(f"argument '{name}' holds a NUL character, which no program can be given")


def refuse_dash(name: str, text: str) -> None:
    """Raises InvalidArgs if the text would be taken for an option."""
    if text.startswith("-"):
        raise InvalidArgs(
            f"argument '{name}' begins with -, so the program would take it for an option: {text[:80]!r}; "
            "write it another way (./-x for a file)"
        )


@dataclass(frozen=True)
class TemplateWord:
    """One word of a command."""

    text: str
    """Without quotes and placeholders."""
    holds: bool = False
    """It holds a placeholder."""
    open: bool = False
    """It is not fixed what it will be: a variable, a pattern, a substitution. Of a path, the last part counts."""
    expands: bool = False
    """Some part of it is not fixed."""
    kept: bool = False
    """It holds a variable that the script sets, and that may hold a value."""


def reason_against(words: Sequence[TemplateWord], at: int) -> str | None:
    """Why that word must not hold a value, as a phrase that mostly begins with `it would`; None if it may."""
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
    if words[at - 1].text in RUN_BEHIND["find"] and name == "find":
        return "it would name the program that find runs"
    if name == "printf" and words[1 + inner].text.startswith("-v") and not words[1 + inner].holds and at == inner + 2:
        return "it would name a variable"
    if name == "test" and not tests_are_plain([word.text for word in words[inner + 1 :] if not word.holds]):
        return "it would be evaluated by test; only = != -z -n and tests of files are safe"
    return _as_shell_code(words, at)


def has_code(flags: Sequence[str]) -> bool:
    return any(re.fullmatch(r"-\w*c\w*", flag) for flag in flags)


def warning_about(words: Sequence[TemplateWord], at: int) -> str | None:
    """What to tell the author if the value becomes part of a program in another language."""
    inner = program_at(words)
    if at <= inner:
        return None
    name = bare(words[inner].text)
    flags = {"-c"} if re.fullmatch(r"python[\d.]*", name) else _CODE_FLAG.get(name, set())
    first = next((n for n in range(inner + 1, len(words)) if words[n].holds or not words[n].text.startswith("-")), -1)
    if words[at - 1].text in flags or (name in _CODE_FIRST and first == at):
        return f"the value becomes part of a program for {name}, which may take it for code; give it as an argument"
    return None


def is_behind_dashes(words: Sequence[TemplateWord], at: int) -> bool:
    """Whether a `--` of the program itself, not of one that runs it, comes before."""
    return any(word.text == "--" and not word.holds for word in words[program_at(words) + 1 : at])


def tests_are_plain(operators: Sequence[str]) -> bool:
    """Whether no operator of a `[` or `test` evaluates what it compares."""
    return all(text in _TEST_OPERATORS for text in operators if re.fullmatch(r"-\w+|[=!<>~]+", text))


def program_at(words: Sequence[TemplateWord]) -> int:
    """The index of the word that names the program that is finally run."""
    at = 0
    while at < len(words) and not words[at].holds and bare(words[at].text) in WRAPPERS:
        following = _behind_flags(words, at + 1)
        if following >= len(words):
            return at
        at = following
    return at


def bare(word: str) -> str:
    return word.rpartition("/")[2]


def _behind_flags(words: Sequence[TemplateWord], at: int) -> int:
    while at < len(words) and not words[at].holds and _WRAPPER_ARGUMENT.fullmatch(words[at].text):
        at += 1
    return at


def _follows_a_flags_value(words: Sequence[TemplateWord], inner: int, at: int) -> bool:
    """Whether the word before may be the value of a flag, and this one the program, as in `sudo -u root X`."""
    flagged = inner > 0 and words[inner - 1].text.startswith("-") and words[inner - 1].text != "--"
    return flagged and at == inner + 1


def _as_shell_code(words: Sequence[TemplateWord], at: int) -> str | None:
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


def shells_own(words: Sequence[TemplateWord], shell: int) -> tuple[list[str], int | None]:
    """The flags that a shell is given, and the index of the first word that is not one."""
    flags: list[str] = []
    at = shell + 1
    while at < len(words):
        word = words[at]
        if word.holds or word.open or not re.match(r"[-+]", word.text):
            return flags, at
        flags.append(word.text)
        at += 2 if word.text in _TAKE_A_VALUE and at + 1 < len(words) and not words[at + 1].holds else 1
    return flags, None
