"""Loads YAML tool files (FEATURES F16) and reports every error at once, each with file, line and key."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import ValidationError

from codeagent.core.hosts import HostRule
from codeagent.core.ports import OutputStore
from codeagent.core.tool import Denied, Tool
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.folders import Loaded, ToolFile
from codeagent.tools.schema import kind_of, nearest_or_all
from codeagent.tools.shell.syntax import command_key
from codeagent.tools.user.lint import lint
from codeagent.tools.user.shell_script import DECIDES
from codeagent.tools.user.templates import ArgvTemplate, Parameters, ShellTemplate, flaws_of_names, placeholders
from codeagent.tools.user.yaml_fields import report_invalid
from codeagent.tools.user.yaml_model import (
    SECTIONS,
    VARIABLE_NAME,
    ToolFields,
    YamlArguments,
    narrowed_arguments,
    own_arguments,
)
from codeagent.tools.user.yaml_text import Path, Unreadable, YamlDocument, YamlReport, documents
from codeagent.tools.user.yaml_tools import BuiltinTool, CommandTool, Restrictions

_TIMEOUT = 120.0
_MOST_TOOLS = 100
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
    ) -> None:
        """`builtins` are what `builtin:` may name. `always_ask`: as of the bash tool."""
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
            for path, value in _entries(document, report):
                tool = self._tool(file, path, value, report)
                if tool is None:
                    continue
                if tool.name in names:
                    report.error((*path, "name"), f"{names[tool.name]} already has a tool named {tool.name}")
                names.setdefault(tool.name, tool.origin)
                tools.append(tool)
            problems += report.problems
        if any(problem.level == "error" for problem in problems):
            return Loaded((), tuple(problems))
        return Loaded(tuple(tools), (*problems, *(warning for tool in tools for warning in lint(tool, tool.origin))))

    def _tool(self, file: ToolFile, path: Path, value: Any, report: YamlReport) -> Tool[Any] | None:
        """The tool; None if there is an error."""
        if not isinstance(value, dict):
            report.error(path, f"a tool is a mapping, not {kind_of(value)}")
            return None
        try:
            fields = ToolFields.model_validate(value)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                report_invalid(details, path, report, SECTIONS)
            _check_names(value, path, report)
            return None
        if fields.builtin is not None:
            tool: Tool[Any] | None = self._builtin(file, fields, path, report)
        else:
            tool = self._command(file, fields, path, report)
        return None if report.has_errors else tool

    def _command(self, file: ToolFile, fields: ToolFields, path: Path, report: YamlReport) -> Tool[Any] | None:
        if (fields.argv is None) == (fields.command is None):
            several = fields.argv is not None
            said = "give argv or command, not both" if several else "give one of argv, command and builtin"
            report.error((*path, "command") if several else path, said)
        if not fields.description:
            report.error(path, "description is missing; the model chooses by the description")
        arguments = own_arguments(fields.parameters, (*path, "parameters"), report)
        hosts = _hosts(fields, path, report)
        template = _template(fields, arguments.parameters, path, report)
        _check_environment(fields, arguments.parameters, path, report)
        _check_folder(fields, path, report)
        if template is None or report.has_errors:
            return None
        restrictions = Restrictions.of(fields)
        _check_paths(fields, arguments, path, report)
        _check_commands(restrictions, template, arguments.parameters, (*path, "restrictions", "commands"), report)
        used = template.names | {one.name for text in fields.env.values() for one in placeholders(text)}
        for at, one in enumerate(fields.parameters):
            if one.name not in used:
                report.warn((*path, "parameters", at), f"{one.name} is not used")
        origin = report.where((*path, "name"))
        tool = CommandTool(
            fields, arguments, template, hosts, self._outputs, self._reads, origin=origin, always_ask=self._always_ask
        )
        tool.timeout = None if fields.mode == "background" else _TIMEOUT
        return _described(tool, file, fields, path, report)

    def _builtin(self, file: ToolFile, fields: ToolFields, path: Path, report: YamlReport) -> Tool[Any] | None:
        inner = self._builtins.get(fields.builtin or "")
        for key in ("argv", "command", "network", "cwd", "env"):
            if key in fields.model_fields_set:
                report.error((*path, key), "it cannot be combined with builtin")
        if inner is None:
            hint = nearest_or_all(fields.builtin or "", self._builtins)
            report.error((*path, "builtin"), f"there is no built-in tool {fields.builtin}{hint}")
            return None
        arguments = narrowed_arguments(fields.parameters, inner, (*path, "parameters"), report)
        _check_builtin_restrictions(fields, inner, path, report)
        if report.has_errors:
            return None
        access = _PATHS.get(inner.name)
        about = None if access is None else ("path", access)
        tool = BuiltinTool(fields, inner, arguments, origin=report.where((*path, "name")), path=about)
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


def _entries(document: YamlDocument, report: YamlReport) -> list[tuple[Path, Any]]:
    """The tools of a document, each with its path."""
    value = document.value
    if not (isinstance(value, dict) and "tools" in value):
        return [((), value)]
    for key in value:
        if key != "tools":
            report.error((key,), "no other key is allowed next to tools; put it into each tool")
    if not isinstance(value["tools"], list) or not value["tools"]:
        report.error(("tools",), f"a list of tools is expected, not {kind_of(value['tools'])}")
        return []
    if len(value["tools"]) > _MOST_TOOLS:
        report.error(("tools",), f"more than {_MOST_TOOLS} tools in one file")
    return [(("tools", at), item) for at, item in enumerate(value["tools"][:_MOST_TOOLS])]


def _check_names(value: dict[str, Any], path: Path, report: YamlReport) -> None:
    """Check the placeholders of a tool that is broken elsewhere, so that everything is reported at once."""
    parameters = value.get("parameters", [])
    if not isinstance(parameters, list):
        return
    names = [one["name"] for one in parameters if isinstance(one, dict) and isinstance(one.get("name"), str)]
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
