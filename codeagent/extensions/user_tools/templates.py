"""The templates of YAML tools: `argv:` without a shell, and `command:` for bash, in which values
never become syntax.

In a `command:` each value is assigned to a variable before the line, and its placeholder becomes a
reference to that variable, quoted as its place requires. If a reference cannot be put there, the
template is refused.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.tool import InvalidArgs
from codeagent.extensions.user_tools.evaluation import (
    TemplateWord,
    is_behind_dashes,
    refusals,
    warning_about,
)
from codeagent.extensions.user_tools.shell_script import Quoting, Script, ShellPlace, in_code
from codeagent.tools.files.report import Flaw
from codeagent.tools.schema import nearest_or_all

_PLACEHOLDER = re.compile(r"\{\{\s*(?:args|inputs)\.(?P<name>[A-Za-z_][A-Za-z0-9_-]*)\s*\}\}")
_MEANT = re.compile(r"\{\{\s*(?P<what>[A-Za-z_][\w.-]*)\s*\}\}")
_RESERVED = frozenset({"in", "do", "done", "esac", "fi", "then", "else", "elif"})
_NUMBERS = frozenset({"integer", "number", "boolean"})
_WRITTEN: dict[Quoting, tuple[str, Callable[[str], str]]] = {
    "bare": ('"${NAME}"', lambda text: f"'{text}'" if text in _RESERVED else shlex.quote(text)),
    "double": ("${NAME}", lambda text: re.sub(r'([\\"$`])', r"\\\1", text)),
    "document": ("${NAME}", lambda text: re.sub(r'([\\"$`])', r"\\\1", text)),
    "single": ("'\"${NAME}\"'", lambda text: text.replace("'", "'\\''")),
    "ansi": ("'\"${NAME}\"$'", lambda text: text.replace("\\", "\\\\").replace("'", "\\'")),
    "arithmetic": ("(${NAME})", str),
    "comment": ("", lambda text: ""),
}
"""How a placeholder is written inside each kind of quotes: as a reference to its variable, and as
the value."""
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


def _refuse_dash(parameter: Parameter, text: str) -> None:
    """Raise InvalidArgs if the text would be taken for an option."""
    if text.startswith("-") and not parameter.allow_dash:
        raise InvalidArgs(
            f"argument '{parameter.name}' begins with -, so the program would take it for an option: {text[:80]!r}; "
            "write it another way (./-x for a file)"
        )


def _take_text(parameters: Parameters) -> bool:
    """Whether the model can write any text for one of the parameters."""
    return any(one.type not in _NUMBERS for one in parameters.values())


def _words(texts: Sequence[str]) -> list[TemplateWord]:
    return [TemplateWord(_PLACEHOLDER.sub("", text), bool(placeholders(text))) for text in texts]


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
        if all(flaw.warning for flaw in flaws) and _take_text(self._parameters):
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
                why = without[1] if without is not None else "there is no program left to run"
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
                _refuse_dash(self._parameters[found[0].name], item)
            return out
        expected = 0
        for one in found if guarded else ():
            value = text_of(values[one.name])
            if one.start == expected:
                _refuse_dash(self._parameters[one.name], value)
            if one.start != expected or value:
                break
            expected = one.end
        return [filled(text, values)]


@dataclass(frozen=True)
class _Slot:
    """One placeholder and its place."""

    found: Placeholder
    place: ShellPlace


class ShellTemplate:
    """The author's line for bash, with the place of each placeholder."""

    def __init__(
        self, text: str, parameters: Parameters, held: frozenset[str] = frozenset()
    ) -> None:
        """`held`: see ArgvTemplate. Call `render` and `command_line` only if `flaws` has no
        errors."""
        self._text = text
        self._parameters = parameters
        known = [one for one in placeholders(text) if one.name in parameters]
        self._script = Script(text, [(one.start, one.end) for one in known], held=held)
        self._slots = [_Slot(one, self._script.place((one.start, one.end))) for one in known]
        self._variables = _variables(text, [one.name for one in known])

    @property
    def names(self) -> frozenset[str]:
        return frozenset(slot.found.name for slot in self._slots)

    def flaws(self) -> tuple[Flaw, ...]:
        flaws = list(flaws_of_names(self._text, list(self._parameters)))
        if "\0" in self._text:
            flaws.append(Flaw("a command cannot contain a NUL character"))
        elsewhere: list[Flaw] = []
        against: dict[_Slot, list[str]] = {
            slot: list(_why_not(slot, self._parameters)) for slot in self._slots
        }
        for (start, end), why in self._script.refusals():
            about = [
                slot
                for slot in self._slots
                if start <= slot.found.start < end and not slot.place.refused
            ]
            for slot in about:
                against[slot].append(why)
            if not about:
                elsewhere.append(Flaw(f"a value could get there: {why}"))
        for slot, reasons in against.items():
            source = slot.found.source
            flaws += [Flaw(f"{source} is not allowed here: {why}", source) for why in reasons]
            if slot.place.warning:
                flaws.append(Flaw(slot.place.warning, source, warning=True))
        if all(flaw.warning for flaw in flaws) and _take_text(self._parameters):
            flaws += elsewhere
        return tuple(dict.fromkeys(flaws))

    def render(self, values: Values) -> str:
        """Return the script for bash. Raises InvalidArgs for a value that would be taken for an
        option."""
        self._refuse_dashes(values)
        used = [name for name in self._variables if name in values]
        assigned = [f"{self._variables[name]}={self._assigned(name, values)}\n" for name in used]
        return "".join(assigned) + self._filled(values, self._reference)

    def command_line(self, values: Values) -> str:
        """Return the line with its values, as rules see it; it is never run."""
        return self._filled(values, _literal)

    def _filled(self, values: Values, written: Callable[[_Slot, Values], str]) -> str:
        """Return the text with each slot filled; a slot without a value, or its droppable word, is
        left out."""
        edits: list[tuple[int, int, _Slot | None]] = []
        for slot in self._slots:
            if slot.place.drops and slot.found.name not in values:
                edits.append((*slot.place.word, None))
            edits.append((slot.found.start, slot.found.end, slot))
        out, at = "", 0
        for start, end, one in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
            if start < at:
                continue
            out += self._text[at:start]
            out += written(one, values) if one is not None and one.found.name in values else ""
            at = end
        return out + self._text[at:]

    def _reference(self, slot: _Slot, values: Values) -> str:
        variable = self._variables[slot.found.name]
        if isinstance(values[slot.found.name], list):
            return f'"${{{variable}[@]}}"'
        return _WRITTEN[slot.place.quoting][0].replace("NAME", variable)

    def _assigned(self, name: str, values: Values) -> str:
        value = values[name]
        if isinstance(value, list):
            return f"({' '.join(map(shlex.quote, texts_of(value)))})"
        if any(
            slot.place.quoting == "arithmetic" for slot in self._slots if slot.found.name == name
        ):
            return str(int(value))
        return shlex.quote(text_of(value))

    def _refuse_dashes(self, values: Values) -> None:
        """Raise InvalidArgs if the first non-empty value of a word begins with a dash."""
        begun: set[tuple[int, int]] = set()
        for slot in self._slots:
            if not slot.place.leads or slot.found.name not in values or slot.place.word in begun:
                continue
            texts = texts_of(values[slot.found.name])
            for text in texts:
                _refuse_dash(self._parameters[slot.found.name], text)
            if any(texts):
                begun.add(slot.place.word)


def _literal(slot: _Slot, values: Values) -> str:
    """Return the value itself, in the author's quotes."""
    value = values[slot.found.name]
    if isinstance(value, list):
        return shlex.join(texts_of(value))
    return _WRITTEN[slot.place.quoting][1](text_of(value))


def _why_not(slot: _Slot, parameters: Parameters) -> Iterator[str]:
    """Return why the place is wrong for this parameter, as phrases."""
    place, parameter = slot.place, parameters[slot.found.name]
    if place.refused:
        yield place.refused
        return
    if place.quoting == "comment":
        return
    if place.quoting == "arithmetic" and parameter.type not in ("integer", "boolean"):
        yield "arithmetic evaluates what it is given; only a parameter of type integer is safe in it"
    if parameter.type == "array" and not place.whole:
        yield "a list must be a word of its own, without quotes, to become one argument for each item"
    if parameter.may_be_missing and not place.drops:
        yield "there is no argument to leave out if it is missing; give it a default"


def _variables(text: str, names: list[str]) -> dict[str, str]:
    """Return, for each parameter, a variable that the line does not use."""
    out: dict[str, str] = {}
    for name in dict.fromkeys(names):
        variable = "arg_" + name.replace("-", "_")
        while variable in out.values() or re.search(rf"\b{variable}\b", text):
            variable += "_"
        out[name] = variable
    return out
