"""Placeholders and their values, and the template of `argv:`, in which each becomes one argument
without a shell."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.patterns import HOLE
from codeagent.core.tool import InvalidArgs
from codeagent.extensions.user_tools.evaluation import (
    TemplateWord,
    is_behind_dashes,
    refusals,
    warning_about,
)
from codeagent.extensions.user_tools.shell_script import in_code
from codeagent.tools.faults import nearest_or_all
from codeagent.tools.files.report import Flaw

_PLACEHOLDER = re.compile(r"\{\{\s*(?:args|inputs)\.(?P<name>[A-Za-z_][A-Za-z0-9_-]*)\s*\}\}")
_MEANT = re.compile(r"\{\{\s*(?P<what>[A-Za-z_][\w.-]*)\s*\}\}")
_NUMBERS = frozenset({"integer", "number", "boolean"})
Item = str | list[str]
"""One text, or several that are left out together."""
Values = Mapping[str, Any]
"""The arguments of a call by name, without those that are missing or null."""


@dataclass(frozen=True)
class Parameter:
    """What a template needs to know about a parameter."""

    name: str
    type: str
    """The type as in JSON Schema, or `path`."""
    may_be_missing: bool = False
    """It is optional and has no default."""
    allow_dash: bool = False


Parameters = Mapping[str, Parameter]


@dataclass(frozen=True)
class Placeholder:
    name: str
    start: int
    """Its position, in characters from the beginning of the text."""
    end: int
    source: str
    """The placeholder as written in the file."""


def placeholders(text: str) -> tuple[Placeholder, ...]:
    return tuple(
        Placeholder(match["name"], match.start(), match.end(), match[0])
        for match in _PLACEHOLDER.finditer(text)
    )


def flaws_of_names(text: str, known: list[str]) -> Iterator[Flaw]:
    """Return flaws for unknown placeholders. `{{.Name}}` and the like are text for other
    programs."""
    for match in _MEANT.finditer(text):
        inner = _PLACEHOLDER.fullmatch(match[0])
        if inner is None:
            name = match["what"].rpartition(".")[2]
            yield Flaw(f"{match[0]} is not a placeholder; write {{{{args.{name}}}}}", match[0])
        elif inner["name"] not in known:
            hint = nearest_or_all(inner["name"], known, lambda name: f"{{{{args.{name}}}}}")
            yield Flaw(f"{match[0]} does not name a parameter{hint}", match[0])


def filled(text: str, values: Values) -> str:
    """Return the text with its placeholders replaced by `values`, which has all of them."""
    return _PLACEHOLDER.sub(lambda match: text_of(values[match["name"]]), text)


def text_of(value: Any) -> str:
    """Return a value as one text: a string unchanged, anything else as JSON."""
    return (
        value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    )


def texts_of(value: Any) -> list[str]:
    """Return the texts of a list's items, or the one text of any other value."""
    return [text_of(item) for item in value] if isinstance(value, list) else [text_of(value)]


def refuse_nul(values: Values) -> None:
    """Raise InvalidArgs if a value contains a NUL, which a program's argument cannot."""
    for name, value in values.items():
        if any("\0" in text for text in texts_of(value)):
            raise InvalidArgs(
                f"argument '{name}' contains a NUL character, which cannot be passed to a program"
            )


def refuse_dash(parameter: Parameter, text: str) -> None:
    """Raise InvalidArgs if the text would be taken for an option."""
    if text.startswith("-") and not parameter.allow_dash:
        raise InvalidArgs(
            f"argument '{parameter.name}' begins with -, so the program would take it for an option: {text[:80]!r}; "
            "write it another way (./-x for a file)"
        )


def take_text(parameters: Parameters) -> bool:
    """Whether the model can write any text for one of the parameters."""
    return any(one.type not in _NUMBERS for one in parameters.values())


def _words(texts: Sequence[str]) -> list[TemplateWord]:
    return [TemplateWord(_PLACEHOLDER.sub(HOLE, text), bool(placeholders(text))) for text in texts]


class ArgvTemplate:
    """Program and arguments. A placeholder is (part of) exactly one argument; a list becomes one
    for each item."""

    def __init__(
        self, items: Sequence[Item], parameters: Parameters, held: frozenset[str] = frozenset()
    ) -> None:
        """`held` are environment variables that contain a value. Call `render` only if `flaws` has
        no errors."""
        self._groups = [[item] if isinstance(item, str) else item for item in items]
        self._parameters = parameters
        self._held = held
        self._flat = [text for group in self._groups for text in group]
        self._words = _words(self._flat)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(found.name for text in self._flat for found in placeholders(text))

    def flaws(self) -> tuple[Flaw, ...]:
        places = [
            (number,) if len(group) == 1 else (number, inner)
            for number, group in enumerate(self._groups)
            for inner in range(len(group))
        ]
        against = list(refusals(self._words, partial(in_code, self._held), fed=False))
        flaws: list[Flaw] = []
        for at, (place, text) in enumerate(zip(places, self._flat, strict=True)):
            flaws += [replace(flaw, at=place) for flaw in self._flaws_of(text)]
            for found in placeholders(text):
                about = [
                    why for index, why in against if index == at and found.name in self._parameters
                ]
                flaws += [
                    Flaw(f"{found.source} is not allowed here: {why}", found.source, place)
                    for why in about
                ]
            if self._words[at].holds and (warning := warning_about(self._words, at)):
                flaws.append(Flaw(warning, at=place, warning=True))
        if all(flaw.warning for flaw in flaws) and take_text(self._parameters):
            flaws += [
                Flaw(f"a value could get there: {why}") for index, why in against if index is None
            ]
        if not self._flat[0]:
            flaws.append(Flaw("the program name is empty", at=(0,)))
        return tuple(flaws)

    def render(self, values: Values) -> list[str]:
        """Return program and arguments. Raises InvalidArgs for a value that would be an option or
        be evaluated."""
        given = [
            group
            for group in self._groups
            if all(one.name in values for text in group for one in placeholders(text))
        ]
        texts = [text for group in given for text in group]
        words = _words(texts)
        if len(texts) < len(self._flat):
            without = next(refusals(words, partial(in_code, self._held), fed=False), None)
            if without is not None or not words:
                why = without[1] if without is not None else "no program is left to run"
                raise InvalidArgs(f"give the optional arguments as well: without them, {why}")
        return [
            item
            for at, text in enumerate(texts)
            for item in self._render(text, values, guarded=not is_behind_dashes(words, at))
        ]

    def command_line(self, values: Values) -> str:
        """Return the command as one line, for rules and for the user."""
        return shlex.join(self.render(values))

    def _flaws_of(self, text: str) -> Iterator[Flaw]:
        yield from flaws_of_names(text, list(self._parameters))
        if "\0" in text:
            yield Flaw("an argument cannot contain a NUL character")
        for found in placeholders(text):
            parameter = self._parameters.get(found.name)
            if parameter is not None and parameter.type == "array" and found.source != text:
                said = f"{found.source} is a list, which must be the whole item to become one argument for each"
                yield Flaw(said, found.source)

    def _render(self, text: str, values: Values, *, guarded: bool) -> list[str]:
        found = placeholders(text)
        if len(found) == 1 and found[0].source == text:
            out = texts_of(values[found[0].name])
            for item in out if guarded else ():
                refuse_dash(self._parameters[found[0].name], item)
            return out
        expected = 0
        for one in found if guarded else ():
            value = text_of(values[one.name])
            if one.start == expected:
                refuse_dash(self._parameters[one.name], value)
            if one.start != expected or value:
                break
            expected = one.end
        return [filled(text, values)]
