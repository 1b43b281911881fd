"""Loads YAML tool files (FEATURES F16) and reports every error at once, each with file, line and key."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

from pydantic import ValidationError

from codeagent.core.hosts import HostRule
from codeagent.core.ports import OutputStore
from codeagent.core.recipes import RecipeInput, Values
from codeagent.core.tool import Denied, Tool
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.folders import Loaded, ToolFile
from codeagent.tools.schema import kind_of, nearest_or_all
from codeagent.tools.shell.syntax import command_key
from codeagent.tools.user.lint import lint
from codeagent.tools.user.shell_script import DECIDES
from codeagent.tools.user.templates import (
    ArgvTemplate,
    Parameter,
    Parameters,
    ShellTemplate,
    flaws_of_names,
    placeholders,
)
from codeagent.tools.user.yaml_fields import declared_inputs, report_invalid
from codeagent.tools.user.yaml_model import (
    FILE_SECTIONS,
    MOST_TOOLS,
    SECTIONS,
    VARIABLE_NAME,
    FileFields,
    RestrictionFields,
    ToolFields,
    YamlArguments,
    narrowed_arguments,
    own_arguments,
)
from codeagent.tools.user.yaml_text import Path, Unreadable, YamlDocument, YamlReport, documents
from codeagent.tools.user.yaml_tools import BuiltinTool, CommandTool, Restrictions, ToolInputs

_TIMEOUT = 120.0
_PATHS: dict[str, Literal["read", "write"]] = {
    "read": "read", "list": "read", "search": "read", "write": "write", "edit": "write",
}  # fmt: skip
"""Built-in tools with an argument `path`, and what they do with it."""
_TREES = frozenset({"list", "search"})
"""Built-in tools that go through whole folders."""


class YamlLoader:
    """Loads `.yaml` and `.yml` files."""

    def __init__(
        self,
        outputs: OutputStore,
        reads: ReadTracker,
        builtins: Mapping[str, Tool[Any]],
        *,
        always_ask: str | None = None,
        inputs: Values = MappingProxyType({}),
    ) -> None:
        """`builtins` are what `builtin:` may name. `always_ask`: as of the bash tool.

        `inputs`: at any time those of the recipe whose step is running.
        """
        self._running = inputs
        self._outputs = outputs
        self._reads = reads
        self._builtins = builtins
        self._always_ask = always_ask

    @property
    def suffixes(self) -> tuple[str, ...]:
        return (".yaml", ".yml")

    def load(self, file: ToolFile) -> Loaded:
        try:
            found = documents(file.content)
        except Unreadable as error:
            return Loaded((), (ToolProblem(f"{file.shown}:{error.line}", str(error)),))
        if not found:
            return Loaded((), (ToolProblem(f"{file.shown}:1", "it defines no tool", "warning"),))
        tools: list[Tool[Any]] = []
        problems: list[ToolProblem] = []
        names: dict[str, str] = {}
        for document in found:
            report = YamlReport(file, document)
            entries, shared = _entries(document, report)
            for path, value in entries:
                tool = self._tool(file, path, value, shared, report)
                if tool is None:
                    continue
                if tool.name in names:
                    report.error((*path, "name"), f"{names[tool.name]} already has a tool named {tool.name}")
                names.setdefault(tool.name, tool.origin)
                tools.append(tool)
            problems += report.problems
        if any(problem.level == "error" for problem in problems):
            return Loaded((), tuple(problems))
        return Loaded(
            tuple(tools),
            (*problems, *(one for tool in tools if tool.in_place_of is None for one in lint(tool, tool.origin))),
        )

    def _tool(
        self, file: ToolFile, path: Path, value: Any, shared: tuple[RecipeInput, ...], report: YamlReport
    ) -> Tool[Any] | None:
        """The tool; None if there is an error. `shared` are the inputs of the file."""
        if not isinstance(value, dict):
            report.error(path, f"a tool is a mapping, not {kind_of(value)}")
            return None
        try:
            fields = ToolFields.model_validate(value)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                report_invalid(details, path, report, SECTIONS)
            _check_names(value, shared, path, report)
            return None
        declared = (*shared, *declared_inputs(fields.inputs, (*path, "inputs"), report))
        _check_inputs(fields, declared, path, report)
        inputs = ToolInputs(declared, self._running)
        make = self._command if fields.builtin is None else self._builtin
        tool = make(file, fields, inputs, path, report)
        return None if report.has_errors else tool

    def _command(
        self, file: ToolFile, fields: ToolFields, inputs: ToolInputs, path: Path, report: YamlReport
    ) -> Tool[Any] | None:
        if (fields.argv is None) == (fields.command is None):
            several = fields.argv is not None
            said = "give argv or command, not both" if several else "give one of argv, command and builtin"
            report.error((*path, "command") if several else path, said)
        if not fields.description:
            report.error(path, "description is missing; the model chooses by the description")
        arguments = own_arguments(fields.parameters, (*path, "parameters"), report)
        hosts = _hosts(fields, path, report)
        known = arguments.parameters | {one.name: _as_parameter(one) for one in inputs.declared}
        template = _template(fields, known, path, report)
        _check_environment(fields, known, path, report)
        _check_folder(fields, path, report)
        if template is None or report.has_errors:
            return None
        restrictions = Restrictions.of(fields)
        _check_paths(fields, arguments, path, report)
        _check_commands(restrictions, template, known, (*path, "restrictions", "commands"), report)
        used = template.names | {one.name for text in fields.env.values() for one in placeholders(text)}
        for at, one in enumerate(fields.parameters):
            if one.name not in used:
                report.warn((*path, "parameters", at), f"{one.name} is not used")
        origin = report.where((*path, "name"))
        tool = CommandTool(
            fields,
            arguments,
            template,
            hosts,
            self._outputs,
            self._reads,
            origin=origin,
            always_ask=self._always_ask,
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
            report.error((*path, "builtin"), f"there is no built-in tool {named}{hint}")
            return None
        arguments = narrowed_arguments(fields.parameters, inner, (*path, "parameters"), report)
        _check_builtin_restrictions(fields, inner, path, report)
        if report.has_errors:
            return None
        access = _PATHS.get(inner.name)
        about = None if access is None else ("path", access)
        tool = BuiltinTool(fields, inner, arguments, origin=report.where((*path, "name")), path=about, inputs=inputs)
        return _described(tool, file, fields, path, report)


def _described(tool: Tool[Any], file: ToolFile, fields: ToolFields, path: Path, report: YamlReport) -> Tool[Any]:
    """The tool with what the file says about it; the rest stays as it is. A project can only tighten the approval
    that holds without it (SECURITY.md T17)."""
    if file.place == "project" and fields.approval == "auto" and tool.permission != "auto":
        said = "a project's file cannot allow itself, so it asks; a rule of yours, or the file in your own folder, can"
        report.warn((*path, "approval"), said)
    else:
        tool.permission = fields.approval or tool.permission
    tool.label = fields.label or fields.name
    tool.description = fields.description or tool.description
    tool.timeout = fields.timeout if fields.timeout is not None else tool.timeout
    tool.max_calls = fields.max_calls if fields.max_calls is not None else tool.max_calls
    tool.mode = fields.mode if fields.mode != "direct" else tool.mode
    tool.hint = fields.hint or tool.hint
    tool.documentation = fields.documentation or tool.documentation
    return tool


def _entries(document: YamlDocument, report: YamlReport) -> tuple[list[tuple[Path, Any]], tuple[RecipeInput, ...]]:
    """The tools of a document, each with its path, and the inputs that they share."""
    value = document.value
    if isinstance(value, dict) and "steps" in value:
        report.error(("steps",), "a file with steps is a recipe: put it into .codeagent/commands; tools stay here")
        return [], ()
    if not (isinstance(value, dict) and "tools" in value):
        return [((), value)], ()
    inputs: tuple[RecipeInput, ...] = ()
    try:
        inputs = declared_inputs(FileFields.model_validate(value).inputs, ("inputs",), report)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            report_invalid(details, (), report, FILE_SECTIONS)
    tools = value["tools"] if isinstance(value["tools"], list) else []
    return [(("tools", at), item) for at, item in enumerate(tools[:MOST_TOOLS])], inputs


def _as_parameter(one: RecipeInput) -> Parameter:
    kind = "string" if one.type == "choice" else one.type
    return Parameter(one.name, kind, may_be_missing=not one.required and one.default is None)


def _check_inputs(fields: ToolFields, declared: Sequence[RecipeInput], path: Path, report: YamlReport) -> None:
    """Refuse names that are taken, and restrictions that anything but an input would decide."""
    names = [one.name for one in declared]
    for name in sorted({name for name in names if names.count(name) > 1}):
        report.error((*path, "inputs"), f"there is another input {name}")
    for at, one in enumerate(fields.parameters):
        if one.name in names:
            report.error((*path, "parameters", at, "name"), "there is an input of that name")
    given = fields.restrictions or RestrictionFields()
    here: Path = (*path, "restrictions")
    for text in given.commands or ():
        if placeholders(text):
            report.error((*here, "commands"), "it is fixed: placeholders are for paths")
    globs = [] if given.paths is None else [*(given.paths.read or ()), *(given.paths.write or ())]
    for glob in dict.fromkeys(globs):
        for found in placeholders(glob):
            if any(one.name == found.name for one in fields.parameters):
                said = f"{found.source} is given by the model, which must not choose its own restriction"
                report.error((*here, "paths"), f"{said}; make it an input", source=found.source)
            elif found.name not in names:
                hint = nearest_or_all(found.name, names, lambda name: f"{{{{inputs.{name}}}}}")
                report.error((*here, "paths"), f"{found.source} names no input{hint}", source=found.source)


def _check_names(value: dict[str, Any], shared: Sequence[RecipeInput], path: Path, report: YamlReport) -> None:
    """Check the placeholders of a tool that is broken elsewhere, so that everything is reported at once."""
    lists = [value.get("parameters", []), value.get("inputs", [])]
    if not all(isinstance(one, list) for one in lists):
        return
    every = [one.get("name") for declared in lists for one in declared if isinstance(one, dict)]
    names = [*(name for name in every if isinstance(name, str)), *(one.name for one in shared)]
    argv = value.get("argv")
    texts: list[tuple[Path, Any]] = [(("command",), value.get("command"))]
    texts += [(("argv", at), item) for at, item in enumerate(argv)] if isinstance(argv, list) else []
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


def _hosts(fields: ToolFields, path: Path, report: YamlReport) -> tuple[str, ...]:
    """The hosts that may be reached; empty: no network."""
    allowed = None if fields.restrictions is None else fields.restrictions.hosts
    if fields.network is False:
        if allowed is not None:
            report.error((*path, "restrictions", "hosts"), "there is nothing to reach without network; set network")
        return ()
    if fields.network is True:
        return tuple(allowed or ("*",))
    rules = None if allowed is None else [HostRule.parse(host) for host in allowed]
    for host in fields.network:
        if rules is not None and not any(rule.covers(HostRule.parse(host)) for rule in rules):
            report.error((*path, "network"), f"{host} is not among restrictions.hosts")
    return tuple(fields.network)


def _check_paths(fields: ToolFields, arguments: YamlArguments, path: Path, report: YamlReport) -> None:
    """Refuse a list that no argument is checked against: it would be a restriction in name only."""
    here = (*path, "restrictions", "paths")
    rules = None if fields.restrictions is None else fields.restrictions.paths
    if rules is None:
        return
    if not arguments.paths:
        report.error(here, "no parameter is of type path, so the list restricts nothing")
        return
    given, wanted = {"read": rules.read, "write": rules.write}, arguments.paths.values()
    for word, globs in given.items():
        if globs is not None and not rules.alike and not any(access in (None, word) for access in wanted):
            report.error((*here, word), f"no parameter of type path has access {word}")
    for at, one in enumerate(fields.parameters):
        if one.access is not None and given[one.access] is None:
            report.error((*path, "parameters", at, "access"), f"restrictions.paths says nothing about {one.access}")


def _check_commands(
    restrictions: Restrictions,
    template: ArgvTemplate | ShellTemplate,
    parameters: Parameters,
    here: Path,
    report: YamlReport,
) -> None:
    """Check the command with harmless values; a call's own values are checked at the call."""
    if restrictions.commands is None:
        return
    samples: dict[str, Any] = {"integer": 1, "number": 1, "boolean": True, "array": ["x"]}
    line = template.command_line({name: samples.get(one.type, "x") for name, one in parameters.items()})
    key = command_key(line)
    programs = tuple(begins.split(" ")[0] for begins in restrictions.commands)
    held = replace(restrictions, commands=programs if template.names else restrictions.commands)
    try:
        held.check_commands(key, complete=True)
    except Denied as error:
        report.error(here, str(error))


def _check_builtin_restrictions(fields: ToolFields, inner: Tool[Any], path: Path, report: YamlReport) -> None:
    here: Path = (*path, "restrictions")
    given = fields.restrictions
    if given is None:
        return
    if given.hosts is not None:
        report.error((*here, "hosts"), f"they do not apply to {inner.name}")
    if given.commands is not None and inner.name != "bash":
        report.error((*here, "commands"), f"{inner.name} runs no commands")
    if (rules := given.paths) is None:
        return
    access = _PATHS.get(inner.name)
    for word, globs in (("read", rules.read), ("write", rules.write)):
        if globs is not None and access != word and not (rules.alike and access is not None):
            does = "has no argument path" if access is None else f"does not {word} its path"
            report.error((*here, "paths", word), f"it does not apply to {inner.name}, which {does}")
        elif inner.name in _TREES and any(not glob.endswith("**") for glob in globs or ()):
            report.error((*here, "paths", word), f"{inner.name} goes through whole folders: each glob must end in **")


def _check_environment(fields: ToolFields, parameters: Parameters, path: Path, report: YamlReport) -> None:
    for name, text in fields.env.items():
        here = (*path, "env", name)
        if re.fullmatch(VARIABLE_NAME, name) is None:
            report.error(here, f"{name!r} is not the name of a variable")
        if "\0" in text:
            report.error(here, "a variable cannot hold a NUL character")
        for flaw in flaws_of_names(text, list(parameters)):
            report.flaw(here, flaw)
        if placeholders(text) and DECIDES.fullmatch(name):
            report.error(here, f"{name} decides what is run, so it must not hold an argument")


def _check_folder(fields: ToolFields, path: Path, report: YamlReport) -> None:
    if fields.cwd is None:
        return
    folder = posixpath.normpath(fields.cwd)
    if "\0" in fields.cwd or placeholders(fields.cwd):
        report.error((*path, "cwd"), "it is fixed: no placeholders")
    elif folder.startswith("/") or folder.split("/")[0] == "..":
        report.error((*path, "cwd"), "it must be a folder of the workspace, relative to its root")
