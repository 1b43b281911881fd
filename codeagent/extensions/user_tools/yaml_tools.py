"""The tools that YAML files define: a command in the sandbox, or a built-in tool with set arguments
and limits."""

import json
import posixpath
import shlex
from collections.abc import AsyncGenerator, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ValidationError

from codeagent.core.display import TerminalBlock, TextBlock
from codeagent.core.errors import ConfigError, WorkspaceError
from codeagent.core.memory import OutputStore
from codeagent.core.policy import ApprovalKey, EquivalentCall, Policy, Rule
from codeagent.core.ports import Workspace
from codeagent.core.recipes import RecipeInput
from codeagent.core.sandbox import Command
from codeagent.core.sanitize import one_line
from codeagent.core.tool import (
    EXCLUSIVE,
    Access,
    Denied,
    InvalidArgs,
    OpenArgs,
    Preview,
    Tool,
    ToolContext,
    ToolResult,
)
from codeagent.extensions.user_tools.restrictions import Restrictions, ToolInputs
from codeagent.extensions.user_tools.shell_template import ShellTemplate
from codeagent.extensions.user_tools.templates import (
    ArgvTemplate,
    Values,
    filled,
    placeholders,
    refuse_nul,
    text_of,
)
from codeagent.extensions.user_tools.yaml_model import AccessWord, ToolFields, YamlArguments
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.folders import DefinedTool
from codeagent.tools.shell.hosts import hosts_needed
from codeagent.tools.shell.rules import path_proposal
from codeagent.tools.shell.run import first_line, run_for_model
from codeagent.tools.shell.syntax import command_key

_LONGEST_RULE = 200
_AS_INNER = (
    "label",
    "description",
    "permission",
    "effect",
    "concurrency",
    "sandboxed",
    "tries",
    "timeout",
    "max_calls",
    "output_limit",
    "waits_for_user",
    "mode",
    "starts_agents",
    "may_write",
    "hint",
    "documentation",
    "repeatable",
)
"""What a narrowed tool has in common with the one that it narrows."""


class _YamlTool(DefinedTool):
    """A tool with inputs and restrictions."""

    Args = OpenArgs
    source = "yaml"
    _inputs: ToolInputs
    _restrictions: Restrictions

    @property
    def inputs(self) -> tuple[RecipeInput, ...]:
        return self._inputs.declared

    def restricted_with(self, values: Values) -> Mapping[str, tuple[str, ...]]:
        return self._restrictions.with_inputs(replace(self._inputs, running=values)).told()


class BuiltinTool(_YamlTool):
    """Does what the inner tool does; rules that deny or ask for the inner tool apply to it as
    well."""

    def __init__(
        self,
        fields: ToolFields,
        inner: Tool[Any],
        arguments: YamlArguments,
        *,
        origin: str,
        paths: AccessWord | None,
        inputs: ToolInputs,
    ) -> None:
        """`paths`: what is done with the paths that a call names; None if a call names no paths.

        The caller sets everything that differs from the inner tool. The model neither sees nor sets
        preset arguments.
        """
        self.name = fields.name
        self.schema = arguments.schema
        self.origin = origin
        for name in _AS_INNER:
            setattr(self, name, getattr(inner, name))
        self.narrows = inner.name
        given = fields.restrictions
        self._restrictions = Restrictions.of(
            fields, () if given is None else tuple(given.hosts or ())
        )
        self.restricted = self._restrictions.told()
        self.in_place_of = inner if self.name == inner.name else None
        self._inputs = inputs
        self._inner = inner
        self._preset = arguments.preset
        self._paths = paths

    def rebound(self, builtins: Mapping[str, Tool[Any]], reads: ReadTracker) -> "BuiltinTool":
        other = copy(self)
        other._inner = builtins.get(self._inner.name, self._inner)
        return other

    def access(self, args: OpenArgs, workspace: Workspace) -> Access:
        inner = self._given(args)
        return EXCLUSIVE if inner is None else self._inner.access(inner, workspace)

    def time_limit(self, args: OpenArgs) -> float | None:
        inner = self._given(args)
        limits = [self.timeout, None if inner is None else self._inner.time_limit(inner)]
        return min((limit for limit in limits if limit is not None), default=None)

    def in_background(self, args: OpenArgs) -> bool:
        inner = self._given(args)
        return self.mode != "direct" or (inner is not None and self._inner.in_background(inner))

    def target(self, args: OpenArgs) -> str:
        inner = self._given(args)
        return args.model_dump_json() if inner is None else self._inner.target(inner)

    def approval_key(self, args: OpenArgs) -> ApprovalKey:
        inner = self._given(args)
        if inner is None:
            return ApprovalKey("text", (args.model_dump_json(),), opaque=True)
        key = self._inner.approval_key(inner)
        return replace(key, does=(*key.does, EquivalentCall(self._inner.name, key)))

    def proposal(self, args: OpenArgs) -> str:
        key = self.approval_key(args)
        return path_proposal(self.name, key) if key.kind == "path" else ""

    def refuse(self, args: OpenArgs, ctx: ToolContext) -> None:
        self._inner.refuse(self._checked(args, ctx.workspace), ctx)

    async def preview(self, args: OpenArgs, ctx: ToolContext) -> Preview:
        return await self._inner.preview(self._checked(args, ctx.workspace), ctx)

    async def run(self, args: OpenArgs, ctx: ToolContext) -> ToolResult:
        return await self._inner.run(self._checked(args, ctx.workspace), ctx)

    def talk(self, args: OpenArgs, ctx: ToolContext) -> AsyncGenerator[str, str | None]:
        return self._inner.talk(self._checked(args, ctx.workspace), ctx)

    def _checked(self, args: OpenArgs, workspace: Workspace) -> BaseModel:
        """Return the inner tool's arguments. Raises InvalidArgs or Denied."""
        try:
            inner = self._inner_args(args)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False)
            said = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems]
            raise InvalidArgs(
                f"the arguments are not valid for {self._inner.name}: {'; '.join(said)}"
            ) from None
        self._inputs.require()
        restrictions = self._restrictions.with_inputs(self._inputs)
        if self._paths is not None:
            restrictions.check_paths(workspace, self._inner.approval_key(inner), self._paths)
        if restrictions.hosts:
            restrictions.check_host(self._inner.approval_key(inner))
        command = getattr(inner, "command", None)
        if isinstance(command, str):
            restrictions.check_commands(command_key(command), complete=True)
        return inner

    def _given(self, args: OpenArgs) -> BaseModel | None:
        """Return the inner tool's arguments; None if they are not valid, as the call then fails at
        its start."""
        try:
            return self._inner_args(args)
        except ValidationError:
            return None

    def _inner_args(self, args: OpenArgs) -> BaseModel:
        given = {**(args.model_extra or {}), **self._preset}
        inner: BaseModel = self._inner.Args.model_validate_json(json.dumps(given))
        return inner


class CommandTool(_YamlTool):
    """Runs a command, alone as with bash, because it is not known what it touches."""

    effect = "anything"
    sandboxed = True

    def __init__(
        self,
        fields: ToolFields,
        arguments: YamlArguments,
        template: ArgvTemplate | ShellTemplate,
        restrictions: Restrictions,
        outputs: OutputStore,
        reads: ReadTracker,
        *,
        origin: str,
        always_ask: str | None = None,
        inputs: ToolInputs,
    ) -> None:
        """`always_ask` is why only a rule, and never a mode, may answer for the user.

        The caller sets what the file says about the tool.
        """
        self.name = fields.name
        self.schema = arguments.schema
        self.origin = origin
        self._arguments = arguments
        self._inputs = inputs
        self._template = template
        self._environment = dict(fields.env)
        self._folder = None if fields.cwd is None else posixpath.normpath(fields.cwd)
        self._restrictions = restrictions
        self.restricted = restrictions.told()
        self._outputs = outputs
        self._reads = reads
        self._always_ask = always_ask

    def rebound(self, builtins: Mapping[str, Tool[Any]], reads: ReadTracker) -> "CommandTool":
        other = copy(self)
        other._reads = reads
        return other

    def approval_key(self, args: OpenArgs) -> ApprovalKey:
        """Return the arguments in the order of the parameters, then the inputs, quoted for a shell
        if needed; one that is missing in the middle is `''`."""
        values, hosts = self._values(args), self._hosts()
        names = (*self._arguments.parameters, *(one.name for one in self._inputs.declared))
        words = [self._word(name, values) for name in names]
        while words and words[-1] is None:
            words.pop()
        parts = (" ".join("''" if word is None else shlex.quote(word) for word in words),)
        does: tuple[EquivalentCall, ...] = ()
        commands: tuple[str, ...] = ()
        try:
            key = command_key(self._template.command_line(values))
            does = (EquivalentCall("bash", key), *key.does)
            commands = key.parts
        except InvalidArgs:
            pass
        why = [self._always_ask] if self._always_ask else []
        offline = ApprovalKey("command", parts, sensitive=self._always_ask or None, does=does)
        if not hosts:
            return offline
        why.append(f"with network access to {', '.join(hosts)}")
        key = replace(offline, sensitive="; ".join(why), network=True)
        return replace(key, needs=hosts_needed(commands), offline=offline) if "*" in hosts else key

    def proposal(self, args: OpenArgs) -> str:
        """Return a rule for exactly this call."""
        key = self.approval_key(args)
        network = "network: " if key.network else ""
        rule = f"{self.name}({network}{key.parts[0]})"
        if not key.parts[0] or len(rule) > _LONGEST_RULE or not rule.isprintable():
            return ""
        try:
            parsed = Rule.parse(rule, "auto")
        except ConfigError:
            return ""
        allowed = (
            Policy(rules=(parsed,)).check(self.name, key, "prompt", "anything").permission == "auto"
        )
        return rule if parsed.is_exact and allowed else ""

    def target(self, args: OpenArgs) -> str:
        try:
            line = self._template.command_line(self._values(args))
        except InvalidArgs:
            line = " ".join(self.approval_key(args).parts)
        return first_line(line)

    def refuse(self, args: OpenArgs, ctx: ToolContext) -> None:
        self._checked(args, ctx.workspace)

    async def preview(self, args: OpenArgs, ctx: ToolContext) -> Preview:
        script = self._checked(args, ctx.workspace)
        facts = [f"{self.name} comes from {self.origin}."]
        if hosts := self._hosts():
            facts.append(f"It may reach {', '.join(hosts)}.")
        return Preview(
            self.target(args), (TerminalBlock(command=script), TextBlock(text=" ".join(facts)))
        )

    async def run(self, args: OpenArgs, ctx: ToolContext) -> ToolResult:
        script = self._checked(args, ctx.workspace)
        command = Command(script, ctx.call_id, ctx.read_only, self._hosts())
        return await run_for_model(command, ctx, self._outputs, self._reads)

    def _checked(self, args: OpenArgs, workspace: Workspace) -> str:
        """Return the script. Raises ToolError for what is not allowed."""
        self._inputs.require()
        restrictions, values = self._restrictions.with_inputs(self._inputs), self._values(args)
        for name, access in self._arguments.paths.items():
            if name in values:
                restrictions.check_path(workspace, name, text_of(values[name]), access)
        script = self._script(values)
        restrictions.check_commands(
            command_key(self._template.command_line(values)), complete=False
        )
        if self._folder is not None:
            try:
                workspace.resolve(self._folder, reading=False)
            except WorkspaceError as error:
                raise Denied(f"its folder {one_line(self._folder, 100)}: {error}") from None
        return script

    def _hosts(self) -> tuple[str, ...]:
        """Return the hosts it may reach now; as in the file if an input is not valid, as the call
        then fails anyway."""
        try:
            return self._restrictions.with_inputs(self._inputs).hosts
        except Denied:
            return self._restrictions.hosts

    def _script(self, values: Values) -> str:
        """Return the script for bash; a variable with a missing argument is left out. Raises
        InvalidArgs."""
        refuse_nul(values)
        lines = [
            f"export {name}={shlex.quote(filled(text, values))}"
            for name, text in self._environment.items()
            if all(one.name in values for one in placeholders(text))
        ]
        if self._folder is not None:
            lines.append(f"cd -- {shlex.quote(self._folder)} || exit")
        match self._template:
            case ArgvTemplate() as argv:
                lines.append(f"exec -- {argv.command_line(values)}")
            case ShellTemplate() as shell:
                lines.append(shell.render(values))
        return "\n".join(lines)

    def _values(self, args: OpenArgs) -> Values:
        """Return the given arguments and the inputs; a list that must not become several arguments
        is one text."""
        parameters, given = self._arguments.parameters, args.model_extra or {}
        own = {
            name: text_of(value)
            if isinstance(value, list) and parameters[name].type != "array"
            else value
            for name, value in given.items()
            if value is not None and name in parameters
        }
        return own | self._inputs.values

    def _word(self, name: str, values: Values) -> str | None:
        if name not in values:
            return None
        text = text_of(values[name])
        return posixpath.normpath(text) if name in self._arguments.paths and text else text
