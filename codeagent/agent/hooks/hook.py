"""Hooks: callbacks around calls, updates, prompts, runs and sessions; one that judges denies if it
fails."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import field, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeVar

from codeagent.core.compaction import CompactionCause
from codeagent.core.dataclass import dataclass
from codeagent.core.events import RunFinished
from codeagent.core.messages import ToolCall, UserMessage
from codeagent.core.policy import HookEvent
from codeagent.core.sanitize import one_line
from codeagent.core.tool import ToolResult

PromptSource = Literal["prompt", "steer", "interrupt", "follow_up"]
T = TypeVar("T")
_CLEANUP_SECONDS = 2.0
"""Seconds that a hook that took too long gets to clean up; then it is left behind."""
_LONGEST_REASON = 400


@dataclass(frozen=True)
class SubmittedPrompt:
    """The user's text that is about to be sent to the model."""

    text: str
    source: PromptSource = "prompt"
    """`prompt` begins a run; the others were typed during one."""


@dataclass(frozen=True)
class PlannedCompaction:
    """A compaction that is about to replace an older part of the conversation with a summary."""

    cause: CompactionCause
    hint: str
    """The user's hint for the summary; empty if they gave none."""
    messages: int
    """How many the conversation has now."""
    tokens: int
    """An estimate of the whole request."""


@dataclass(frozen=True)
class HookSession:
    """The session that starts or ends."""

    id: str
    workspace: str
    resumed: bool


@dataclass(frozen=True)
class Allow:
    """No objection; it never widens what the policy allows."""


@dataclass(frozen=True)
class Deny:
    """An objection, with the reason that the model or the user reads."""

    reason: str = ""
    by_hook: bool = True
    """False if codeagent itself could not do what the text asks for."""

    @property
    def why(self) -> str:
        """The reason, naming the hook."""
        return f"a hook denied it: {self.reason}" if self.by_hook else self.reason


@dataclass(frozen=True)
class Modify:
    """Run with these arguments instead; they are validated again."""

    arguments: dict[str, Any]


@dataclass(frozen=True)
class AddContext:
    """Allow, with text that the model reads after the prompt; before a compaction, what the summary
    must cover."""

    text: str
    note: UserMessage | None = None
    """The note to add, if the hook is one of codeagent's own; otherwise the text is quoted in a
    note."""


ToolAnswer = bool | Allow | Deny | Modify
UpdateAnswer = bool | Allow | Deny
TextAnswer = bool | Allow | Deny | AddContext

BeforeTool = Callable[[ToolCall], Awaitable[ToolAnswer]]
AfterTool = Callable[[ToolCall, ToolResult], Awaitable[None]]
BeforeUpdate = Callable[[ToolCall, str], Awaitable[UpdateAnswer]]
AfterUpdate = Callable[[ToolCall, str], Awaitable[None]]
PromptSubmit = Callable[[SubmittedPrompt], Awaitable[TextAnswer]]
OnCompaction = Callable[[PlannedCompaction], Awaitable[TextAnswer]]
OnRun = Callable[[RunFinished], Awaitable[None]]
OnSession = Callable[[HookSession], Awaitable[None]]
OnFailure = Callable[[str], None]


@dataclass(frozen=True)
class Hook:
    """The callbacks of one registration; those that are None are not called."""

    name: str
    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    before_update: BeforeUpdate | None = None
    after_update: AfterUpdate | None = None
    prompt_submit: PromptSubmit | None = None
    compaction: OnCompaction | None = None
    run_finished: OnRun | None = None
    session_start: OnSession | None = None
    session_end: OnSession | None = None
    tools: str = "*"
    """A pattern with `*`, `?` and `[…]` over the names of the tools that the first four are called
    for."""
    concerns: Callable[[str], bool] | None = None
    """Whether `prompt_submit` is called for a text; None: for every text."""
    may_write: bool = True
    """Whether it may change files of the workspace."""


class _HookFailed(Exception):
    """A hook gave no valid answer; the text is one line."""


@dataclass(frozen=True)
class Hooks:
    """All hooks, called in the order of registration."""

    registered: tuple[Hook, ...] = ()
    timeout: float = 10.0
    """Seconds one hook may take."""
    on_failure: OnFailure = field(default=lambda text: None)
    """Gets one line about a hook that failed when it could not deny anything."""

    def may_modify(self, tool: str) -> bool:
        """Whether a hook judges calls of the tool, and may change their arguments."""
        return any(
            hook.before_tool is not None and fnmatchcase(tool, hook.tools)
            for hook in self.registered
        )

    def see_updates(self, tool: str) -> bool:
        """Whether a hook is called for what calls of the tool show while they run."""
        called = (
            hook
            for hook in self.registered
            if hook.before_update is not None or hook.after_update is not None
        )
        return any(fnmatchcase(tool, hook.tools) for hook in called)

    @property
    def may_write(self) -> bool:
        """Whether a hook may change files of the workspace."""
        return any(hook.may_write for hook in self.registered)

    def judges(self, text: str) -> bool:
        """Whether a hook judges this text of the user before it is sent."""
        return any(self._of_prompt(text))

    async def before_tool(self, call: ToolCall) -> Deny | Modify | None:
        """Return the first denial, or the arguments as changed by the hooks; None if they are
        unchanged."""
        modified: Modify | None = None
        for name, ask in _callbacks("before_tool", self._for(call)):
            try:
                answer = await self._answer(name, ask, call)
                match answer:
                    case Allow() | True:
                        continue
                    case Modify(arguments):
                        text = _as_json(name, arguments)
                        modified = Modify(json.loads(text))
                        call = replace(call, arguments=text)
                    case _:
                        return _denial(name, answer)
            except _HookFailed as failure:
                return Deny(str(failure))
        return modified

    async def after_tool(self, call: ToolCall, result: ToolResult) -> None:
        await self._tell("after_tool", self._for(call), call, result)

    async def before_update(self, call: ToolCall, text: str) -> bool:
        """False if a hook suppresses this one update; a failing hook suppresses it too."""
        for name, ask in _callbacks("before_update", self._for(call)):
            try:
                answer = await self._answer(name, ask, call, text)
                match answer:
                    case Allow() | True:
                        continue
                    case _:
                        _denial(name, answer)
                        return False
            except _HookFailed as failure:
                self.on_failure(str(failure))
                return False
        return True

    async def after_update(self, call: ToolCall, text: str) -> None:
        await self._tell("after_update", self._for(call), call, text)

    async def prompt_submit(self, prompt: SubmittedPrompt) -> Deny | tuple[AddContext, ...]:
        """Return the first denial, or what the model reads after the prompt."""
        return await self._judged("prompt_submit", self._of_prompt(prompt.text), prompt)

    async def compaction(self, planned: PlannedCompaction) -> Deny | tuple[str, ...]:
        """Return the first denial, or what the summary has to cover."""
        answer = await self._judged("compaction", self.registered, planned)
        return answer if isinstance(answer, Deny) else tuple(added.text for added in answer)

    async def run_finished(self, finished: RunFinished) -> None:
        await self._tell("run_finished", self.registered, finished)

    async def session_start(self, session: HookSession) -> None:
        await self._tell("session_start", self.registered, session)

    async def session_end(self, session: HookSession) -> None:
        await self._tell("session_end", self.registered, session)

    def _for(self, call: ToolCall) -> Iterator[Hook]:
        return (hook for hook in self.registered if fnmatchcase(call.name, hook.tools))

    def _of_prompt(self, text: str) -> Iterator[Hook]:
        judging = (hook for hook in self.registered if hook.prompt_submit is not None)
        return (hook for hook in judging if hook.concerns is None or hook.concerns(text))

    async def _judged(
        self, event: HookEvent, hooks: Iterable[Hook], subject: object
    ) -> Deny | tuple[AddContext, ...]:
        """Return the first denial, or what the hooks added."""
        added: list[AddContext] = []
        for name, callback in _callbacks(event, hooks):
            try:
                answer = await self._answer(name, callback, subject)
                match answer:
                    case Allow() | True:
                        continue
                    case AddContext(str()):
                        added.append(answer)
                    case _:
                        return _denial(name, answer)
            except _HookFailed as failure:
                return Deny(str(failure))
        return tuple(one for one in added if one.note or one.text.strip())

    async def _tell(self, event: HookEvent, hooks: Iterable[Hook], *subjects: object) -> None:
        for name, callback in _callbacks(event, hooks):
            try:
                await self._answer(name, callback, *subjects)
            except _HookFailed as failure:
                self.on_failure(str(failure))

    async def _answer(self, name: str, ask: Callable[..., Awaitable[T]], *subjects: object) -> T:
        """Return the hook's answer. Raises _HookFailed if it raises, is cancelled or does not
        answer in time."""

        async def work() -> T:
            return await ask(*subjects)

        task = asyncio.ensure_future(work())
        task.add_done_callback(_retrieve_exception)
        try:
            done, _ = await asyncio.wait({task}, timeout=self.timeout)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=_CLEANUP_SECONDS)
        if not done:
            raise _HookFailed(f"the hook {name} did not answer within {self.timeout:g} s")
        if task.cancelled():
            raise _HookFailed(f"the hook {name} failed: it was cancelled")
        if (error := task.exception()) is not None:
            text = one_line(str(error), _LONGEST_REASON) or type(error).__name__
            raise _HookFailed(f"the hook {name} failed: {text}")
        return task.result()


def _callbacks(
    event: HookEvent, hooks: Iterable[Hook]
) -> Iterator[tuple[str, Callable[..., Awaitable[Any]]]]:
    """Yield name and callback of the hooks that are called at the event."""
    for hook in hooks:
        if (callback := getattr(hook, event)) is not None:
            yield hook.name, callback


def _denial(name: str, answer: object) -> Deny:
    """Return the answer as a denial. Raises _HookFailed if it is not one."""
    match answer:
        case Deny(reason, by_hook):
            return Deny(str(reason) or f"denied by the hook {name}", by_hook)
        case False:
            return Deny(f"denied by the hook {name}")
        case _:
            raise _HookFailed(
                f"the hook {name} failed: it answered {type(answer).__name__}, which is not a decision here"
            )


def _as_json(name: str, arguments: object) -> str:
    if not isinstance(arguments, dict):
        raise _HookFailed(
            f"the hook {name} failed: its arguments are {type(arguments).__name__}, not a dict"
        )
    try:
        return json.dumps(arguments, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _HookFailed(f"the hook {name} failed: its arguments are not JSON: {error}") from error


def _retrieve_exception(task: "asyncio.Future[Any]") -> None:
    """Keep asyncio from warning about what a hook that was left behind raises later."""
    if not task.cancelled():
        task.exception()
