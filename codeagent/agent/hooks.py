"""Callbacks around calls and updates; one that fails or hangs denies (FEATURES F11)."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from codeagent.core.messages import ToolCall
from codeagent.core.tool import ToolResult


@dataclass(frozen=True)
class Allow:
    """No objection; it never widens what the policy allows."""


@dataclass(frozen=True)
class Deny:
    reason: str


@dataclass(frozen=True)
class Modify:
    """Run with these arguments instead; they are validated again."""

    arguments: dict[str, Any]


BeforeTool = Callable[[ToolCall], Awaitable[bool | Allow | Deny | Modify]]
AfterTool = Callable[[ToolCall, ToolResult], Awaitable[None]]
BeforeUpdate = Callable[[ToolCall, str], Awaitable[bool]]
AfterUpdate = Callable[[ToolCall, str], Awaitable[None]]
OnFailure = Callable[[str], None]


@dataclass(frozen=True)
class Hook:
    """One registration; what is None is not called."""

    name: str
    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    before_update: BeforeUpdate | None = None
    after_update: AfterUpdate | None = None


@dataclass(frozen=True)
class Hooks:
    """All hooks, called in the order of registration."""

    registered: tuple[Hook, ...] = ()
    timeout: float = 10.0
    """Seconds one hook may take."""
    on_failure: OnFailure = field(default=lambda text: None)
    """Told of an after-hook that failed, in one line."""

    @property
    def may_modify(self) -> bool:
        return any(hook.before_tool is not None for hook in self.registered)

    async def before_tool(self, call: ToolCall) -> Deny | Modify | None:
        """The first denial, or the arguments as the hooks left them; None: as they were."""
        modified: Modify | None = None
        for hook in self.registered:
            if hook.before_tool is None:
                continue
            try:
                answer = await asyncio.wait_for(hook.before_tool(call), self.timeout)
            except TimeoutError:
                return Deny(f"the hook {hook.name} did not answer within {self.timeout:g} s")
            except Exception as error:
                return Deny(f"the hook {hook.name} failed: {error}")
            match answer:
                case Deny():
                    return answer
                case Modify():
                    modified = answer
                    call = call.model_copy(update={"arguments": json.dumps(answer.arguments)})
                case Allow() | True:
                    pass
                case _:
                    return Deny(f"denied by the hook {hook.name}")
        return modified

    async def after_tool(self, call: ToolCall, result: ToolResult) -> None:
        for hook in self.registered:
            if hook.after_tool is not None:
                await self._tolerate(hook.name, hook.after_tool(call, result))

    async def before_update(self, call: ToolCall, text: str) -> bool:
        """False where a hook suppresses this one update; a failing hook suppresses it too."""
        for hook in self.registered:
            if hook.before_update is None:
                continue
            try:
                if not await asyncio.wait_for(hook.before_update(call, text), self.timeout):
                    return False
            except Exception as error:
                self.on_failure(f"the hook {hook.name} failed: {error}")
                return False
        return True

    async def after_update(self, call: ToolCall, text: str) -> None:
        for hook in self.registered:
            if hook.after_update is not None:
                await self._tolerate(hook.name, hook.after_update(call, text))

    async def _tolerate(self, name: str, work: Awaitable[None]) -> None:
        try:
            await asyncio.wait_for(work, self.timeout)
        except Exception as error:
            self.on_failure(f"the hook {name} failed: {error or type(error).__name__}")
