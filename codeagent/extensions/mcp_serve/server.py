"""Speaks MCP over standard input and output: lists the tools, makes the other program's calls, asks
its user."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from codeagent import __version__
from codeagent.config.sessions import Outcome, RunReader
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.dataclass import dataclass
from codeagent.core.display import QuestionBlock, plain_text
from codeagent.core.errors import CodeagentError
from codeagent.core.messages import ContentPart, ImagePart, TextPart
from codeagent.core.policy import Decision
from codeagent.core.redact import Redactor
from codeagent.core.runtime import Session
from codeagent.core.sanitize import folded, on_one_line, one_line, visible
from codeagent.core.tool import ToolDefinition
from codeagent.extensions.mcp_serve.calls import (
    AgentReader,
    CallingModel,
    CallOutcome,
    CallQueue,
    PendingCall,
    Progress,
    failure,
)
from codeagent.extensions.mcp_serve.lines import InputLines

_READ_ONLY = frozenset({"read", "list", "search", "output_read"})
OFFERED = frozenset({"bash", "read", "write", "edit", "list", "search", "output_read"})
"""The offered tools; `output_read` is among them because a result that was cut names it."""
_JOB = "run_in_background"
"""An argument of bash that is not offered, as the caller could not read the job's output or stop
it."""
_AGENT = types.Tool(
    name="agent",
    description=(
        "Have the coding agent work on a task in this folder, with its own model, until it is done; returns what it "
        "says at the end."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "prompt": {
                "type": "string",
                "description": "What to do, in full: it knows nothing else.",
            }
        },
        "required": ["prompt"],
        "additionalProperties": False,
    },
)
_APPROVAL = "approval"
_YES, _NO = "allow", "deny"
_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "string", "title": "Run it?", "enum": [_YES, _NO]}},
    "required": ["answer"],
}
_PATIENCE = 600.0
"""Seconds after which an unanswered question counts as a no."""
_MOST_AGENTS = 8
"""The most agents that work at the same time; each is a conversation with its own container."""
_LONGEST_QUESTION = 8000
"""Characters shown of what a question is about."""

Context = ServerRequestContext[Any, Any]
WorkOn = Callable[[str, RunReader], Awaitable[Outcome]]
"""Works on a prompt. Raises CodeagentError."""


@dataclass(frozen=True)
class Offer:
    """What is offered to the other program."""

    session: Session
    """The settings for the calls, which use the model below."""
    model: CallingModel
    work: WorkOn | None
    """Works with a real model, for `agent`; None if no model is set."""
    redactor: Redactor


async def serve(offer: Offer, lines: InputLines) -> None:
    """Serve one program until it closes the connection. Standard output carries only the
    protocol."""
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    service = _Service(offer)
    server: Server[Any] = Server(
        "codeagent",
        version=__version__,
        instructions=(
            "Tools that work in one folder, commands in a sandbox. A call that the user has to approve is asked about "
            "through elicitation, or denied with what to allow."
        ),
        on_list_tools=service.list_tools,
        on_call_tool=service.call_tool,
    )
    try:
        async with stdio_server(stdin=lines) as (read, write):  # type: ignore[arg-type]  # only iterated over
            await server.run(read, write, server.create_initialization_options())
    except* OSError:
        pass  # the program closed its end during a write
    finally:
        await service.close()


class _Service:
    """The handlers of one connection."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._queue = CallQueue(offer.session.agent, offer.model)
        self._tools = [
            _described(tool) for tool in offer.session.next_request().tools if tool.name in OFFERED
        ]
        if offer.work is not None:
            self._tools.append(_AGENT)
        self._asked: dict[str, tuple[PendingCall, ApprovalRequested, asyncio.TimerHandle]] = {}
        """Calls whose question was sent as their result, by the token that the program returns."""
        self._agents: set[asyncio.Task[None]] = set()

    async def list_tools(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._tools)

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Make a call. Raises MCPError for a tool that is not offered, or an unknown token."""
        pending = self._answered(params) if params.request_state else self._started(context, params)
        told = 0
        try:
            while True:
                match await pending.next():
                    case Progress(text):
                        told += 1
                        await context.session.report_progress(told, message=self._clean(text))
                    case CallOutcome() as outcome:
                        return self._result(outcome)
                    case question if not _can_ask(context, question):
                        pending.answer(question, _refusal(question))
                    case question if context.session.can_send_request:
                        given = await context.session.elicit_form(
                            self._words(question), _FORM, context.request_id
                        )
                        pending.answer(question, _decision(given))
                    case question:
                        return self._ask(pending, question)
        except BaseException:
            pending.cancel()
            raise

    async def close(self) -> None:
        """End everything in progress; then every call has its result in the log."""
        for pending, _, timer in self._asked.values():
            timer.cancel()
            pending.cancel()
        for task in self._agents:
            task.cancel()
        if self._agents:
            await asyncio.wait(self._agents)
        await self._queue.close()

    def _started(self, context: Context, params: types.CallToolRequestParams) -> PendingCall:
        if params.name not in {tool.name for tool in self._tools}:
            names = ", ".join(tool.name for tool in self._tools)
            raise MCPError(
                types.INVALID_PARAMS,
                f"no tool is named {one_line(params.name, 80)!r}; there are {names}",
            )
        arguments = params.arguments or {}
        if _JOB in arguments:
            raise MCPError(types.INVALID_PARAMS, f"{_JOB} is not offered here; call it without")
        if params.name == _AGENT.name and self._offer.work is not None:
            return self._start_agent(arguments, self._offer.work)
        return self._queue.start(_program(context), params.name, arguments)

    def _start_agent(self, arguments: Mapping[str, Any], work: WorkOn) -> PendingCall:
        """Start an agent. Raises MCPError."""
        prompt = arguments.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip() or len(arguments) > 1:
            raise MCPError(
                types.INVALID_PARAMS, "agent takes one argument, prompt, which must not be empty"
            )
        if len(self._agents) >= _MOST_AGENTS:
            refused = PendingCall(lambda *_: None, lambda: None)
            refused.put(
                failure(
                    f"{_MOST_AGENTS} agents are already at work; call again when one of them has ended"
                )
            )
            return refused

        def cancel() -> None:
            task.cancel()

        reader = AgentReader(cancel)
        task = asyncio.create_task(self._run_agent(prompt, reader, work))
        self._agents.add(task)
        task.add_done_callback(self._agents.discard)
        return reader.pending

    async def _run_agent(self, prompt: str, reader: AgentReader, work: WorkOn) -> None:
        """Have an agent work on the prompt; the call gets its outcome even if that fails."""
        try:
            await work(prompt, reader)
        except CodeagentError as error:
            reader.pending.put(failure(str(error)))
        finally:
            reader.pending.put(failure("the agent was stopped"))

    def _ask(self, pending: PendingCall, question: ApprovalRequested) -> types.InputRequiredResult:
        """Return the question as the result: the program calls again, with the answer and the
        token."""
        token = secrets.token_urlsafe(24)
        loop = asyncio.get_running_loop()
        self._asked[token] = pending, question, loop.call_later(_PATIENCE, self._give_up, token)
        form = types.ElicitRequestFormParams(message=self._words(question), requested_schema=_FORM)
        return types.InputRequiredResult(
            input_requests={_APPROVAL: types.ElicitRequest(params=form)}, request_state=token
        )

    def _answered(self, params: types.CallToolRequestParams) -> PendingCall:
        found = self._asked.pop(params.request_state or "", None)
        if found is None:
            raise MCPError(
                types.INVALID_PARAMS, "this question is no longer open; call the tool again"
            )
        pending, question, timer = found
        timer.cancel()
        given = (params.input_responses or {}).get(_APPROVAL)
        pending.answer(question, _decision(given))
        return pending

    def _give_up(self, token: str) -> None:
        pending, _, _ = self._asked.pop(token)
        pending.cancel()

    def _words(self, question: ApprovalRequested) -> str:
        """Return what the question is about, in full, and why it is asked."""
        what = folded(self._clean(plain_text(question.blocks) or question.target))
        if len(what) > _LONGEST_QUESTION:
            what = (
                f"{what[:_LONGEST_QUESTION]}\n[… {len(what) - _LONGEST_QUESTION} more characters …]"
            )
        why = folded(on_one_line(self._clean(question.reason)))
        return f"{one_line(question.name, 80)}: {why}\n\n{what}"

    def _result(self, outcome: CallOutcome) -> types.CallToolResult:
        return types.CallToolResult(
            content=[self._content(part) for part in outcome.content], is_error=outcome.is_error
        )

    def _content(self, part: ContentPart) -> types.ContentBlock:
        match part:
            case TextPart():
                text = self._offer.redactor.clean(part.text)
                return types.TextContent(text=text.encode("utf-8", "replace").decode())
            case ImagePart():
                return types.ImageContent(data=part.data, mime_type=part.media_type)

    def _clean(self, text: str) -> str:
        return visible(self._offer.redactor.clean(text))


def _described(tool: ToolDefinition) -> types.Tool:
    parameters: dict[str, Any] = dict(tool.parameters)
    offered = {
        name: schema for name, schema in parameters.get("properties", {}).items() if name != _JOB
    }
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=parameters | {"properties": offered},
        annotations=types.ToolAnnotations(read_only_hint=tool.name in _READ_ONLY),
    )


def _program(context: Context) -> str:
    """Return the calling program's own name."""
    told = context.session.client_params
    if told is None:
        return "A program"
    return (
        one_line(f"{told.client_info.name} {told.client_info.version}".strip(), 80) or "A program"
    )


def _can_ask(context: Context, question: ApprovalRequested) -> bool:
    """Whether the program can ask its user by a form; the agent's own questions need more than yes
    or no."""
    told = context.session.client_capabilities
    elicits = None if told is None else told.elicitation
    if elicits is None or any(isinstance(block, QuestionBlock) for block in question.blocks):
        return False
    return elicits.form is not None or elicits.url is None


def _refusal(question: ApprovalRequested) -> Decision:
    if any(isinstance(block, QuestionBlock) for block in question.blocks):
        return Decision("deny", "no user", source="auto")
    rule = question.proposal or f"{question.name}(PATTERN)"
    text = (
        f"this has to be approved, and the program that called cannot ask its user; to allow it, start codeagent mcp "
        f"serve with --allow '{rule}', or put the rule into config.toml"
    )
    return Decision("deny", text, source="auto")


def _decision(given: object) -> Decision:
    """Return the decision; only an accepted form that says so is a yes."""
    if (
        isinstance(given, types.ElicitResult)
        and given.action == "accept"
        and (given.content or {}).get("answer") == _YES
    ):
        return Decision("once")
    return Decision("deny")
