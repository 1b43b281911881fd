"""Remarks about a workflow that is converted, and the translation of its placeholders."""

import re
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any, Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import one_line
from codeagent.core.yaml_text import Path, YamlDocument
from codeagent.tools.faults import nearest_or_all

Weight = Literal["note", "missing", "wrong"]
"""`missing`: it has no counterpart here, so the result does something else; `wrong`: it cannot be
converted at all."""
NO_COUNTERPART = "no counterpart here"
_THEIRS = frozenset(
    {
        "capture",
        "continue_on_error",
        "conversation",
        "dir",
        "hooks",
        "initial_prompt",
        "mcp_proxy",
        "post_hook",
        "pre_hook",
        "prompt_file",
        "retry",
        "role",
        "skills",
        "system_prompt",
        "transitions",
    }
)
"""Keys that a workflow may have: no other spelling is suggested for them."""
_BRACES = re.compile(r"\{\{(?!\{)(?:(?!\{\{).)*?\}\}", re.DOTALL)
"""The innermost ones: those that a recipe would fill."""
_NAMED = re.compile(
    r"\{\{-?\s*\.?(?P<kind>[A-Za-z_]\w*)\.(?P<name>[\w-]+)(?:\.(?P<part>[\w.-]+))?\s*-?\}\}",
    re.ASCII,
)
_WHOLE_TEXT = frozenset({"output", "response"})


@dataclass(frozen=True)
class WorkflowRemark:
    """One thing about the file that the user has to know."""

    line: int
    key: str
    """Where, as `steps[0].options`; empty for the whole."""
    text: str
    weight: Weight


@dataclass
class Remarks:
    """Collects the remarks about one document."""

    document: YamlDocument
    found: list[WorkflowRemark] = field(default_factory=list)

    @property
    def by_line(self) -> tuple[WorkflowRemark, ...]:
        return tuple(sorted(dict.fromkeys(self.found), key=lambda one: one.line))

    def note(self, path: Path, text: str) -> None:
        self._add(path, text, "note")

    def missing(self, path: Path, text: str = "") -> None:
        self._add(path, f"{NO_COUNTERPART}: {text}" if text else NO_COUNTERPART, "missing")

    def wrong(self, path: Path, text: str) -> None:
        self._add(path, text, "wrong")

    def rest(
        self,
        path: Path,
        value: Mapping[str, Any],
        read: Collection[str],
        harmless: Mapping[str, str],
    ) -> None:
        """Remark on every key of a mapping that was not `read`; `harmless` says why some of them
        are not needed."""
        for key in (key for key in value if key not in read):
            if key in harmless:
                self.note((*path, key), f"{NO_COUNTERPART}: {harmless[key]}")
                continue
            meant = "" if key in _THEIRS else nearest_or_all(key, [*read, *harmless], most=1)
            self.missing(
                (*path, key), meant.removeprefix("; ") if meant.startswith("; did") else ""
            )

    def _add(self, path: Path, text: str, weight: Weight) -> None:
        key = "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in path
        ).removeprefix(".")
        self.found.append(
            WorkflowRemark(self.document.line(path), one_line(key, 100), text, weight)
        )


@dataclass(frozen=True)
class Names:
    """What placeholders may name at one place of a workflow."""

    steps: Collection[str] = ()
    """The steps before this one that are steps of the recipe."""
    arguments: Collection[str] = ()
    used: set[str] = field(default_factory=set)
    """The inputs that placeholders named so far."""

    def translated(self, text: str, path: Path, remarks: Remarks) -> str:
        """Return the text with our placeholders; one without a counterpart stays, with a remark."""

        def fill(found: re.Match[str]) -> str:
            named = _NAMED.fullmatch(found[0])
            parts = {} if named is None else named.groupdict()
            name = parts.get("name", "")
            part = parts.get("part")
            match parts.get("kind"):
                case "inputs" if part is None:
                    self.used.add(name)
                    return f"{{{{inputs.{name}}}}}"
                case "args" if part is None and name in self.arguments:
                    return f"{{{{args.{name}}}}}"
                case "states" if name in self.steps and str(part).lower() in _WHOLE_TEXT:
                    return f"{{{{steps.{name}.text}}}}"
                case _:
                    remarks.missing(path, f"{one_line(found[0], 60)} stays as it is")
                    return found[0]

        return _BRACES.sub(fill, text)
