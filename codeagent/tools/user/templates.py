"""The templates of YAML tools: `argv:` without a shell, and `command:` for bash, in which no value becomes syntax.

In a `command:` each value is assigned to a variable in front of the line, and its placeholder becomes a reference to
that variable, quoted as the place needs it. Where no reference is right the template is refused.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from codeagent.tools.user.evaluation import evaluated_by, evaluations
from codeagent.tools.user.placeholders import (
    Flaw,
    Parameter,
    Parameters,
    Placeholder,
    TemplateWord,
    Values,
    filled,
    flaws_of_names,
    is_behind_dashes,
    is_text,
    placeholders,
    reason_against,
    refuse_dash,
    text_of,
    texts_of,
    warning_about,
    without_placeholders,
)
from codeagent.tools.user.shell_places import ShellPlace, places_in

Item = str | list[str]
"""One text, or several that are dropped together."""
_RESERVED = frozenset({"in", "do", "done", "esac", "fi", "then", "else", "elif"})
_SAFE_IN_ARITHMETIC = frozenset({"integer", "boolean"})


class ArgvTemplate:
    """Program and arguments. A placeholder is (part of) exactly one argument; a list alone is one for each item."""

    def __init__(self, items: Sequence[Item], parameters: Parameters) -> None:
        """Call `render` only if `flaws` holds no error."""
        self._groups = [[item] if isinstance(item, str) else item for item in items]
        self._parameters = parameters
        self._flat = [text for group in self._groups for text in group]
        self._words = [_word(text) for text in self._flat]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(found.name for text in self._flat for found in placeholders(text))

    def flaws(self) -> tuple[Flaw, ...]:
        flaws: list[Flaw] = []
        at = -1
        for number, group in enumerate(self._groups):
            for inner, text in enumerate(group):
                at += 1
                place = (number,) if len(group) == 1 else (number, inner)
                flaws += [Flaw(flaw.text, flaw.source, place) for flaw in self._flaws_of(text, at)]
                if self._words[at].holds and (warning := warning_about(self._words, at)):
                    flaws.append(Flaw(warning, at=place, warning=True))
        if all(flaw.warning for flaw in flaws) and any(map(is_text, self._parameters.values())):
            flaws += [Flaw(f"a value could get there: {what}") for what in evaluated_by(self._words, fed=False)]
        if not self._flat[0]:
            flaws.append(Flaw("the program's name is empty", at=(0,)))
        return tuple(flaws)

    def render(self, values: Values) -> list[str]:
        """Program and arguments. Raises InvalidArgs for a value that would be taken for an option."""
        out: list[str] = []
        at = -1
        for group in self._groups:
            rendered: list[str] = []
            dropped = False
            for text in group:
                at += 1
                found = placeholders(text)
                dropped = dropped or any(one.name not in values for one in found)
                if not dropped:
                    rendered += self._render(text, found, values, guarded=not is_behind_dashes(self._words, at))
            out += [] if dropped else rendered
        return out

    def command_line(self, values: Values) -> str:
        """The command as one line, for rules and for the user."""
        return shlex.join(self.render(values))

    def _flaws_of(self, text: str, at: int) -> list[Flaw]:
        flaws = list(flaws_of_names(text, list(self._parameters)))
        if "\0" in text:
            flaws.append(Flaw("an argument cannot hold a NUL character"))
        for found in placeholders(text):
            if found.name not in self._parameters:
                continue
            if (reason := reason_against(self._words, at)) is not None:
                flaws.append(Flaw(f"{found.source} is not allowed here: {reason}", found.source))
            if self._parameters[found.name].type == "array" and not _is_alone(text, found):
                flaws.append(
                    Flaw(f"{found.source} is a list, which must be the whole item to become one for each", found.source)
                )
        return flaws

    def _render(self, text: str, found: tuple[Placeholder, ...], values: Values, *, guarded: bool) -> list[str]:
        if not found:
            return [text]
        if len(found) == 1 and _is_alone(text, found[0]):
            parameter = self._parameters[found[0].name]
            alone = texts_of(values[parameter.name])
            for item in alone if guarded and not parameter.allow_dash else ():
                refuse_dash(parameter.name, item)
            return alone
        if guarded:
            refuse_leading_dash([(self._parameters[one.name], one.start) for one in found], text, values)
        return [filled(text, values)]


def refuse_leading_dash(found: Sequence[tuple[Parameter, int]], text: str, values: Values) -> None:
    """Raises InvalidArgs if the first placeholder at the start of an item that is not empty begins with a dash."""
    ends = {one.start: one.end for one in placeholders(text)}
    expected = 0
    for parameter, start in found:
        value = text_of(values[parameter.name])
        if start != expected:
            return
        if value:
            if not parameter.allow_dash:
                refuse_dash(parameter.name, value)
            return
        expected = ends[start]


def _is_alone(text: str, found: Placeholder) -> bool:
    return found.start == 0 and found.end == len(text)


def _word(text: str) -> TemplateWord:
    return TemplateWord(without_placeholders(text), holds=bool(placeholders(text)))


@dataclass(frozen=True)
class _Slot:
    """One placeholder and its place."""

    found: Placeholder
    place: ShellPlace


class ShellTemplate:
    """The author's line, with the place of each placeholder."""

    def __init__(self, text: str, parameters: Parameters) -> None:
        """Call `render` and `command_line` only if `flaws` holds no error."""
        self._text = text
        self._parameters = parameters
        known = [one for one in placeholders(text) if one.name in parameters]
        self._places = places_in(text, [(one.start, one.end) for one in known])
        self._slots = [_Slot(found, place) for found, place in zip(known, self._places, strict=True)]
        self._variables = _variables(text, [one.name for one in known])

    @property
    def names(self) -> frozenset[str]:
        return frozenset(slot.found.name for slot in self._slots)

    def flaws(self) -> tuple[Flaw, ...]:
        flaws = list(flaws_of_names(self._text, list(self._parameters)))
        if "\0" in self._text:
            flaws.append(Flaw("a command cannot hold a NUL character"))
        for slot in self._slots:
            flaws += [
                Flaw(f"{slot.found.source} is not allowed here: {why}", slot.found.source)
                for why in _why_not(slot, self._parameters)
            ]
            if slot.place.warning:
                flaws.append(Flaw(slot.place.warning, slot.found.source, warning=True))
        if all(flaw.warning for flaw in flaws) and any(map(is_text, self._parameters.values())):
            spans = [(slot.found.start, slot.found.end) for slot in self._slots]
            flaws += [Flaw(f"a value could get there: {what}") for what in evaluations(self._text, spans)]
        return tuple(dict.fromkeys(flaws))

    def render(self, values: Values) -> str:
        """The script for bash. Raises InvalidArgs for a value that would be taken for an option."""
        self._refuse_dashes(values)
        used = [name for name in self._variables if name in values]
        assigned = [f"{self._variables[name]}={self._assigned(name, values)}\n" for name in used]
        return "".join(assigned) + self._filled(values, self._reference)

    def command_line(self, values: Values) -> str:
        """The line with the values in it, as rules see it; never run."""
        return self._filled(values, _literal)

    def _filled(self, values: Values, written: Callable[[_Slot, Values], str]) -> str:
        dropped = [slot.place.word for slot in self._slots if slot.place.drops and slot.found.name not in values]
        out, at = "", 0
        for start, end, slot in self._edits(dropped):
            if start < at:
                continue
            out += self._text[at:start]
            if slot is not None and slot.found.name in values:
                out += written(slot, values)
            at = end
        return out + self._text[at:]

    def _edits(self, dropped: list[tuple[int, int]]) -> Iterator[tuple[int, int, _Slot | None]]:
        edits: list[tuple[int, int, _Slot | None]] = [(start, end, None) for start, end in dropped]
        for slot in self._slots:
            edits.append((slot.found.start, slot.found.end, slot))
        yield from sorted(edits, key=lambda edit: (edit[0], -edit[1]))

    def _reference(self, slot: _Slot, values: Values) -> str:
        variable = self._variables[slot.found.name]
        if isinstance(values[slot.found.name], list):
            return f'"${{{variable}[@]}}"'
        match slot.place.quoting:
            case "bare":
                return f'"${{{variable}}}"'
            case "double" | "document":
                return f"${{{variable}}}"
            case "single":
                return f"'\"${{{variable}}}\"'"
            case "ansi":
                return f"'\"${{{variable}}}\"$'"
            case "arithmetic":
                return f"(${{{variable}}})"
            case "comment":
                return ""

    def _assigned(self, name: str, values: Values) -> str:
        value = values[name]
        if isinstance(value, list):
            return f"({' '.join(map(shlex.quote, texts_of(value)))})"
        if any(slot.place.quoting == "arithmetic" for slot in self._slots if slot.found.name == name):
            return str(int(value))
        return shlex.quote(text_of(value))

    def _refuse_dashes(self, values: Values) -> None:
        """Raises InvalidArgs if the first value of a word that is not empty begins with a dash."""
        words: dict[tuple[int, int], list[_Slot]] = {}
        for slot in self._slots:
            if slot.place.leads and slot.found.name in values:
                words.setdefault(slot.place.word, []).append(slot)
        for slots in words.values():
            for slot in slots:
                texts = texts_of(values[slot.found.name])
                if not self._parameters[slot.found.name].allow_dash:
                    for text in texts:
                        refuse_dash(slot.found.name, text)
                if any(texts):
                    break


def _literal(slot: _Slot, values: Values) -> str:
    """The value itself, in the author's quotes."""
    value = values[slot.found.name]
    if isinstance(value, list):
        return shlex.join(texts_of(value))
    text = text_of(value)
    match slot.place.quoting:
        case "bare":
            return f"'{text}'" if text in _RESERVED else shlex.quote(text)
        case "double" | "document":
            return re.sub(r'([\\"$`])', r"\\\1", text)
        case "single":
            return text.replace("'", "'\\''")
        case "ansi":
            return text.replace("\\", "\\\\").replace("'", "\\'")
        case "arithmetic":
            return text
        case "comment":
            return ""


def _why_not(slot: _Slot, parameters: Parameters) -> Iterator[str]:
    """Why the place is wrong for this parameter, as phrases."""
    place, parameter = slot.place, parameters[slot.found.name]
    if place.refused:
        yield place.refused
        return
    if place.quoting == "comment":
        return
    if place.quoting == "arithmetic" and parameter.type not in _SAFE_IN_ARITHMETIC:
        yield "arithmetic evaluates what it is given; only a parameter of type integer is safe in it"
    if parameter.type == "array" and not place.whole:
        yield "a list must be a word of its own, without quotes, to become one argument for each item"
    if parameter.may_be_missing and not place.drops:
        yield "there is no argument that could be dropped if it is missing; give it a default"


def _variables(text: str, names: list[str]) -> dict[str, str]:
    """For each parameter a variable that the line does not use."""
    out: dict[str, str] = {}
    for name in dict.fromkeys(names):
        variable = "arg_" + name.replace("-", "_")
        while variable in out.values() or re.search(rf"\b{variable}\b", text):
            variable += "_"
        out[name] = variable
    return out
