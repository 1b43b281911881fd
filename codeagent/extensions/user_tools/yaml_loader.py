"""Loads YAML tool files and reports every error at once, each with file, line and
key."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from codeagent.core.recipes import RecipeInput
from codeagent.core.tool import Tool
from codeagent.core.toolbox import ToolProblem
from codeagent.core.yaml_text import Path, Unreadable, YamlDocument, documents
from codeagent.extensions.user_tools.restrictions import (
    PATHS,
    Restrictions,
    ToolInputs,
    check_builtin_restrictions,
    check_commands,
    check_inputs,
    check_paths,
    reachable_hosts,
)
from codeagent.extensions.user_tools.shell_script import DECIDES
from codeagent.extensions.user_tools.shell_template import ShellTemplate
from codeagent.extensions.user_tools.templates import (
    ArgvTemplate,
    Parameter,
    Parameters,
    flaws_of_names,
    placeholders,
)
from codeagent.extensions.user_tools.yaml_model import (
    FILE_SECTIONS,
    MOST_TOOLS,
    SECTIONS,
    VARIABLE_NAME,
    FileFields,
    ToolFields,
    ToolsetFields,
    narrowed_arguments,
    own_arguments,
)
from codeagent.extensions.user_tools.yaml_tools import BuiltinTool, CommandTool
from codeagent.tools.faults import kind_of, nearest_or_all
from codeagent.tools.files.fields import declared_inputs
from codeagent.tools.files.lint import lint
from codeagent.tools.files.report import YamlReport, validated
from codeagent.tools.files.workflows import import_hint, is_workflow
from codeagent.tools.folders import Loaded, LoaderNeeds, ToolFile
from codeagent.tools.grouping import ToolGroup

_TIMEOUT = 120.0
_FOUND_BY_NAME = frozenset({"info", "toolset_use", "watch_channel"})
"""Tools whose results are looked up by name in the log of a resumed session."""
_BUILTIN_KEY = re.compile(r"\bbuiltin[\"']?\s*:")
_NAMES = re.compile(r"\bname[\"']?\s*:\s*[\"']?([A-Za-z0-9_-]+)")


class YamlLoader:
    """Loads `.yaml` and `.yml` files."""

    def __init__(self, needs: LoaderNeeds) -> None:
        self._needs = needs
        self._builtins = needs.builtins()

    @property
    def suffixes(self) -> tuple[str, ...]:
        return (".yaml", ".yml")

    def load(self, file: ToolFile) -> Loaded:
        try:
            found = documents(file.content)
        except Unreadable as error:
            text = file.content.decode("utf-8", "replace")
            mentioned = _NAMES.findall(text) if _BUILTIN_KEY.search(text) else []
            return self._broken((ToolProblem(f"{file.shown}:{error.line}", str(error)),), mentioned)
        if not found:
            return Loaded(
                (), (ToolProblem(f"{file.shown}:1", "it does not define a tool", "warning"),)
            )
        tools: list[Tool[Any]] = []
        problems: list[ToolProblem] = []
        names: dict[str, str] = {}
        groups: list[ToolGroup] = []
        for document in found:
            report = YamlReport(file, document)
            entries, shared, defined = _entries(document, report)
            groups += defined
            for path, value in entries:
                tool = self._tool(file, path, value, shared, report)
                if tool is None:
                    continue
                if tool.name in names:
                    report.error(
                        (*path, "name"), f"{names[tool.name]} already has a tool named {tool.name}"
                    )
                names.setdefault(tool.name, tool.origin)
                tools.append(tool)
            problems += report.problems
        if any(problem.level == "error" for problem in problems):
            return self._broken(
                problems, (name for document in found for name in _narrowed_names(document.value))
            )
        return Loaded(
            tuple(tools),
            (
                *problems,
                *(
                    one
                    for tool in tools
                    if tool.in_place_of is None
                    for one in lint(tool, tool.origin)
                ),
            ),
            groups=tuple(groups),
        )

    def _broken(self, problems: Iterable[ToolProblem], named: Iterable[str]) -> Loaded:
        """Return the result for a file with errors: its problems, and which of the tools `named`
        are built in."""
        names = dict.fromkeys(named)
        return Loaded(
            (), tuple(problems), unnarrowed=tuple(name for name in names if name in self._builtins)
        )

    def _tool(
        self,
        file: ToolFile,
        path: Path,
        value: Any,
        shared: tuple[RecipeInput, ...],
        report: YamlReport,
    ) -> Tool[Any] | None:
        """Make a tool; None if there is an error. `shared` are the inputs of the file."""
        if not isinstance(value, dict):
            report.error(path, f"a tool is a mapping, not {kind_of(value)}")
            return None
        fields = validated(ToolFields, value, report, SECTIONS, path)
        if fields is None:
            _check_names(value, shared, path, report)
            return None
        every = (*shared, *declared_inputs(fields.inputs, (*path, "inputs"), report))
        declared = tuple(replace(one, root=self._needs.root) for one in every)
        check_inputs(fields, declared, path, report)
        inputs = ToolInputs(declared, self._needs.inputs)
        make = self._command if fields.builtin is None else self._builtin
        tool = make(file, fields, inputs, path, report)
        return None if report.has_errors else tool

    def _command(
        self, file: ToolFile, fields: ToolFields, inputs: ToolInputs, path: Path, report: YamlReport
    ) -> Tool[Any] | None:
        if (fields.argv is None) == (fields.command is None):
            several = fields.argv is not None
            said = (
                "give argv or command, not both"
                if several
                else "give one of argv, command and builtin"
            )
            report.error((*path, "command") if several else path, said)
        if not fields.description:
            report.error(
                path, "description is missing; the model chooses tools by their description"
            )
        arguments = own_arguments(fields.parameters, (*path, "parameters"), report)
        hosts = reachable_hosts(fields, path, report)
        known = arguments.parameters | {one.name: _as_parameter(one) for one in inputs.declared}
        template = _template(fields, known, path, report)
        _check_environment(fields, known, path, report)
        _check_folder(fields, path, report)
        if template is None or report.has_errors:
            return None
        restrictions = Restrictions.of(fields, hosts)
        check_paths(fields, arguments, path, report)
        check_commands(restrictions, template, known, (*path, "restrictions", "commands"), report)
        used = template.names | {
            one.name for text in fields.env.values() for one in placeholders(text)
        }
        for at, one in enumerate(fields.parameters):
            if one.name not in used:
                report.warn((*path, "parameters", at), f"{one.name} is not used")
        origin = report.where((*path, "name"))
        tool = CommandTool(
            fields,
            arguments,
            template,
            restrictions=restrictions,
            outputs=self._needs.outputs,
            reads=self._needs.reads,
            origin=origin,
            always_ask=self._needs.always_ask,
            inputs=inputs,
        )
        tool.timeout = None if fields.mode == "background" else _TIMEOUT
        return _described(tool, file, fields, path, report)

    def _builtin(
        self, file: ToolFile, fields: ToolFields, inputs: ToolInputs, path: Path, report: YamlReport
    ) -> Tool[Any] | None:
        named = fields.name if fields.builtin is True else str(fields.builtin)
        inner = self._builtins.get(named)
        for key in ("argv", "command", "network", "cwd", "env"):
            if key in fields.model_fields_set:
                report.error((*path, key), "it cannot be combined with builtin")
        if inner is None:
            hint = nearest_or_all(named, self._builtins)
            report.error((*path, "builtin"), f"unknown built-in tool {named}{hint}")
            return None
        if inner.at_provider:
            report.error(
                (*path, "builtin"), f"{named} runs at the provider, so nothing here could narrow it"
            )
            return None
        if named in _FOUND_BY_NAME and fields.name != named:
            said = f"{named} must keep its name, by which a resumed session finds what it did: use builtin: true"
            report.error((*path, "name"), said)
            return None
        arguments = narrowed_arguments(fields.parameters, inner, (*path, "parameters"), report)
        check_builtin_restrictions(fields, inner, path, report)
        if report.has_errors:
            return None
        origin = report.where((*path, "name"))
        tool = BuiltinTool(
            fields, inner, arguments, origin=origin, paths=PATHS.get(inner.name), inputs=inputs
        )
        return _described(tool, file, fields, path, report)


def _described(
    tool: Tool[Any], file: ToolFile, fields: ToolFields, path: Path, report: YamlReport
) -> Tool[Any]:
    """Apply what the file says about the tool. A project can only tighten the approval that holds
    without it."""
    effects = fields.approval == "effects"
    if effects and (fields.network or fields.mode != "direct" or not tool.sandboxed):
        why = "only a command in the sandbox without network, and not in the background, can be tried out"
        report.error((*path, "approval"), why)
    if file.place == "project" and fields.approval == "auto" and tool.permission != "auto":
        why = "a project's file cannot allow its own tools; a rule of yours, or the file in your own folder, can"
        report.warn((*path, "approval"), why)
    elif fields.approval is not None:
        tool.tries = effects
        tool.permission = "prompt" if fields.approval == "effects" else fields.approval
    tool.label = fields.label or fields.name
    for name in ("description", "timeout", "max_calls", "hint", "documentation"):
        if said := getattr(fields, name):
            setattr(tool, name, said)
    tool.mode = fields.mode if fields.mode != "direct" else tool.mode
    tool.require_info = fields.require_info
    return tool


def _entries(
    document: YamlDocument, report: YamlReport
) -> tuple[list[tuple[Path, Any]], tuple[RecipeInput, ...], tuple[ToolGroup, ...]]:
    """Return the tools of a document, each with its path, their shared inputs, and its toolsets."""
    value = document.value
    if is_workflow(value):
        report.error((), import_hint(report.shown))
        return [], (), ()
    if isinstance(value, dict) and "steps" in value:
        report.error(("steps",), "a file with steps is a recipe: move it to .codeagent/commands")
        return [], (), ()
    if not (isinstance(value, dict) and ("tools" in value or "toolsets" in value)):
        return [((), value)], (), ()
    inputs: tuple[RecipeInput, ...] = ()
    groups: tuple[ToolGroup, ...] = ()
    if (fields := validated(FileFields, value, report, FILE_SECTIONS)) is not None:
        inputs = declared_inputs(fields.inputs, ("inputs",), report)
        groups = tuple(
            _group(one, report.where(("toolsets", at))) for at, one in enumerate(fields.toolsets)
        )
    tools = value["tools"] if isinstance(value.get("tools"), list) else []
    return [(("tools", at), item) for at, item in enumerate(tools[:MOST_TOOLS])], inputs, groups


def _group(one: ToolsetFields, origin: str) -> ToolGroup:
    return ToolGroup(
        one.name,
        one.source,
        one.about,
        tools=tuple(one.tools),
        tags=tuple(one.tags),
        paths=tuple(one.paths),
        origin=origin,
    )


def _narrowed_names(value: Any) -> Iterator[str]:
    """Yield the names of the built-in tools that the entries of a file seem to narrow, even if they
    are broken."""
    match value:
        case dict():
            named = value.get("name", value.get("builtin"))
            limited = "restrictions" in value and not value.keys() & {"argv", "command"}
            if isinstance(named, str) and ("builtin" in value or limited):
                yield named
            for inner in value.values():
                yield from _narrowed_names(inner)
        case list():
            for inner in value:
                yield from _narrowed_names(inner)


def _as_parameter(one: RecipeInput) -> Parameter:
    kind = "string" if one.type == "choice" else one.type
    return Parameter(one.name, kind, may_be_missing=not one.required and one.default is None)


def _check_names(
    value: dict[str, Any], shared: Sequence[RecipeInput], path: Path, report: YamlReport
) -> None:
    """Check the placeholders of a tool with other errors, so that everything is reported at
    once."""
    lists = [value.get("parameters", []), value.get("inputs", [])]
    if not all(isinstance(one, list) for one in lists):
        return
    every = [one.get("name") for declared in lists for one in declared if isinstance(one, dict)]
    names = [*(name for name in every if isinstance(name, str)), *(one.name for one in shared)]
    argv = value.get("argv")
    texts: list[tuple[Path, Any]] = [(("command",), value.get("command"))]
    texts += (
        [(("argv", at), item) for at, item in enumerate(argv)] if isinstance(argv, list) else []
    )
    for place, text in texts:
        for flaw in flaws_of_names(text, names) if isinstance(text, str) else ():
            report.flaw((*path, *place), flaw)


def _template(
    fields: ToolFields, parameters: Parameters, path: Path, report: YamlReport
) -> ArgvTemplate | ShellTemplate | None:
    template: ArgvTemplate | ShellTemplate
    held = frozenset(name for name, text in fields.env.items() if placeholders(text))
    if fields.argv is not None:
        template, key = ArgvTemplate(fields.argv, parameters, held), "argv"
    elif fields.command is not None:
        template, key = ShellTemplate(fields.command, parameters, held), "command"
    else:
        return None
    for flaw in template.flaws():
        report.flaw((*path, key), flaw)
    return template


def _check_environment(
    fields: ToolFields, parameters: Parameters, path: Path, report: YamlReport
) -> None:
    for name, text in fields.env.items():
        here = (*path, "env", name)
        if re.fullmatch(VARIABLE_NAME, name) is None:
            report.error(here, f"{name!r} is not the name of a variable")
        if "\0" in text:
            report.error(here, "a variable cannot contain a NUL character")
        for flaw in flaws_of_names(text, list(parameters)):
            report.flaw(here, flaw)
        if placeholders(text) and DECIDES.fullmatch(name):
            report.error(here, f"{name} controls what is run, so it must not contain an argument")


def _check_folder(fields: ToolFields, path: Path, report: YamlReport) -> None:
    if fields.cwd is None:
        return
    folder = posixpath.normpath(fields.cwd)
    if "\0" in fields.cwd or placeholders(fields.cwd):
        report.error((*path, "cwd"), "it is fixed: no placeholders")
    elif folder.startswith("/") or folder.split("/")[0] == "..":
        report.error((*path, "cwd"), "it must be a folder of the workspace, relative to its root")
