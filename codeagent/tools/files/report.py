"""Says what is wrong in a file: every problem at once, with its line and key, in plain words."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from codeagent.core.dataclass import dataclass
from codeagent.core.toolbox import ToolProblem
from codeagent.core.yaml_text import Path, YamlDocument
from codeagent.tools.faults import kind_of, nearest_or_all, quoted, text_or_json
from codeagent.tools.folders import ToolFile

Fields = TypeVar("Fields", bound=BaseModel)
Sections = Mapping[str, type[BaseModel]]
"""The models of nested sections by their key; the empty key is that of the whole."""
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


@dataclass(frozen=True)
class Flaw:
    """Why a text in a file cannot, or should not, be used."""

    text: str
    source: str = ""
    """The part concerned, as written in the file; empty for the whole text."""
    at: tuple[str | int, ...] = ()
    """The path below the text's own key."""
    warning: bool = False


class YamlReport:
    """Collects the problems of one document, in the order of the lines."""

    def __init__(self, file: ToolFile, document: YamlDocument) -> None:
        self.shown = file.shown
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
        return f"{self.shown}:{self._document.line(path)}"

    def error(self, path: Path, text: str, *, source: str = "") -> None:
        """`source` is text to look for in the lines below the key, to find the exact line."""
        self._add(path, text, source, warning=False)

    def warn(self, path: Path, text: str, *, source: str = "") -> None:
        self._add(path, text, source, warning=True)

    def flaw(self, path: Path, flaw: Flaw) -> None:
        self._add((*path, *flaw.at), flaw.text, flaw.source, warning=flaw.warning)

    def _add(self, path: Path, text: str, source: str, *, warning: bool) -> None:
        line = self._line(path, source)
        key = _written(path)
        where = f"{self.shown}:{line}: {key}" if key else f"{self.shown}:{line}"
        self._found.setdefault(
            (line, key, text), ToolProblem(where, text, "warning" if warning else "error")
        )

    def _line(self, path: Path, source: str) -> int:
        first = self._document.line(path)
        if not source:
            return first
        return next(
            (n for n in range(first, len(self._lines) + 1) if source in self._lines[n - 1]), first
        )


def _written(path: Path) -> str:
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in path
    ).removeprefix(".")


def validated(
    model: type[Fields], value: Any, report: YamlReport, sections: Sections, path: Path = ()
) -> Fields | None:
    """Return the value at the path as the model; None if it is not valid, with every problem
    reported."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            _report_invalid(details, path, report, sections)
        return None


def _report_invalid(
    error: ErrorDetails, path: Path, report: YamlReport, sections: Sections
) -> None:
    """Report an error that pydantic found at or below the path."""
    own = tuple(error["loc"])
    if error["type"] == "missing":
        report.error((*path, *own[:-1]), f"{own[-1]} is missing")
    else:
        report.error((*path, *own), _phrase(error, own, sections))


def _phrase(error: ErrorDetails, path: tuple[int | str, ...], sections: Sections) -> str:
    context: Mapping[str, Any] = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            return "no such key" + _nearest(path, sections)
        case "literal_error":
            wanted = str(context["expected"]).replace("'", "")
            return f"write {wanted}, not {quoted(text_or_json(error['input']))}"
        case "string_pattern_mismatch" if path[-1:] == ("name",):
            most = "letters, digits, _ or -" + (
                ", and no digit or - first" if len(path) > 1 else ""
            )
            return f"{quoted(str(error['input']))} is not a name; use 1 to 64 {most}"
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


def _nearest(path: tuple[int | str, ...], sections: Sections) -> str:
    names = [part for part in path[:-1] if isinstance(part, str)]
    section = sections.get(names[-1], sections[""]) if names else sections[""]
    known = [field.alias or name for name, field in section.model_fields.items()]
    return nearest_or_all(str(path[-1]), known, most=1)
