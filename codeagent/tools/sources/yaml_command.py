"""A tool of a YAML file that runs a program, or a line of bash, in the sandbox."""

import posixpath
import shlex
from dataclasses import dataclass, field
from typing import Any

from codeagent.core.display import TerminalBlock, TextBlock
from codeagent.core.errors import ConfigError, WorkspaceError
from codeagent.core.policy import ApprovalKey, Deed, Permission, Policy, Rule
from codeagent.core.ports import Command, OutputStore, Workspace
from codeagent.core.sanitize import one_line
from codeagent.core.tool import Denied, Failed, InvalidArgs, OpenArgs, Preview, Tool, ToolContext, ToolMode, ToolResult
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.restrictions import AccessWord, Restrictions
from codeagent.tools.shell.run import run_for_model
from codeagent.tools.shell.syntax import command_key
from codeagent.tools.sources.template_argv import ArgvTemplate
from codeagent.tools.sources.template_shell import ShellTemplate
from codeagent.tools.sources.template_text import Parameters, Values, placeholders, refuse_nul, text_of

_LONGEST_RULE = 200


@dataclass(frozen=True)
class Recipe:
    """What a command tool does, as its file says it."""

    template: ArgvTemplate | ShellTemplate
    parameters: Parameters
    paths: dict[str, AccessWord | None] = field(default_factory=dict)
    """Parameters that name files → which list of the restrictions holds."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variable → its value, in which placeholders may stand."""
    folder: str | None = None
    """Relative to the workspace."""
    hosts: tuple[str, ...] = ()
    restrictions: Restrictions = field(default_factory=Restrictions)

    def script(self, values: Values) -> str:
        """For bash. Raises InvalidArgs."""
        refuse_nul(values)
        lines = [f"export {name}={shlex.quote(value)}" for name, value in self._variables(values)]
        if self.folder is not None:
            lines.append(f"cd -- {shlex.quote(self.folder)} || exit")
        match self.template:
            case ArgvTemplate() as argv:
                lines.append(f"exec -- {argv.command_line(values)}")
            case ShellTemplate() as shell:
                lines.append(shell.render(values))
        return "\n".join(lines)

    def _variables(self, values: Values) -> list[tuple[str, str]]:
        """Those whose arguments are all there."""
        out = []
        for name, text in self.environment.items():
            found = placeholders(text)
            if any(one.name not in values for one in found):
                continue
            filled, at = "", 0
            for one in found:
                filled += text[at : one.start] + text_of(values[one.name])
                at = one.end
            out.append((name, filled + text[at:]))
        return out


class CommandTool(Tool[OpenArgs]):
    """Runs alone, as bash does: nothing is known about what it touches."""

    Args = OpenArgs
    effect = "anything"
    sandboxed = True
    source = "yaml"

    def __init__(
        self,
        name: str,
        description: str,
        schema: dict[str, Any],
        recipe: Recipe,
        outputs: OutputStore,
        reads: ReadTracker,
        *,
        origin: str,
        label: str = "",
        permission: Permission = "prompt",
        timeout: float | None = None,
        mode: ToolMode = "direct",
        max_calls: int | None = None,
        hint: str = "",
        documentation: str = "",
        always_ask: str | None = None,
    ) -> None:
        """`always_ask` is why no mode may answer for the person, only a rule of theirs."""
        self.name, self.label, self.description, self.schema = name, label or name, description, schema
        self.origin, self.permission, self.timeout, self.mode = origin, permission, timeout, mode
        self.max_calls, self.hint, self.documentation = max_calls, hint, documentation
        self.recipe, self.restricted = recipe, recipe.restrictions.told(recipe.hosts)
        self._outputs = outputs
        self._reads = reads
        self._always_ask = always_ask

    def approval_key(self, args: OpenArgs) -> ApprovalKey:
        """The arguments in the order of the parameters, each quoted as in a shell where it must be; an argument that
        is missing in the middle is `''`."""
        values, hosts = self._values(args), self.recipe.hosts
        words = [self._word(name, values) for name in self.recipe.parameters]
        while words and words[-1] is None:
            words.pop()
        parts = (" ".join("''" if word is None else shlex.quote(word) for word in words),)
        does: tuple[Deed, ...] = ()
        try:
            key = command_key(self.recipe.template.command_line(values))
            does = (Deed("bash", key), *key.does)
        except InvalidArgs:
            pass
        why = [self._always_ask] if self._always_ask else []
        why += [f"with network access to {', '.join(hosts)}"] if hosts else []
        return ApprovalKey("command", parts, sensitive="; ".join(why) or None, network=bool(hosts), does=does)

    def proposal(self, args: OpenArgs) -> str:
        """Exactly this call."""
        key = self.approval_key(args)
        network = "network: " if key.network else ""
        rule = f"{self.name}({network}{key.parts[0]})"
        if not key.parts[0] or len(rule) > _LONGEST_RULE or not rule.isprintable():
            return ""
        try:
            parsed = Rule.parse(rule, "auto")
        except ConfigError:
            return ""
        allowed = Policy(rules=(parsed,)).check(self.name, key, "prompt", "anything").permission == "auto"
        return rule if parsed.is_exact and allowed else ""

    def target(self, args: OpenArgs) -> str:
        try:
            line = self.recipe.template.command_line(self._values(args)).strip()
        except InvalidArgs:
            line = " ".join(self.approval_key(args).parts)
        first, _, rest = line.partition("\n")
        return f"{first} …" if rest.strip() else first

    async def preview(self, args: OpenArgs, ctx: ToolContext) -> Preview:
        script = self._checked(args, ctx.workspace)
        facts = [f"{self.name} comes from {self.origin}."]
        if self.recipe.hosts:
            facts.append(f"It may reach {', '.join(self.recipe.hosts)}.")
        return Preview(self.target(args), (TerminalBlock(command=script), TextBlock(text=" ".join(facts))))

    async def run(self, args: OpenArgs, ctx: ToolContext) -> ToolResult:
        script = self._checked(args, ctx.workspace)
        if ctx.sandbox is None:
            raise Failed(f"there is no sandbox, so {self.name} cannot run; the file tools still work")
        command = Command(script, ctx.call_id, ctx.read_only, self.recipe.hosts)
        return await run_for_model(ctx.sandbox, command, ctx, self._outputs, self._reads)

    def _checked(self, args: OpenArgs, workspace: Workspace) -> str:
        """The script. Raises ToolError for what may not be."""
        values, recipe = self._values(args), self.recipe
        for name, access in recipe.paths.items():
            if name in values:
                recipe.restrictions.check_path(workspace, name, text_of(values[name]), access)
        script = recipe.script(values)
        recipe.restrictions.check_commands(command_key(recipe.template.command_line(values)), complete=False)
        if recipe.folder is not None:
            try:
                workspace.resolve(recipe.folder)
            except WorkspaceError as error:
                raise Denied(f"its folder {one_line(recipe.folder, 100)}: {error}") from None
        return script

    def _values(self, args: OpenArgs) -> Values:
        return _values(args, self.recipe.parameters)

    def _word(self, name: str, values: Values) -> str | None:
        if name not in values:
            return None
        text = text_of(values[name])
        return posixpath.normpath(text) if name in self.recipe.paths and text else text


def _values(args: OpenArgs, parameters: Parameters) -> Values:
    """What there is; a list that is not meant to be several arguments is one text."""
    given = {name: value for name, value in (args.model_extra or {}).items() if value is not None}
    return {
        name: text_of(value) if isinstance(value, list) and parameters[name].type != "array" else value
        for name, value in given.items()
        if name in parameters
    }
