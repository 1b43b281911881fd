"""Converts a workflow of AWF into a recipe and a tool file; nothing in it is run, and nothing is
written."""

from collections.abc import Collection, Mapping
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.recipes import NAME, RESERVED
from codeagent.core.sanitize import one_line
from codeagent.core.yaml_text import Path, Unreadable, documents
from codeagent.extensions.recipes.workflows.remarks import NO_COUNTERPART, Remarks, WorkflowRemark
from codeagent.extensions.recipes.workflows.steps import StepMaker, steps_of
from codeagent.extensions.recipes.workflows.tools import ToolMaker
from codeagent.tools.faults import kind_of
from codeagent.tools.files.workflows import is_workflow
from codeagent.tools.folders import ToolFile

_KEYS = ("name", "version", "description", "inputs", "tools", "steps", "states")
_NO_EFFECT = {
    "author": "for readers",
    "tags": "for readers",
    "outputs": "what a run returns is the answer of its last step",
}
_CHECKS = "the value is not checked here; the model, or a tool, sees what the user gave"
_INPUT_TYPES = ("string", "integer", "number", "boolean", "path")
_WIDTH = 100


@dataclass(frozen=True)
class Conversion:
    """What a workflow becomes."""

    name: str
    """Of the recipe, and of both files."""
    recipe: str
    """The text of its file; empty if there is nothing to show."""
    tools: str
    """The text of the tool file; empty if it has no tools of its own."""
    remarks: tuple[WorkflowRemark, ...]
    """In the order of the lines."""

    def weighs(self, weight: str) -> bool:
        return any(one.weight == weight for one in self.remarks)


def convert(file: ToolFile, builtin: Collection[str], name: str | None = None) -> Conversion:
    """Convert a file. `builtin` are our built-in tools; `name` is that of the recipe instead of the
    file's.

    Raises Unreadable, with the line, if the file is not YAML or not a workflow.
    """
    found = documents(file.content)
    if len(found) != 1 or not is_workflow(found[0].value):
        raise Unreadable(
            1,
            "it is not a workflow of AWF, which has states, or steps with type, provider or options",
        )
    value = found[0].value
    remarks = Remarks(found[0])
    used: set[str] = set()
    tool_maker = ToolMaker(builtin, remarks, used)
    tools = tool_maker.make_all(value.get("tools"))
    of_tools = sorted(used)
    maker = StepMaker(tool_maker.names, remarks, used, lists_tools="tools" in value)
    steps = [made for step in steps_of(value, remarks) if (made := maker.make(step)) is not None]
    if not steps:
        remarks.wrong((), "none of its steps can be a step of a recipe")
    remarks.rest((), value, _KEYS, _NO_EFFECT)
    inputs = _inputs(value.get("inputs"), used, tool_maker.of_paths, remarks)
    name = _name(value, name, remarks)
    head: dict[str, Any] = {"name": name}
    head |= {
        key: str(value[key]) for key in ("version", "description") if value.get(key) is not None
    }
    recipe = head | ({"inputs": inputs} if inputs else {}) | {"steps": steps}
    shared = [one for one in inputs if one["name"] in of_tools]
    own = {"name": name} | ({"inputs": shared} if shared else {}) | {"tools": tools}
    return Conversion(
        name, as_yaml(recipe) if steps else "", as_yaml(own) if tools else "", remarks.by_line
    )


def _name(value: Mapping[str, Any], given: str | None, remarks: Remarks) -> str:
    name = value.get("name") if given is None else given
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        said = "a recipe needs a name of 1 to 64 letters, digits, _ or -"
        remarks.wrong(("name",), f"{said}, not {one_line(str(name), 60)!r}: give one with --name")
    elif name.lower() in RESERVED:
        remarks.wrong(
            ("name",), f"/{name.lower()} is built in: give the recipe another name with --name"
        )
    return str(name)


def _inputs(
    given: Any, used: Collection[str], of_paths: Collection[str], remarks: Remarks
) -> list[dict[str, Any]]:
    """Return the inputs that are declared, in a list or by name, and those that are only used."""
    declared: list[tuple[Path, Any, Any]] = []
    match given:
        case None:
            pass
        case dict():
            declared = [(("inputs", name), name, one) for name, one in given.items()]
        case list():
            pairs = ((at, one if isinstance(one, dict) else {}) for at, one in enumerate(given))
            declared = [(("inputs", at), one.get("name"), one) for at, one in pairs]
        case _:
            remarks.wrong(("inputs",), f"a list or a mapping is expected, not {kind_of(given)}")
    made = {}
    for path, name, one in declared:
        if not isinstance(name, str) or not isinstance(one, dict | None):
            remarks.wrong(path, "an input has a name, and is a mapping")
        elif name in made:
            remarks.wrong(path, f"there is another input {one_line(name, 60)}")
        else:
            made[name] = _input(name, one or {}, path, remarks)
    for name in sorted(set(used) - made.keys()):
        remarks.note(
            (),
            f"{{{{inputs.{name}}}}} is used and not declared: it becomes an input, a required text",
        )
        made[name] = {"name": name}
    for name in of_paths:
        if made[name].get("type", "string") == "string":
            made[name]["type"] = "path"
            remarks.note(
                (), f"the input {name} is of type path, because a restriction to paths uses it"
            )
    return list(made.values())


def _input(name: str, value: Mapping[str, Any], path: Path, remarks: Remarks) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name}
    kind = value.get("type", "string")
    if kind not in _INPUT_TYPES:
        remarks.wrong(
            (*path, "type"),
            f"{one_line(str(kind), 40)} is not a type; there are {', '.join(_INPUT_TYPES)}",
        )
    elif kind != "string":
        made["type"] = kind
    rules = value.get("validation")
    choices = rules.get("enum") if isinstance(rules, dict) else None
    is_choice = (
        isinstance(choices, list) and bool(choices) and all(isinstance(one, str) for one in choices)
    )
    if kind == "string" and is_choice:
        made |= {"type": "choice", "choices": choices}
    for key in rules if isinstance(rules, dict) else ():
        if key != "enum" or "choices" not in made:
            remarks.note((*path, "validation", key), f"{NO_COUNTERPART}: {_CHECKS}")
    if value.get("default") is not None:
        made["default"] = value["default"]
    elif not value.get("required", False):
        made["required"] = False
    if value.get("description"):
        made["description"] = str(value["description"])
    remarks.rest(
        path, value, ("name", "type", "required", "default", "description", "validation"), {}
    )
    return made


def as_yaml(value: Any) -> str:
    """Return plain values as YAML that looks written by hand: in their order, texts of several
    lines as blocks."""
    import yaml  # heavy, and only needed to write

    class Writer(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(writer: Any, data: str) -> Any:
        plain = data.replace("\n", "").isprintable()
        style = '"' if not plain else "|" if "\n" in data else None
        return writer.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Writer.add_representer(str, text)
    dumped: str = yaml.dump(value, Dumper=Writer, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return dumped
