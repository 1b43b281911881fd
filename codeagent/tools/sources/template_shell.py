"""`command:` of a tool file: a line for bash in which no value ever becomes syntax.

A value is assigned to a variable in front of the line, and where its placeholder stands there is a reference to that
variable, quoted as the place needs it. Where no reference is right the template is refused.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from codeagent.tools.sources.shell_evaluation import evaluations
from codeagent.tools.sources.shell_places import Place, places_in
from codeagent.tools.sources.template_text import (
    Flaw,
    Parameters,
    Placeholder,
    Values,
    flaws_of_names,
    is_text,
    placeholders,
    refuse_dash,
    text_of,
    texts_of,
)

_RESERVED = frozenset({"in", "do", "done", "esac", "fi", "then", "else", "elif"})
_SAFE_IN_ARITHMETIC = frozenset({"integer", "boolean"})


@dataclass(frozen=True)
class _Slot:
    """One placeholder and where it stands."""

    found: Placeholder
    place: Place


class ShellTemplate:
    """The author's line, with the quoting at each placeholder known."""

    def __init__(self, text: str, parameters: Parameters) -> None:
        """Call the rest only where `flaws` has no error."""
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
                Flaw(f"{slot.found.source} cannot stand here: {why}", slot.found.source)
                for why in _why_not(slot, self._parameters)
            ]
            if slot.place.warning:
                flaws.append(Flaw(slot.place.warning, slot.found.source, warning=True))
        if all(flaw.warning for flaw in flaws) and any(map(is_text, self._parameters.values())):
            spans = [(slot.found.start, slot.found.end) for slot in self._slots]
            flaws += [Flaw(f"with values about, {what}") for what in evaluations(self._text, spans)]
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
        """Of what begins a word, the first that is not empty."""
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
    """What makes the place wrong for this parameter."""
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
        yield "where it is missing there is no argument that could be dropped; give it a default"


def _variables(text: str, names: list[str]) -> dict[str, str]:
    """Parameter → a variable that the line does not know."""
    out: dict[str, str] = {}
    for name in dict.fromkeys(names):
        variable = "arg_" + name.replace("-", "_")
        while variable in out.values() or re.search(rf"\b{variable}\b", text):
            variable += "_"
        out[name] = variable
    return out
