"""`argv:` of a tool file: program and arguments, which no shell sees."""

import shlex
from collections.abc import Sequence

from codeagent.tools.sources.shell_evaluation import evaluated_by
from codeagent.tools.sources.template_places import Word, is_behind_dashes, reason_against, warning_about
from codeagent.tools.sources.template_text import (
    Flaw,
    Parameter,
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

Item = str | list[str]
"""A text, or several that are dropped together."""


class ArgvTemplate:
    """Each placeholder is (part of) exactly one argument; a list that stands alone is one for each of its items."""

    def __init__(self, items: Sequence[Item], parameters: Parameters) -> None:
        """Call `render` only where there is no flaw that is an error."""
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
            flaws += [Flaw(f"with values about, {what}") for what in evaluated_by(self._words, fed=False)]
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
        """As a person reads it."""
        return shlex.join(self.render(values))

    def _flaws_of(self, text: str, at: int) -> list[Flaw]:
        flaws = list(flaws_of_names(text, list(self._parameters)))
        if "\0" in text:
            flaws.append(Flaw("an argument cannot hold a NUL character"))
        for found in placeholders(text):
            if found.name not in self._parameters:
                continue
            if (reason := reason_against(self._words, at)) is not None:
                flaws.append(Flaw(f"{found.source} cannot stand here: {reason}", found.source))
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
        out, at = "", 0
        for one in found:
            out += text[at : one.start] + text_of(values[one.name])
            at = one.end
        return [out + text[at:]]


def refuse_leading_dash(found: Sequence[tuple[Parameter, int]], text: str, values: Values) -> None:
    """Of an item that begins with placeholders: the first of them that is not empty. Raises InvalidArgs."""
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


def _word(text: str) -> Word:
    fixed, at = "", 0
    found = placeholders(text)
    for one in found:
        fixed += text[at : one.start]
        at = one.end
    return Word(fixed + text[at:], holds=bool(found))
