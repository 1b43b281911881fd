"""Hooks that are programs: what happens as JSON on standard input, the answer as JSON on standard output.

A program that is asked allows by ending with 0 and printing nothing or `{"decision": "allow"}`. Ending with another
code denies, with its standard error as the reason; an answer that `hook_contract` does not know denies as well.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from pydantic import BaseModel

from codeagent.agent.hook_contract import (
    AnswerAllow,
    AnswerContext,
    AnswerDeny,
    AnswerModify,
    CallResult,
    ToldAfterTool,
    ToldAfterUpdate,
    ToldBeforeTool,
    ToldBeforeUpdate,
    ToldCompaction,
    ToldPromptSubmit,
    ToldRunFinished,
    ToldSessionEnd,
    ToldSessionStart,
    parse_answer,
)
from codeagent.agent.hook_program import run_hook_program
from codeagent.agent.hook_subjects import Compaction, Prompt, SessionFacts
from codeagent.agent.hooks import AddContext, Allow, Deny, Hook, Modify
from codeagent.core.events import RunFinished
from codeagent.core.hook_events import HookEvent
from codeagent.core.messages import ToolCall, text_of
from codeagent.core.tool import ToolResult

_LONGEST_REASON = 500


class _Ended(Exception):
    """The program ended with another code than 0; the text says why."""


@dataclass(frozen=True)
class CommandHook:
    """One configured program."""

    event: HookEvent
    command: tuple[str, ...]
    """Program and arguments; no shell."""
    folder: Path
    """Where it runs."""
    tools: str = "*"
    """Of which tools, as a pattern over their names."""

    def hook(self) -> Hook:
        name, tools = self.command[0], self.tools
        match self.event:
            case "before_tool":
                return Hook(name, before_tool=self._before_tool, tools=tools)
            case "after_tool":
                return Hook(name, after_tool=self._after_tool, tools=tools)
            case "before_update":
                return Hook(name, before_update=self._before_update, tools=tools)
            case "after_update":
                return Hook(name, after_update=self._after_update, tools=tools)
            case "prompt_submit":
                return Hook(name, prompt_submit=self._prompt_submit)
            case "run_finished":
                return Hook(name, run_finished=self._run_finished)
            case "session_start":
                return Hook(name, session_start=self._session_start)
            case "session_end":
                return Hook(name, session_end=self._session_end)
            case "compaction":
                return Hook(name, compaction=self._compaction)
            case _:
                assert_never(self.event)

    async def _before_tool(self, call: ToolCall) -> Allow | Deny | Modify:
        answer = await self._ask(ToldBeforeTool(call=call))
        assert not isinstance(answer, AddContext)  # no answer to this event: the contract has refused it
        return answer

    async def _after_tool(self, call: ToolCall, result: ToolResult) -> None:
        facts = CallResult(
            content=text_of(result.content), is_error=result.is_error, executed=result.executed, error=result.error
        )
        await self._tell(ToldAfterTool(call=call, result=facts))

    async def _before_update(self, call: ToolCall, text: str) -> Allow | Deny:
        answer = await self._ask(ToldBeforeUpdate(call=call, text=text))
        assert isinstance(answer, Allow | Deny)  # no other answer to this event passes the contract
        return answer

    async def _after_update(self, call: ToolCall, text: str) -> None:
        await self._tell(ToldAfterUpdate(call=call, text=text))

    async def _prompt_submit(self, prompt: Prompt) -> Allow | Deny | AddContext:
        return await self._judge(ToldPromptSubmit(text=prompt.text, source=prompt.source))

    async def _compaction(self, compaction: Compaction) -> Allow | Deny | AddContext:
        return await self._judge(ToldCompaction(messages=compaction.messages, tokens=compaction.tokens))

    async def _run_finished(self, finished: RunFinished) -> None:
        await self._tell(
            ToldRunFinished(
                session=finished.session,
                reason=finished.reason,
                text=finished.text,
                usage=finished.usage,
                error=finished.error,
                turns=finished.turns,
                calls=finished.calls,
                duration_ms=finished.duration_ms,
            )
        )

    async def _session_start(self, session: SessionFacts) -> None:
        await self._tell(ToldSessionStart(session=session.id, workspace=session.workspace, resumed=session.resumed))

    async def _session_end(self, session: SessionFacts) -> None:
        await self._tell(ToldSessionEnd(session=session.id, workspace=session.workspace, resumed=session.resumed))

    async def _judge(self, told: BaseModel) -> Allow | Deny | AddContext:
        answer = await self._ask(told)
        assert not isinstance(answer, Modify)  # no answer to these events: the contract has refused it
        return answer

    async def _ask(self, told: BaseModel) -> Allow | Deny | Modify | AddContext:
        """Raises OSError where the program does not start, ValueError where its answer makes no sense."""
        try:
            printed = await self._run(told)
        except _Ended as end:
            return Deny(str(end))
        answer = parse_answer(self.event, printed)
        match answer:
            case AnswerAllow():
                return Allow()
            case AnswerDeny(reason=reason):
                return Deny(reason)
            case AnswerModify(arguments=arguments):
                return Modify(arguments)
            case AnswerContext(text=text):
                return AddContext(text)
            case _:
                assert_never(answer)

    async def _tell(self, told: BaseModel) -> None:
        """Raises OSError where the program does not start, _Ended where it fails; what it prints is not looked at."""
        await self._run(told)

    async def _run(self, told: BaseModel) -> bytes:
        """What the program printed. Raises OSError, ValueError, _Ended."""
        printed = await run_hook_program(self.command, self.folder, json.dumps(told.model_dump()).encode())
        if printed.code != 0:
            reason = printed.err.decode(errors="replace").strip()[:_LONGEST_REASON]
            raise _Ended(reason or f"the hook {self.command[0]} ended with {printed.code}")
        return printed.out


def command_hooks(hooks: Sequence[CommandHook]) -> tuple[Hook, ...]:
    """In the order of the configuration, which is the order they are called in."""
    return tuple(hook.hook() for hook in hooks)
