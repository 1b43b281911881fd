"""What is wrong with one document of a tool file, each thing with its file, line and key."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from codeagent.core.toolbox import ToolProblem
from codeagent.tools.source import ToolFile
from codeagent.tools.sources.template_text import Flaw
from codeagent.tools.sources.yaml_model import ParameterFields, PathRules, RestrictionFields, ToolFields
from codeagent.tools.sources.yaml_text import Document, Path
from codeagent.tools.wording import kind_of, quoted, text_or_json

_SHAPES = {
    "string_type": "a text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


class YamlReport:
    """Collects problems; the order is that of the lines."""

    def __init__(self, file: ToolFile, document: Document) -> None:
        self._shown = file.shown
        self._lines = file.content.decode("utf-8", "replace").split("\n")
        self._document = document
        self._found: dict[tuple[int, str, str], ToolProblem] = {}

    @property
    def problems(self) -> tuple[ToolProblem, ...]:
        return tuple(self._found[key] for key in sorted(self._found, key=lambda key: key[0]))

    @property
    def has_errors(self) -> bool:
        return any(problem.level == "error" for problem in self._found.values())

    def where(self, path: Path) -> str:
        return f"{self._shown}:{self._document.line(path)}"

    def error(self, path: Path, text: str, *, source: str = "") -> None:
        """`source` is what to look for in the lines below the key, to point at the very line."""
        self._add(path, text, source, warning=False)

    def warn(self, path: Path, text: str, *, source: str = "") -> None:
        self._add(path, text, source, warning=True)

    def flaw(self, path: Path, flaw: Flaw) -> None:
        self._add((*path, *flaw.at), flaw.text, flaw.source, warning=flaw.warning)

    def invalid(self, path: Path, error: ErrorDetails) -> None:
        """What pydantic found below the path."""
        own = tuple(error["loc"])
        if error["type"] == "missing":
            self.error((*path, *own[:-1]), f"{own[-1]} is missing")
            return
        self.error((*path, *own), _phrase(error, own))

    def _add(self, path: Path, text: str, source: str, *, warning: bool) -> None:
        line = self._line(path, source)
        key = _written(path)
        where = f"{self._shown}:{line}: {key}" if key else f"{self._shown}:{line}"
        self._found.setdefault((line, key, text), ToolProblem(where, text, "warning" if warning else "error"))

    def _line(self, path: Path, source: str) -> int:
        first = self._document.line(path)
        if not source:
            return first
        return next((n for n in range(first, len(self._lines) + 1) if source in self._lines[n - 1]), first)


def _written(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _phrase(error: ErrorDetails, path: tuple[int | str, ...]) -> str:
    context: Mapping[str, Any] = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            return "no such key" + _nearest(path)
        case "literal_error":
            return f"write {_unquoted(str(context['expected']))}, not {quoted(text_or_json(error['input']))}"
        case "string_pattern_mismatch" if path[-1:] == ("name",):
            most = "letters, digits, _ or -" + (", and no digit or - first" if len(path) > 1 else "")
            return f"{quoted(str(error['input']))} is no name; use 1 to 64 {most}"
        case "value_error":
            return error["msg"].removeprefix("Value error, ")
        case "too_short" | "string_too_short":
            return "it is empty"
        case kind if kind in _SHAPES:
            plain = isinstance(error["input"], bool | int | float)
            hint = "; put it in quotes" if kind == "string_type" and plain else ""
            return f"{_SHAPES[kind]} is expected, not {kind_of(error['input'])}{hint}"
        case _:
            message = re.sub(r"^(?:Input|String|List) ", "it ", error["msg"])
            return message[:1].lower() + message[1:]


def _unquoted(expected: str) -> str:
    return expected.replace("'", "")


def _nearest(path: tuple[int | str, ...]) -> str:
    sections: dict[str, type[BaseModel]] = {
        "parameters": ParameterFields, "restrictions": RestrictionFields, "paths": PathRules,
    }  # fmt: skip
    names = [part for part in path[:-1] if isinstance(part, str)]
    section = sections.get(names[-1], ToolFields) if names else ToolFields
    known = [field.alias or name for name, field in section.model_fields.items()]
    near = get_close_matches(str(path[-1]), known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
