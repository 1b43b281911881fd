"""Converts the tools that a workflow declares into tools of a tool file."""

import posixpath
from collections.abc import Collection, Mapping
from typing import Any

from codeagent.core.notes import SHELL
from codeagent.core.recipes import leads_inside
from codeagent.core.sanitize import one_line
from codeagent.core.yaml_text import Path
from codeagent.extensions.recipes.workflows.remarks import Names, Remarks
from codeagent.tools.faults import kind_of, nearest_or_all

BUILT_IN = {
    "shell": "bash",
    "read_file": "read",
    "write_file": "write",
    "http_request": "http_request",
    "Bash": "bash",
    "Read": "read",
    "Write": "write",
    "Edit": "edit",
    "Grep": "search",
}
"""Our tools by the names of AWF's."""
_RENAMED: Mapping[str, str] = {SHELL: f"run_{SHELL}"}
"""Names that no tool may have here, and those they get."""
_NO_EFFECT = {"version": "for readers", "tags": "for readers"}
_AUTO = "in a project's file, auto asks as prompt does; a rule of yours can allow it"


class ToolMaker:
    """Converts the tools of one workflow."""

    def __init__(self, known: Collection[str], remarks: Remarks, used: set[str]) -> None:
        """`known` are our built-in tools; the inputs that a tool names go into `used`."""
        self._known = known
        self._remarks = remarks
        self._used = used
        self.names: dict[str, str] = {}
        """What a step may list, and what each is called here."""
        self.of_paths: set[str] = set()
        """The inputs that a restriction to paths names."""

    def make_all(self, declared: Any) -> list[dict[str, Any]]:
        """Return the tools; `names` then also has AWF's built-in ones that are not declared."""
        made = []
        if declared is not None and not isinstance(declared, list):
            self._remarks.wrong(("tools",), f"a list of tools is expected, not {kind_of(declared)}")
            declared = []
        for at, value in enumerate(declared or ()):
            path: Path = ("tools", at)
            if not isinstance(value, dict) or not isinstance(value.get("name"), str):
                self._remarks.wrong(path, "a tool is a mapping with a name")
                continue
            if value["name"] in self.names:
                self._remarks.wrong(
                    (*path, "name"), f"there is another tool {one_line(value['name'], 60)}"
                )
                continue
            name: str = _RENAMED.get(value["name"], value["name"])
            if name in self.names.values():
                self._remarks.wrong((*path, "name"), f"there is another tool {one_line(name, 60)}")
            elif name != value["name"]:
                said = f"{value['name']} is the name of the user's own commands here: the tool is called {name}"
                self._remarks.note((*path, "name"), said)
            self.names[value["name"]] = name
            made.append(self._make(value, path))
        for theirs, ours in BUILT_IN.items():
            self.names.setdefault(theirs, ours)
        return made

    def _make(self, value: Mapping[str, Any], path: Path) -> dict[str, Any]:
        name = value["name"]
        parameters = self._parameters(value, path)
        arguments = [one.get("name") for one in parameters]
        names = Names(arguments=[one for one in arguments if isinstance(one, str)], used=self._used)
        made: dict[str, Any] = {"name": self.names[name]}
        read = {
            "name",
            "builtin",
            "description",
            "approval",
            "restrictions",
            "parameters",
            "timeout",
            "max_calls",
        }
        if value.get("builtin", False) is not False:
            made |= self._builtin(value, path)
        elif isinstance(value.get("command"), str):
            read |= {"command", "env"}
            made["command"] = names.translated(value["command"], (*path, "command"), self._remarks)
            if isinstance(value.get("env"), dict):
                made["env"] = {
                    key: names.translated(str(text), (*path, "env", key), self._remarks)
                    for key, text in value["env"].items()
                }
            if not value.get("description"):
                said = (
                    "it has no description, by which a model chooses a tool: add one to this file"
                )
                self._remarks.wrong(path, said)
        else:
            self._remarks.wrong(path, "a tool is builtin: true, or has a command, which is text")
        if (
            isinstance(folder := value.get("dir"), str)
            and "command" in made
            and leads_inside(folder)
        ):
            read.add("dir")
            made["cwd"] = folder
        made |= {
            key: value[key]
            for key in ("description", "approval", "timeout", "max_calls")
            if key in value
        }
        if value.get("approval") == "auto" and "command" in made:
            self._remarks.note((*path, "approval"), _AUTO)
        if parameters:
            made["parameters"] = parameters
        made |= self._restrictions(value, path, of_command="command" in made)
        self._remarks.rest(path, value, read, _NO_EFFECT)
        return made

    def _builtin(self, value: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """Return which of our tools it is."""
        given = value["builtin"]
        if given is not True and not isinstance(given, str):
            self._remarks.wrong((*path, "builtin"), f"write true, not {one_line(str(given), 40)}")
        named = given if isinstance(given, str) else value["name"]
        ours = BUILT_IN.get(named, named if named in self._known else None)
        if ours is None:
            hint = nearest_or_all(named, [*BUILT_IN, *self._known], most=1)
            self._remarks.wrong(
                (*path, "builtin"), f"{one_line(named, 60)} is not a built-in tool{hint}"
            )
            return {}
        if ours == value["name"]:
            said = (
                f"it takes the place of {ours} in every run in this project, not only in the recipe"
            )
            self._remarks.note((*path, "builtin"), said)
        return {"builtin": True if ours == value["name"] else ours}

    def _parameters(self, value: Mapping[str, Any], path: Path) -> list[dict[str, Any]]:
        given = value.get("parameters")
        if given is None:
            return []
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            self._remarks.wrong(
                (*path, "parameters"), "a list of parameters, each a mapping, is expected"
            )
            return []
        made = []
        for at, one in enumerate(given):
            kept = {
                key: one[key] for key in ("name", "type", "description", "default") if key in one
            }
            if "default" not in one and not one.get("required", False):
                kept["required"] = False
            self._remarks.rest((*path, "parameters", at), one, (*kept, "required"), {})
            made.append(kept)
        return made

    def _restrictions(
        self, value: Mapping[str, Any], path: Path, *, of_command: bool
    ) -> dict[str, Any]:
        given = value.get("restrictions")
        here = (*path, "restrictions")
        if given is None:
            return {}
        if not isinstance(given, dict):
            self._remarks.wrong(here, f"a mapping is expected, not {kind_of(given)}")
            return {}
        made: dict[str, Any] = {}
        network: dict[str, Any] = {}
        for key in ("paths", "commands", "hosts"):
            if (texts := given.get(key)) is None:
                continue
            if (
                not isinstance(texts, list)
                or not texts
                or not all(isinstance(one, str) for one in texts)
            ):
                self._remarks.wrong((*here, key), "a list of texts is expected")
                continue
            names = Names(used=self._used)
            kept = [names.translated(one, (*here, key), self._remarks) for one in texts]
            if key == "paths":
                kept = [self._glob(one, (*here, key)) for one in kept]
                self.of_paths |= names.used
            if key == "hosts" and of_command:
                network["network"] = kept
                continue
            made[key] = kept
        self._remarks.rest(here, given, ("paths", "commands", "hosts"), {})
        return network | ({"restrictions": made} if made else {})

    def _glob(self, text: str, path: Path) -> str:
        """Return a glob relative to the workspace."""
        if text.startswith(("/", "~")):
            self._remarks.wrong(
                path, f"{one_line(text, 60)} is outside the workspace: write it relative to that"
            )
        return text if text.startswith("{{") else posixpath.normpath(text)
