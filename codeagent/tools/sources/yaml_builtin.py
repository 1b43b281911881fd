"""A built-in tool under another name, with arguments that are set and places it may not leave."""

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ValidationError

from codeagent.core.policy import ApprovalKey, Deed
from codeagent.core.ports import Workspace
from codeagent.core.tool import EXCLUSIVE, Access, InvalidArgs, OpenArgs, Preview, Tool, ToolContext, ToolResult
from codeagent.tools.restrictions import AccessWord, Restrictions
from codeagent.tools.shell.rules import path_proposal
from codeagent.tools.shell.syntax import command_key


class BuiltinTool(Tool[OpenArgs]):
    """Does what the inner tool does; the rules about the inner one that deny or ask hold for it, too."""

    Args = OpenArgs
    source = "yaml"

    def __init__(
        self,
        name: str,
        inner: Tool[Any],
        schema: dict[str, Any],
        preset: dict[str, Any],
        restrictions: Restrictions,
        *,
        origin: str,
        path: tuple[str, AccessWord] | None,
    ) -> None:
        """`preset` are arguments the model neither sees nor sets; `path` is the argument that the restrictions are
        about. What else differs from the inner tool is set by whoever makes it."""
        self.name, self.schema, self.origin = name, schema, origin
        self.label, self.description, self.permission = inner.label, inner.description, inner.permission
        self.effect, self.concurrency, self.sandboxed = inner.effect, inner.concurrency, inner.sandboxed
        self.timeout, self.max_calls, self.output_limit = inner.timeout, inner.max_calls, inner.output_limit
        self.waits_for_person, self.mode = inner.waits_for_person, inner.mode
        self.hint, self.documentation = inner.hint, inner.documentation
        self.repeatable, self.restricted = inner.repeatable, restrictions.told()
        self._inner = inner
        self._preset = preset
        self._restrictions = restrictions
        self._path = path

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
        return replace(key, does=(*key.does, Deed(self._inner.name, key)))

    def proposal(self, args: OpenArgs) -> str:
        key = self.approval_key(args)
        return path_proposal(self.name, key) if key.kind == "path" else ""

    async def preview(self, args: OpenArgs, ctx: ToolContext) -> Preview:
        return await self._inner.preview(self._checked(args, ctx.workspace), ctx)

    async def run(self, args: OpenArgs, ctx: ToolContext) -> ToolResult:
        return await self._inner.run(self._checked(args, ctx.workspace), ctx)

    def talk(self, args: OpenArgs, ctx: ToolContext) -> AsyncGenerator[str, str | None]:
        return self._inner.talk(self._checked(args, ctx.workspace), ctx)

    def _checked(self, args: OpenArgs, workspace: Workspace) -> BaseModel:
        """Raises InvalidArgs, Denied."""
        try:
            inner = self._inner_args(args)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False)
            said = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems]
            raise InvalidArgs(f"they do not fit {self._inner.name}: {'; '.join(said)}") from None
        if self._path is not None:
            name, access = self._path
            self._restrictions.check_path(workspace, name, str(getattr(inner, name)), access)
        command = getattr(inner, "command", None)
        if isinstance(command, str):
            self._restrictions.check_commands(command_key(command), complete=True)
        return inner

    def _given(self, args: OpenArgs) -> BaseModel | None:
        """None where they do not fit together: the call fails before it does anything."""
        try:
            return self._inner_args(args)
        except ValidationError:
            return None

    def _inner_args(self, args: OpenArgs) -> BaseModel:
        given = {**(args.model_extra or {}), **self._preset}
        inner: BaseModel = self._inner.Args.model_validate_json(json.dumps(given))
        return inner
