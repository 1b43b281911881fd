"""Callbacks around calls, updates, prompts, runs and sessions; one that is asked and fails or hangs denies (F11)."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from codeagent.agent.hook_subjects import Compaction, Prompt, SessionFacts
from codeagent.core.events import RunFinished
from codeagent.core.messages import ToolCall
from codeagent.core.sanitize import one_line
from codeagent.core.tool import ToolResult

T = TypeVar("T")
_LAST_WORDS = 2.0
"""Seconds a hook that took too long may clean up; then it is left behind."""
_LONGEST_REASON = 400


@dataclass(frozen=True)
class Allow:
    """No objection; it never widens what the policy allows."""


@dataclass(frozen=True)
class Deny:
    reason: str = ""


@dataclass(frozen=True)
class Modify:
    """Run with these arguments instead; they are validated again."""

    arguments: dict[str, Any]


@dataclass(frozen=True)
class AddContext:
    """No objection, and the model is told this as well: behind a prompt, or for the summary of a compaction."""

    text: str


ToolAnswer = bool | Allow | Deny | Modify
UpdateAnswer = bool | Allow | Deny
TextAnswer = bool | Allow | Deny | AddContext

BeforeTool = Callable[[ToolCall], Awaitable[ToolAnswer]]
AfterTool = Callable[[ToolCall, ToolResult], Awaitable[None]]
BeforeUpdate = Callable[[ToolCall, str], Awaitable[UpdateAnswer]]
AfterUpdate = Callable[[ToolCall, str], Awaitable[None]]
PromptSubmit = Callable[[Prompt], Awaitable[TextAnswer]]
OnRun = Callable[[RunFinished], Awaitable[None]]
OnSession = Callable[[SessionFacts], Awaitable[None]]
OnCompaction = Callable[[Compaction], Awaitable[TextAnswer]]
OnFailure = Callable[[str], None]


@dataclass(frozen=True)
class Hook:
    """One registration; what is None is not called."""

    name: str
    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    before_update: BeforeUpdate | None = None
    after_update: AfterUpdate | None = None
    prompt_submit: PromptSubmit | None = None
    run_finished: OnRun | None = None
    session_start: OnSession | None = None
    session_end: OnSession | None = None
    compaction: OnCompaction | None = None
    tools: str = "*"
    """The first four are called for tools of such names only; a pattern with `*`, `?` and `[…]`."""


class _Failed(Exception):
    """A hook gave no answer that makes sense; the text is one line."""


@dataclass(frozen=True)
class Hooks:
    """All hooks, called in the order of registration."""

    registered: tuple[Hook, ...] = ()
    timeout: float = 10.0
    """Seconds one hook may take."""
    on_failure: OnFailure = field(default=lambda text: None)
    """Told of a hook that failed and could deny nothing, in one line."""

    def may_modify(self, tool: str) -> bool:
        """A hook is asked about calls of the tool, and may give them other arguments."""
        return any(hook.before_tool is not None and fnmatchcase(tool, hook.tools) for hook in self.registered)

    @property
    def judges_prompts(self) -> bool:
        return any(hook.prompt_submit is not None for hook in self.registered)

    async def before_tool(self, call: ToolCall) -> Deny | Modify | None:
        """The first denial, or the arguments as the hooks left them; None: as they were."""
        modified: Modify | None = None
        for hook in self._for(call):
            if hook.before_tool is None:
                continue
            try:
                answer = await self._answer(hook.name, hook.before_tool, call)
                match answer:
                    case Allow() | True:
                        continue
                    case Modify(arguments):
                        text = _as_json(hook.name, arguments)
                        modified = Modify(json.loads(text))
                        call = replace(call, arguments=text)
                    case _:
                        return _denial(hook.name, answer)
            except _Failed as failure:
                return Deny(str(failure))
        return modified

    async def after_tool(self, call: ToolCall, result: ToolResult) -> None:
        for hook in self._for(call):
            if hook.after_tool is not None:
                await self._tell(hook.name, hook.after_tool, call, result)

    async def before_update(self, call: ToolCall, text: str) -> bool:
        """False where a hook suppresses this one update; a failing hook suppresses it too."""
        for hook in self._for(call):
            if hook.before_update is None:
                continue
            try:
                answer = await self._answer(hook.name, hook.before_update, call, text)
                match answer:
                    case Allow() | True:
                        continue
                    case _:
                        _denial(hook.name, answer)
                        return False
            except _Failed as failure:
                self.on_failure(str(failure))
                return False
        return True

    async def after_update(self, call: ToolCall, text: str) -> None:
        for hook in self._for(call):
            if hook.after_update is not None:
                await self._tell(hook.name, hook.after_update, call, text)

    async def prompt_submit(self, prompt: Prompt) -> Deny | tuple[str, ...]:
        """The first denial, or what the model is told behind the prompt."""
        asked = [(hook.name, hook.prompt_submit) for hook in self.registered if hook.prompt_submit is not None]
        return await self._judge(asked, prompt)

    async def compaction(self, compaction: Compaction) -> Deny | tuple[str, ...]:
        """The first denial, or the hints for the summary."""
        asked = [(hook.name, hook.compaction) for hook in self.registered if hook.compaction is not None]
        return await self._judge(asked, compaction)

    async def run_finished(self, finished: RunFinished) -> None:
        for hook in self.registered:
            if hook.run_finished is not None:
                await self._tell(hook.name, hook.run_finished, finished)

    async def session_start(self, session: SessionFacts) -> None:
        for hook in self.registered:
            if hook.session_start is not None:
                await self._tell(hook.name, hook.session_start, session)

    async def session_end(self, session: SessionFacts) -> None:
        for hook in self.registered:
            if hook.session_end is not None:
                await self._tell(hook.name, hook.session_end, session)

    def _for(self, call: ToolCall) -> Iterator[Hook]:
        return (hook for hook in self.registered if fnmatchcase(call.name, hook.tools))

    async def _judge(
        self, asked: list[tuple[str, Callable[[T], Awaitable[TextAnswer]]]], subject: T
    ) -> Deny | tuple[str, ...]:
        added: list[str] = []
        for name, ask in asked:
            try:
                answer = await self._answer(name, ask, subject)
                match answer:
                    case Allow() | True:
                        continue
                    case AddContext(str() as text):
                        added.append(text)
                    case _:
                        return _denial(name, answer)
            except _Failed as failure:
                return Deny(str(failure))
        return tuple(text for text in added if text.strip())

    async def _tell(self, name: str, tell: Callable[..., Awaitable[None]], *subjects: object) -> None:
        try:
            await self._answer(name, tell, *subjects)
        except _Failed as failure:
            self.on_failure(str(failure))

    async def _answer(self, name: str, ask: Callable[..., Awaitable[T]], *subjects: object) -> T:
        """What the hook answers in time. Raises _Failed, whatever else it does."""

        async def work() -> T:
            return await ask(*subjects)

        task = asyncio.ensure_future(work())
        task.add_done_callback(_look_at)
        try:
            done, _ = await asyncio.wait({task}, timeout=self.timeout)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=_LAST_WORDS)
        if not done:
            raise _Failed(f"the hook {name} did not answer within {self.timeout:g} s")
        if task.cancelled():
            raise _Failed(f"the hook {name} failed: it was cancelled")
        if (error := task.exception()) is not None:
            text = one_line(str(error), _LONGEST_REASON) or type(error).__name__
            raise _Failed(f"the hook {name} failed: {text}")
        return task.result()


def _denial(name: str, answer: object) -> Deny:
    """Raises _Failed where the answer is no denial either."""
    match answer:
        case Deny(reason):
            return Deny(str(reason) or f"denied by the hook {name}")
        case False:
            return Deny(f"denied by the hook {name}")
        case _:
            raise _Failed(f"the hook {name} failed: it answered {type(answer).__name__}, which is no decision here")


def _as_json(name: str, arguments: object) -> str:
    if not isinstance(arguments, dict):
        raise _Failed(f"the hook {name} failed: its arguments are {type(arguments).__name__}, not a dict")
    try:
        return json.dumps(arguments, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _Failed(f"the hook {name} failed: its arguments are no JSON: {error}") from error


def _look_at(task: "asyncio.Future[Any]") -> None:
    """What a hook that was left behind raises later concerns nobody."""
    if not task.cancelled():
        task.exception()
