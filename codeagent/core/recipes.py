"""Recipes: parametrised prompts of one step or several, as they are listed, given their inputs and
filled."""

import hashlib
import math
import os
import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.policy import Mode, NetworkLevel
from codeagent.core.sanitize import one_line, visible
from codeagent.core.toolbox import ToolProblem

InputType = Literal["string", "integer", "number", "boolean", "choice", "path"]
InputValue = str | int | float | bool
Values = Mapping[str, InputValue]
"""Checked inputs by name; an optional one without a default that was not given is not in it."""

_PROMISED = frozenset({"agents", "channels", "hooks", "login", "toolsets", "triggers"})
"""Commands that may be built in later."""
_BUILT_IN = Path(__file__).parent / "names" / "slash_commands.txt"
"""The slash commands that are built in, one a line; `make docs` writes it."""
RESERVED = _PROMISED | frozenset(_BUILT_IN.read_text(encoding="ascii").split())
"""The slash commands that are, or will be, built in: no recipe has such a name."""
NAME = lazy_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
ARGUMENTS = "ARGUMENTS"
"""The only input of a command that was written for `$ARGUMENTS` and `$1`: everything behind its
name."""
LONGEST_VALUE = 32 * 1024
"""Characters of one input."""
_LONGEST_TEXT = 100_000
"""Characters of a step's text in the prompt of another; the middle of a longer one is left out."""
PLACEHOLDER = lazy_regex(
    r"\{\{\s*(?:inputs\.(?P<input>[A-Za-z_][A-Za-z0-9_-]*)|steps\.(?P<step>[A-Za-z0-9_-]+)\.text)\s*\}\}"
)
_NUMBERED = lazy_regex(r"\$(?:ARGUMENTS\b|(?P<number>[1-9])(?!\d))")
_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})
_MEANS: dict[InputType, str] = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "choice": "one of its choices",
    "path": "a path in the workspace",
}


@dataclass(frozen=True)
class RecipeInput:
    """One value that the user gives; it is data wherever it gets to."""

    name: str
    type: InputType = "string"
    required: bool = True
    default: InputValue | None = None
    description: str = ""
    choices: tuple[str, ...] = ()
    """Of the type choice: all that may be given."""
    root: str = ""
    """The workspace, below which a path may also be absolute; if it is empty, only relative paths
    are accepted."""

    @property
    def means(self) -> str:
        """What is to be given, in a few words."""
        return f"one of {', '.join(self.choices)}" if self.choices else _MEANS[self.type]

    def parse(self, text: str) -> InputValue:
        """The value that was typed. Raises ConfigError, which says what would be right."""
        if len(text) > LONGEST_VALUE:
            raise ConfigError(f"{self.name} is longer than {LONGEST_VALUE:,} characters")
        wrong = f"{self.name} must be {self.means}, not {one_line(text, 60)!r}"
        match self.type:
            case "string":
                return text
            case "choice" if text in self.choices:
                return text
            case "integer" if re.fullmatch(r"[+-]?\d{1,18}", text.strip(), re.ASCII):
                return int(text)
            case "number":
                return _number(text, wrong)
            case "boolean" if text.strip().lower() in _TRUE | _FALSE:
                return text.strip().lower() in _TRUE
            case "path" if leads_inside(inside := _below(text, self.root)):
                return inside
            case _:
                raise ConfigError(wrong)


def _below(path: str, root: str) -> str:
    """Return a path below the root relative to it, and any other path as it is."""
    plain = posixpath.normpath(path)
    for base in (
        dict.fromkeys((root, os.path.realpath(root))) if root and plain.startswith("/") else ()
    ):
        if plain == base or plain.startswith(base.rstrip("/") + "/"):
            return posixpath.relpath(plain, base)
    return path


def leads_inside(path: str) -> bool:
    """Whether the path as written is relative and stays in the workspace; where links lead, the
    workspace checks."""
    plain = posixpath.normpath(path)
    return (
        bool(path)
        and "\0" not in path
        and not plain.startswith("/")
        and plain.split("/")[0] != ".."
    )


def _number(text: str, wrong: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ConfigError(wrong) from None
    if not math.isfinite(value):
        raise ConfigError(wrong)
    return value


@dataclass(frozen=True)
class StepLimits:
    """The limits of one step's run; None leaves that of the settings."""

    max_turns: int | None = None
    max_calls: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    timeout_per_call: float | None = None
    """Seconds."""
    budget: float | None = None
    """US dollars."""


@dataclass(frozen=True)
class RecipeStep:
    """One prompt, and what holds while it is worked on."""

    id: str
    prompt: str
    tools: tuple[str, ...] | None = None
    """All that may be called; None: whatever the conversation has."""
    model: str | None = None
    mode: Mode | None = None
    limits: StepLimits = StepLimits()
    network: NetworkLevel | None = None
    """Tightens the session's."""


@dataclass(frozen=True)
class Recipe:
    """One file; a prompt file has a single step."""

    name: str
    description: str
    steps: tuple[RecipeStep, ...]
    where: str
    """Its file as users write it."""
    place: Literal["user", "project"]
    inputs: tuple[RecipeInput, ...] = ()
    version: str = ""
    trusted: bool = False
    """The user's own, or the project's and trusted as it is: only then it runs."""
    numbered: bool = False
    """It has `$ARGUMENTS` and `$1`, and its input is `ARGUMENTS`."""

    @property
    def usage(self) -> str:
        """The inputs as they follow its name: `<project> [depth]`."""
        return " ".join(f"<{one.name}>" if one.required else f"[{one.name}]" for one in self.inputs)

    def missing(self, given: Iterable[str]) -> tuple[RecipeInput, ...]:
        """The required inputs that are not among those given."""
        return tuple(one for one in self.inputs if one.required and one.name not in set(given))

    def spelled(self, line: str) -> dict[str, str]:
        """What was typed behind its name, by input: as `name=value`, or by position. Raises
        ConfigError."""
        if self.numbered:
            return {ARGUMENTS: line.strip()} if line.strip() else {}
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise ConfigError(f"/{self.name}: {error}") from None
        given: dict[str, str] = {}
        names = {one.name for one in self.inputs}
        for word in words:
            name, equals, value = word.partition("=")
            if not (equals and name in names):
                name = next((one.name for one in self.inputs if one.name not in given), "")
                value = word
            if not name:
                raise ConfigError(
                    f"/{self.name} takes {self.usage or 'no inputs'}, not also {one_line(word, 40)!r}"
                )
            if name in given:
                raise ConfigError(f"/{self.name}: {name} is given twice")
            given[name] = value
        return given

    def values(self, given: Mapping[str, str]) -> dict[str, InputValue]:
        """The inputs as they are used, with defaults. Raises ConfigError that lists everything that
        is wrong."""
        return checked_values(self.inputs, given, f"the recipe {self.name} was not run:")

    def digest(self, values: Values) -> str:
        """SHA-256 (hex) over its steps and these values: a session that is resumed continues only
        with the same."""
        told = repr((self.name, self.steps, sorted(values.items())))
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()

    def prompt(self, step: RecipeStep, values: Values, texts: Mapping[str, str]) -> str:
        """The step's prompt; `texts` are those of the steps before it. What is put in is never
        looked through again."""
        if self.numbered:
            return _with_arguments(step.prompt, str(values.get(ARGUMENTS, "")))

        def fill(found: re.Match[str]) -> str:
            if (name := found["input"]) is not None:
                return said(values[name]) if name in values else ""
            return _shortened(visible(texts.get(found["step"], "")))

        return PLACEHOLDER.sub(fill, step.prompt)


def checked_values(
    inputs: Sequence[RecipeInput], given: Mapping[str, str], heading: str
) -> dict[str, InputValue]:
    """Return the inputs as they are used, with defaults.

    Raises ConfigError that lists everything that is wrong below the heading.
    """
    known = {one.name: one for one in inputs}
    wrong = [
        f"{one_line(name, 60)} is not an input{_meant(name, known)}"
        for name in given
        if name not in known
    ]
    out: dict[str, InputValue] = {}
    for one in inputs:
        if one.name in given:
            try:
                out[one.name] = one.parse(given[one.name])
            except ConfigError as error:
                wrong.append(str(error))
        elif one.required:
            about = f": {one.description}" if one.description else ""
            wrong.append(f"{one.name} is missing ({one.means}{about})")
        elif one.default is not None:
            out[one.name] = one.default
    if wrong:
        raise ConfigError("\n  ".join([heading, *wrong]))
    return out


def said(value: InputValue) -> str:
    """The value as text: control and invisible characters as escapes."""
    return visible(str(value).lower() if isinstance(value, bool) else str(value))


def _with_arguments(prompt: str, line: str) -> str:
    """The prompt with `$ARGUMENTS` and `$1` to `$9`; one that mentions neither has the arguments at
    its end."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()

    def fill(found: re.Match[str]) -> str:
        if found["number"] is None:
            return visible(line)
        at = int(found["number"]) - 1
        return visible(words[at]) if at < len(words) else ""

    if line and not _NUMBERED.search(prompt):
        return f"{prompt.rstrip()}\n\nArguments: {visible(line)}"
    return _NUMBERED.sub(fill, prompt)


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_TEXT:
        return text
    half, left_out = _LONGEST_TEXT // 2, len(text) - _LONGEST_TEXT
    return f"{text[:half]}\n[… {left_out} characters left out …]\n{text[-half:]}"


def _meant(name: str, known: Iterable[str]) -> str:
    names = list(known)
    if near := get_close_matches(name, names, n=1):
        return f"; did you mean {near[0]}?"
    return f"; there are {', '.join(names)}" if names else "; there are none"


class Recipes(Protocol):
    """The recipes there are: the user's own first, then the project's, each by name."""

    @property
    def listed(self) -> tuple[Recipe, ...]: ...

    @property
    def problems(self) -> tuple[ToolProblem, ...]:
        """An error keeps its recipe out; a warning does not."""

    @property
    def untrusted(self) -> tuple[str, ...]:
        """Files of the project that run nothing because nobody trusts them as they are now."""

    def trust(self) -> None:
        """Trust the project's recipes as they were read last, in later sessions, too. Blocks;
        raises ConfigError."""

    def distrust(self) -> None:
        """Stop trusting the project's recipes. Blocks; raises ConfigError."""


class NoRecipes:
    """The Recipes of a conversation that cannot have any."""

    listed: tuple[Recipe, ...] = ()
    problems: tuple[ToolProblem, ...] = ()
    untrusted: tuple[str, ...] = ()

    def trust(self) -> None:
        return None

    def distrust(self) -> None:
        return None


def find_recipe(recipes: Recipes, name: str) -> Recipe:
    """The recipe of that name, trusted or not. Raises ConfigError, which also names every file that
    is broken."""
    found = next((recipe for recipe in recipes.listed if recipe.name == name), None)
    if found is None:
        broken = [str(problem) for problem in recipes.problems if problem.level == "error"]
        what = f"unknown recipe {one_line(name, 64)}{_meant(name, (recipe.name for recipe in recipes.listed))}"
        raise ConfigError("\n  ".join([what, *broken]))
    return found


def require_trust(recipe: Recipe) -> None:
    """Raises ConfigError unless the recipe may run."""
    if not recipe.trusted:
        raise ConfigError(
            f"{recipe.where} comes with this project, whose recipes you have not trusted as they are now; nothing was "
            "run: read them, then codeagent recipes trust"
        )
