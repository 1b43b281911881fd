"""The restrictions of a YAML tool, the inputs in them, and the checks of both in its file."""

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError, WorkspaceError
from codeagent.core.hosts import HostRule, names_host
from codeagent.core.policy import ApprovalKey, Rule
from codeagent.core.ports import Workspace
from codeagent.core.recipes import RecipeInput, leads_inside
from codeagent.core.sanitize import one_line
from codeagent.core.tool import Denied, Tool
from codeagent.core.yaml_text import Path
from codeagent.extensions.user_tools.shell_template import ShellTemplate
from codeagent.extensions.user_tools.templates import (
    ArgvTemplate,
    Parameters,
    Values,
    filled,
    placeholders,
    text_of,
)
from codeagent.extensions.user_tools.yaml_model import (
    AccessWord,
    PathRules,
    RestrictionFields,
    ToolFields,
    YamlArguments,
    host_sample,
)
from codeagent.tools.faults import nearest_or_all
from codeagent.tools.files.report import YamlReport
from codeagent.tools.shell.syntax import command_key

PATHS: Mapping[str, Literal["read", "write"]] = {
    "read": "read",
    "list": "read",
    "search": "read",
    "glob": "read",
    "tree": "read",
    "json_read": "read",
    "git_commit": "read",
    "write": "write",
    "edit": "write",
    "multi_edit": "write",
    "apply_patch": "write",
    "json_write": "write",
}
"""The built-in tools whose calls name paths, and what they do with these paths."""
_HOSTS = frozenset({"http_request", "web_fetch"})
"""The built-in tools whose calls name a host."""
_TREES = frozenset({"list", "search", "glob", "tree"})
"""The built-in tools that walk whole folders."""
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.,:/@%+=-]+")
"""What an input in a command prefix may be: nothing with a special meaning in a shell or a rule."""
_PLAIN_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")


@dataclass(frozen=True)
class ToolInputs:
    """The values of `{{inputs.x}}` in a tool: those given to the running recipe, else the tool
    file's defaults."""

    declared: tuple[RecipeInput, ...] = ()
    running: Values = field(default_factory=dict)
    """Returns the inputs of the recipe whose step is running now; empty between steps."""

    @property
    def values(self) -> dict[str, Any]:
        """Return the values that are present and valid."""
        found = ((one.name, self._value(one)) for one in self.declared)
        return {name: value for name, value in found if value is not None}

    def require(self) -> None:
        """Raise Denied if a required input is missing or not valid."""
        for one in self.declared:
            if one.required and self._value(one) is None:
                given = "is not valid for this tool" if one.name in self.running else "is missing"
                raise Denied(
                    f"the input '{one.name}' {given}: the user runs a recipe with it, as {one.means}"
                )

    def _value(self, one: RecipeInput) -> Any:
        if one.name not in self.running:
            return one.default
        try:
            return one.parse(text_of(self.running[one.name]))
        except ConfigError:
            return None


@dataclass(frozen=True)
class Restrictions:
    """The limits of a tool, whatever its arguments are; None means not restricted.

    Globs and command prefixes mean the same as in rules. Each can contain inputs.
    """

    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    commands: tuple[str, ...] | None = None
    """Command prefixes of whole words, such as `git log`."""
    hosts: tuple[str, ...] = ()
    """The hosts that may be reached; empty means no network."""

    @classmethod
    def of(cls, fields: ToolFields, hosts: tuple[str, ...] = ()) -> "Restrictions":
        given = fields.restrictions or RestrictionFields()
        paths = given.paths or PathRules()
        read, write, commands = (
            None if one is None else tuple(one) for one in (paths.read, paths.write, given.commands)
        )
        return cls(read, write, commands, hosts)

    def with_inputs(self, inputs: ToolInputs) -> "Restrictions":
        """Return these with their inputs filled in. Raises Denied for an input that is missing or
        would widen them."""
        values = inputs.values
        read, write = (
            _all_with_inputs(globs, values, _is_plain_path, "plain path in the workspace")
            for globs in (self.read, self.write)
        )
        commands = _all_with_inputs(self.commands, values, _PLAIN_WORD.fullmatch, "plain word")
        return Restrictions(
            read, write, commands, tuple(_host_with_inputs(host, values) for host in self.hosts)
        )

    def told(self) -> dict[str, tuple[str, ...]]:
        """Return the restrictions as shown to the user, for `Tool.restricted`."""
        found = {
            "paths.read": self.read,
            "paths.write": self.write,
            "commands": self.commands,
            "hosts": self.hosts or None,
        }
        return {name: values for name, values in found.items() if values is not None}

    def check_path(
        self, workspace: Workspace, name: str, path: str, access: AccessWord | None
    ) -> None:
        """Raise Denied unless the path is allowed, both as it is written and where its links lead.

        If `access` is None, every given list applies.
        """
        try:
            places = dict.fromkeys(
                (workspace.relative(path), workspace.resolve(path, reading=False))
            )
        except WorkspaceError as error:
            raise Denied(f"argument '{name}': {error}") from None
        lists = {"read": self.read, "write": self.write}
        for word, globs in lists.items():
            if globs is None or access not in (None, word):
                continue
            for place in places:
                if not any(Rule("auto", "x", glob).matches(place, "path") for glob in globs):
                    led = "" if place == path else f" (which is {one_line(place, 200)})"
                    only = f"this tool may {word} only {', '.join(globs)}"
                    raise Denied(f"argument '{name}' is {one_line(path, 200)!r}{led}; {only}")

    def check_paths(self, workspace: Workspace, key: ApprovalKey, access: AccessWord) -> None:
        """Raise Denied unless all paths of a built-in tool's call are known and allowed."""
        if self.read is None and self.write is None:
            return
        for part in key.parts:
            self.check_path(workspace, "path", part, access)
        if key.opaque or not key.parts:
            raise Denied("the call does not name every path, and this tool is restricted to some")

    def check_host(self, key: ApprovalKey) -> None:
        """Raise Denied unless the host that a built-in tool's call names is allowed."""
        if self.hosts and not any(names_host(host, key.host) for host in self.hosts):
            raise Denied(
                f"this tool may not reach {one_line(key.host or key.parts[0], 200)}, only {', '.join(self.hosts)}"
            )

    def check_commands(self, key: ApprovalKey, *, complete: bool) -> None:
        """Raise Denied unless every command of the line begins with an allowed prefix.

        If `complete`, a line that may run more than can be seen is denied as well.
        """
        if self.commands is None:
            return
        allowed = ", ".join(self.commands)
        if complete and key.opaque:
            raise Denied(
                f"the line may run more than can be seen; this tool may run only {allowed}"
            )
        for part in key.parts:
            if not any(
                Rule("auto", "x", f"{begins} *").matches(part, "command")
                for begins in self.commands
            ):
                raise Denied(f"this tool may not run {one_line(part, 200)!r}, only {allowed}")


def _all_with_inputs(
    patterns: tuple[str, ...] | None, values: Values, fits: Callable[[str], object], what: str
) -> tuple[str, ...] | None:
    return (
        None
        if patterns is None
        else tuple(_with_inputs(one, values, fits, what) for one in patterns)
    )


def _with_inputs(pattern: str, values: Values, fits: Callable[[str], object], what: str) -> str:
    """Fill in a pattern's inputs, each of which must be plain, so that it means one thing only.
    Raises Denied."""
    found = placeholders(pattern)
    for one in found:
        text = text_of(values.get(one.name, ""))
        if not fits(text):
            raise Denied(f"the input '{one.name}' is {one_line(text, 100)!r}, not a {what}")
    text = filled(pattern, values) if found else pattern
    return posixpath.normpath(text) if found and fits is _is_plain_path else text


def _is_plain_path(text: str) -> bool:
    return leads_inside(text) and not any(letter in text for letter in "*?")


def _host_with_inputs(host: str, values: Values) -> str:
    """Raises Denied."""
    found = _with_inputs(host, values, _PLAIN_HOST.fullmatch, "plain name of a host").lower()
    try:
        HostRule.parse(found)
    except ValueError as error:
        raise Denied(f"with the inputs as they are, {error}") from None
    return found


def check_inputs(
    fields: ToolFields, declared: Sequence[RecipeInput], path: Path, report: YamlReport
) -> None:
    """Refuse names that are taken, and restrictions with placeholders other than inputs."""
    names = [one.name for one in declared]
    for name in sorted({name for name in names if names.count(name) > 1}):
        report.error((*path, "inputs"), f"there is another input {name}")
    for at, one in enumerate(fields.parameters):
        if one.name in names:
            report.error((*path, "parameters", at, "name"), "there is an input of that name")
    given = fields.restrictions or RestrictionFields()
    paths = given.paths or PathRules()
    network = fields.network if isinstance(fields.network, list) else []
    patterns: dict[Path, Iterable[str]] = {
        ("restrictions", "paths"): dict.fromkeys([*(paths.read or ()), *(paths.write or ())]),
        ("restrictions", "commands"): given.commands or (),
        ("restrictions", "hosts"): given.hosts or (),
        ("network",): network,
    }
    for key, texts in patterns.items():
        for text in texts:
            _check_input_names(text, fields, names, (*path, *key), report)


def _check_input_names(
    text: str, fields: ToolFields, names: Sequence[str], path: Path, report: YamlReport
) -> None:
    for found in placeholders(text):
        if any(one.name == found.name for one in fields.parameters):
            said = f"{found.source} is given by the model, which must not choose its own restriction; make it an input"
            report.error(path, said, source=found.source)
        elif found.name not in names:
            hint = nearest_or_all(found.name, names, lambda name: f"{{{{inputs.{name}}}}}")
            report.error(path, f"{found.source} does not name an input{hint}", source=found.source)


def reachable_hosts(fields: ToolFields, path: Path, report: YamlReport) -> tuple[str, ...]:
    """Return the hosts that may be reached; empty means no network."""
    allowed = None if fields.restrictions is None else fields.restrictions.hosts
    if fields.network is False:
        if allowed is not None:
            report.error(
                (*path, "restrictions", "hosts"),
                "there is nothing to reach without network; set network",
            )
        return ()
    if fields.network is True:
        return tuple(allowed or ("*",))
    rules = None if allowed is None else [HostRule.parse(host_sample(host)) for host in allowed]
    for host in fields.network:
        if rules is not None and not any(
            rule.covers(HostRule.parse(host_sample(host))) for rule in rules
        ):
            report.error((*path, "network"), f"{host} is not among restrictions.hosts")
    return tuple(fields.network)


def check_paths(
    fields: ToolFields, arguments: YamlArguments, path: Path, report: YamlReport
) -> None:
    """Refuse a list that does not apply to any argument, as it would restrict nothing."""
    here = (*path, "restrictions", "paths")
    rules = None if fields.restrictions is None else fields.restrictions.paths
    if rules is None:
        return
    if not arguments.paths:
        report.error(here, "no parameter is of type path, so the list restricts nothing")
        return
    given, wanted = {"read": rules.read, "write": rules.write}, arguments.paths.values()
    for word, globs in given.items():
        if (
            globs is not None
            and not rules.alike
            and not any(access in (None, word) for access in wanted)
        ):
            report.error((*here, word), f"no parameter of type path has access {word}")
    for at, one in enumerate(fields.parameters):
        if one.access is not None and given[one.access] is None:
            report.error(
                (*path, "parameters", at, "access"),
                f"restrictions.paths says nothing about {one.access}",
            )


def check_commands(
    restrictions: Restrictions,
    template: ArgvTemplate | ShellTemplate,
    parameters: Parameters,
    here: Path,
    report: YamlReport,
) -> None:
    """Check the command with harmless values; the values of a call are checked at the call."""
    if restrictions.commands is None:
        return
    samples: dict[str, Any] = {"integer": 1, "number": 1, "boolean": True, "array": ["x"]}
    values = {name: samples.get(one.type, "x") for name, one in parameters.items()}
    key = command_key(template.command_line(values))
    allowed = tuple(filled(begins, values) for begins in restrictions.commands)
    programs = tuple(begins.split(" ")[0] for begins in allowed)
    held = replace(restrictions, commands=programs if template.names else allowed)
    try:
        held.check_commands(key, complete=True)
    except Denied as error:
        report.error(here, str(error))


def check_builtin_restrictions(
    fields: ToolFields, inner: Tool[Any], path: Path, report: YamlReport
) -> None:
    here: Path = (*path, "restrictions")
    given = fields.restrictions
    if given is None:
        return
    if given.hosts is not None and inner.name not in _HOSTS:
        report.error(
            (*here, "hosts"), f"they do not apply to {inner.name}, whose calls name no host"
        )
    if given.commands is not None and inner.name != "bash":
        report.error((*here, "commands"), f"{inner.name} runs no commands")
    if (rules := given.paths) is None:
        return
    access = PATHS.get(inner.name)
    for word, globs in (("read", rules.read), ("write", rules.write)):
        if globs is not None and access != word and not (rules.alike and access is not None):
            does = "names no paths" if access is None else f"does not {word} its path"
            report.error((*here, "paths", word), f"it does not apply to {inner.name}, which {does}")
        elif inner.name in _TREES and any(not glob.endswith("**") for glob in globs or ()):
            report.error(
                (*here, "paths", word),
                f"{inner.name} goes through whole folders: each glob must end in **",
            )
