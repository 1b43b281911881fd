"""The template of `command:`, a line for bash in which values never become syntax.

Each value is assigned to a variable before the line, and its placeholder becomes a quoted reference
to that variable. A placeholder stands plain, in "…" or in '…'; anything else is refused, with the
line as it should be.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from tree_sitter import Node

from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import one_line
from codeagent.extensions.user_tools.evaluation import RUN_AS_CODE
from codeagent.extensions.user_tools.shell_script import Script, ScriptWord, Span
from codeagent.extensions.user_tools.templates import (
    Parameters,
    Placeholder,
    Values,
    flaws_of_names,
    placeholders,
    refuse_dash,
    take_text,
    text_of,
    texts_of,
)
from codeagent.tools.files.report import Flaw

Quoting = Literal["plain", "double", "single", "arithmetic"]

_QUOTED: dict[str, Quoting] = {
    "string_content": "double",
    "string": "double",
    "raw_string": "single",
}
_READ_AS = frozenset({"word", "command_name", "variable_name", "extglob_pattern", *_QUOTED})
_RESERVED = frozenset({"in", "do", "done", "esac", "fi", "then", "else", "elif"})
_WRITTEN: dict[Quoting, tuple[str, Callable[[str], str]]] = {
    "plain": ('"${NAME}"', lambda text: f"'{text}'" if text in _RESERVED else shlex.quote(text)),
    "double": ("${NAME}", lambda text: re.sub(r'([\\"$`])', r"\\\1", text)),
    "single": ("'\"${NAME}\"'", lambda text: text.replace("'", "'\\''")),
    "arithmetic": ("(${NAME})", str),
}
"""How a placeholder is written inside each kind of quotes: as a reference to its variable, and as
the value."""
_MARK = re.compile(r"<<-?[ \t]*(\S+)")
"""The end mark of a here-document."""
_LONGEST_SHOWN = 200
_NOT_TEXT = "the shell would not read it as text"


@dataclass(frozen=True)
class _Slot:
    """One placeholder of a line, and the reference in its place."""

    found: Placeholder
    quoting: Quoting = "plain"
    refused: str = ""
    """Why it cannot be where it is, with the line as it should be; empty if it can."""
    written: Span = (0, 0)
    """The reference with its quotes, in the script."""
    word: ScriptWord = ScriptWord()
    leads: bool = False
    """Its word, or the value of a variable, begins with it, so a program may take it for an
    option."""
    warning: str = ""


class ShellTemplate:
    """The author's line for bash, with a reference in place of each placeholder."""

    def __init__(
        self, text: str, parameters: Parameters, held: frozenset[str] = frozenset()
    ) -> None:
        """`held` are environment variables that contain a value. Call `render` and `command_line`
        only if `flaws` has no errors."""
        self._source = text
        self._parameters = parameters
        known = [one for one in placeholders(text) if one.name in parameters]
        self._variables = _variables(text, [one.name for one in known])
        self._text, slots = self._with_references(_quoted(text, known))
        numbers = [slot.written for slot in slots if slot.quoting == "arithmetic"]
        names = frozenset(self._variables.values())
        self._script = Script(self._text, held | names, numbers)
        self._slots = [self._placed(slot, slots) for slot in slots]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._variables)

    def flaws(self) -> tuple[Flaw, ...]:
        flaws = list(flaws_of_names(self._source, list(self._parameters)))
        if "\0" in self._source:
            flaws.append(Flaw("a command cannot contain a NUL character"))
        elsewhere: list[Flaw] = []
        against = [(slot, list(self._why_not(slot))) for slot in self._slots]
        misplaced = any(slot.refused for slot in self._slots)
        for (start, end), why in () if misplaced else self._script.refusals():
            about = [one for one in against if start <= one[0].written[0] < end]
            for slot, said in about:
                said.append(why + self._as_argument(slot) if why.startswith(RUN_AS_CODE) else why)
            if not about:
                elsewhere.append(Flaw(f"a value could get there: {why}"))
        for slot, reasons in against:
            source = slot.found.source
            flaws += [Flaw(f"{source} is not allowed here: {why}", source) for why in reasons]
            if slot.warning:
                flaws.append(Flaw(slot.warning, source, warning=True))
        if all(flaw.warning for flaw in flaws) and take_text(self._parameters):
            flaws += elsewhere
        return tuple(dict.fromkeys(flaws))

    def render(self, values: Values) -> str:
        """Return the script for bash. Raises InvalidArgs for a value that would be taken for an
        option."""
        self._refuse_dashes(values)
        used = [name for name in self._variables if name in values]
        assigned = [f"{self._variables[name]}={self._assigned(name, values)}\n" for name in used]
        return "".join(assigned) + self._filled(
            values, lambda slot: self._text[slot.written[0] : slot.written[1]]
        )

    def command_line(self, values: Values) -> str:
        """Return the line with its values, as rules see it; it is never run."""
        return self._filled(values, lambda slot: _literal(slot, values))

    def _with_references(self, slots: Sequence[_Slot]) -> tuple[str, list[_Slot]]:
        """Return the script, with a reference in place of each placeholder that may be there."""
        text, at = "", 0
        written: list[_Slot] = []
        for slot in slots:
            text += self._source[at : slot.found.start]
            start, at = len(text), slot.found.end
            text += slot.found.source if slot.refused else self._reference(slot)
            written.append(replace(slot, written=(start, len(text))))
        return text + self._source[at:], written

    def _reference(self, slot: _Slot) -> str:
        listed = "[@]" if self._parameters[slot.found.name].type == "array" else ""
        variable = self._variables[slot.found.name] + listed
        return _WRITTEN[slot.quoting][0].replace("NAME", variable)

    def _placed(self, slot: _Slot, slots: Sequence[_Slot]) -> _Slot:
        """Return the slot with its word in the script."""
        if slot.refused or self._script.unread:
            return slot
        start, end = slot.written
        reference = self._text[start:end]
        span = start + reference.index("$"), start + reference.rindex("}") + 1
        if not self._script.reads(span, self._variables[slot.found.name]):
            return replace(slot, refused=_NOT_TEXT)
        word = self._script.word_of(span)
        before = self._text[word.span[0] : start]
        for other in reversed([one for one in slots if word.span[0] <= one.written[0] < start]):
            cut = [at - word.span[0] for at in other.written]
            before = before[: cut[0]] + before[cut[1] :]
        fixed = re.sub(r"['\"\\]|\$(?=['\"])", "", before)
        warning = self._script.warning_about(span)
        return replace(slot, word=word, leads=not (word.guarded or fixed), warning=warning)

    def _why_not(self, slot: _Slot) -> Iterator[str]:
        """Return why the place is wrong for this parameter, as phrases."""
        parameter = self._parameters[slot.found.name]
        if slot.refused:
            yield slot.refused
            return
        if slot.quoting == "arithmetic" and parameter.type not in ("integer", "boolean"):
            yield "arithmetic evaluates what it is given; only a parameter of type integer is safe in it"
        if parameter.type == "array" and slot.word.span != slot.written:
            yield "a list must be a word of its own, without quotes, to become one argument for each item"
        if parameter.may_be_missing and not slot.word.drops:
            yield "its argument cannot be left out if it is missing; give it a default"

    def _as_argument(self, slot: _Slot) -> str:
        """Say how the line gives the value to a shell's code in '…' that has one placeholder."""
        (start, end), (begin, stop) = slot.written, slot.word.span
        rest = self._text[end:stop]
        if slot.quoting != "single" or rest.count("$") or self._text[begin:start].count("${arg_"):
            return ""
        behind = self._source[slot.found.end + len(rest) :]
        line = f'{self._source[: slot.found.start]}"$1"{rest} _ {slot.found.source}{behind}'
        return f": {_shown(line)}"

    def _filled(self, values: Values, written: Callable[[_Slot], str]) -> str:
        """Return the script with each slot as written; a slot without a value, or its droppable
        word, is left out."""
        edits: list[tuple[int, int, str]] = []
        for slot in self._slots:
            given = slot.found.name in values
            if slot.word.drops and not given:
                edits.append((*slot.word.span, ""))
            edits.append((*slot.written, written(slot) if given else ""))
        out, at = "", 0
        for start, end, text in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
            if start < at:
                continue
            out += self._text[at:start] + text
            at = end
        return out + self._text[at:]

    def _assigned(self, name: str, values: Values) -> str:
        value = values[name]
        if isinstance(value, list):
            return f"({' '.join(map(shlex.quote, texts_of(value)))})"
        if any(slot.quoting == "arithmetic" for slot in self._slots if slot.found.name == name):
            return str(int(value))
        return shlex.quote(text_of(value))

    def _refuse_dashes(self, values: Values) -> None:
        """Raise InvalidArgs if the first non-empty value of a word begins with a dash."""
        begun: set[Span] = set()
        for slot in self._slots:
            if not slot.leads or slot.found.name not in values or slot.word.span in begun:
                continue
            texts = texts_of(values[slot.found.name])
            for text in texts:
                refuse_dash(self._parameters[slot.found.name], text)
            if any(texts):
                begun.add(slot.word.span)


def _quoted(text: str, known: Sequence[Placeholder]) -> list[_Slot]:
    """Return a slot for each placeholder outside comments, as bash would read a word in its
    place."""
    letters = list(text)
    for one in known:
        letters[one.start : one.end] = "Z" * (one.end - one.start)
    outline = Script("".join(letters))
    if outline.unread:
        return [_Slot(one, refused=outline.unread) for one in known]
    slots: list[_Slot] = []
    for one in known:
        leaf = outline.leaf_at((one.start, one.end))
        if leaf.type == "comment":
            continue
        why = _misplaced(leaf, text, one)
        plain: Quoting = "arithmetic" if _in_plain_arithmetic(leaf) else "plain"
        slots.append(_Slot(one, _QUOTED.get(leaf.type, plain), why))
    return slots


def _misplaced(leaf: Node, text: str, found: Placeholder) -> str:
    """Return why the placeholder cannot be there, with the line as it should be; empty if it
    can."""
    before = text[text.rfind("\n", 0, found.start) + 1 : found.start]
    after = text[found.end :].partition("\n")[0]
    source, around = found.source, [parent.type for parent in _parents(leaf)]
    slashes = len(before) - len(before.rstrip("\\"))
    match leaf.type:
        case _ if "expansion" in around:
            why = "inside ${…} it would be evaluated"
            return _in_a_variable(found, f"{before}NAME{after}", why)
        case "raw_string":
            return ""
        case "ansi_c_string":
            why, line = "$'…' would read it as escapes", f"{before}'{source}$'{after}"
        case "variable_name" if "simple_expansion" in around[:1] and leaf.start_byte < found.start:
            own = text[leaf.start_byte : found.start]
            why = "it would become part of the variable's name"
            line = f"{before.removesuffix(f'${own}')}${{{own}}}{source}{after}"
        case _ if slashes % 2:
            why, line = "a backslash before it removes its quotes", f"{before[:-1]}{source}{after}"
        case _ if before.endswith("$") and not before.endswith("\\$"):
            why = "a dollar sign before it would make it an expansion"
            line = f"{before[:-1]}\\${source}{after}"
        case "regex":
            why = "it would be a pattern, not text"
            return _in_a_variable(found, f'{before}"NAME"{after}', why)
        case "heredoc_start" | "heredoc_end":
            return "it would be the end mark of a here-document; write the mark out"
        case kind if kind not in _READ_AS:
            mark = _MARK.findall(text[: found.start]) or ["the"]
            quoted = "; remove the quotes from its mark" if mark[-1][0] in "'\"\\" else ""
            why = f"a here-document does not quote it{quoted}"
            return _in_a_variable(found, f"{before}NAME{after}", why)
        case _:
            return ""
    return f"{why}; write {_shown(line)}"


def _in_a_variable(found: Placeholder, line: str, why: str) -> str:
    """Say that the placeholder is to be assigned on a line before; `line` has `NAME` in its
    place."""
    name = found.name.replace("-", "_")
    here = _shown(line.replace("NAME", f"${{{name}}}"))
    return f"{why}; write {name}={found.source} on a line before it, and here {here}"


def _shown(line: str) -> str:
    return one_line(line.strip(), _LONGEST_SHOWN)


def _parents(leaf: Node) -> Iterator[Node]:
    node = leaf
    while (parent := node.parent) is not None:
        yield parent
        node = parent


def _in_plain_arithmetic(leaf: Node) -> bool:
    inner = {"binary_expression", "unary_expression", "parenthesized_expression"}
    node = next((one for one in _parents(leaf) if one.type not in inner), leaf)
    return node.type == "arithmetic_expansion" and (node.text or b"").startswith(b"$((")


def _literal(slot: _Slot, values: Values) -> str:
    """Return the value itself, in the author's quotes."""
    value = values[slot.found.name]
    if isinstance(value, list):
        return shlex.join(texts_of(value))
    return _WRITTEN[slot.quoting][1](text_of(value))


def _variables(text: str, names: list[str]) -> dict[str, str]:
    """Return, for each parameter, a variable that the line does not use."""
    out: dict[str, str] = {}
    for name in dict.fromkeys(names):
        variable = "arg_" + name.replace("-", "_")
        while variable in out.values() or re.search(rf"\b{variable}\b", text):
            variable += "_"
        out[name] = variable
    return out
