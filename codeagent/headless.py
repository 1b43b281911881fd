"""The front end without a screen: prints a run as text, json or jsonl, and makes an exit code of
its end."""

import asyncio
import json
import os
import queue
import select
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Literal

from codeagent.core.acts import Answer, RunGroup, RunRecipe, Stop
from codeagent.core.approval_events import ApprovalRequested, EffectsFound
from codeagent.core.audit import gather_stats
from codeagent.core.compaction import ContextCompacted, compacted_words
from codeagent.core.dataclass import dataclass
from codeagent.core.display import QuestionBlock
from codeagent.core.event_json import event_json
from codeagent.core.events import (
    BatchPlanned,
    JobFinished,
    JobStarted,
    KnownEvent,
    LimitReached,
    MessageAdded,
    Notice,
    ProviderToolUsed,
    RunFinished,
    RunReason,
    RunStarted,
    ToolCallDelta,
    ToolResultAdded,
    ToolStarted,
)
from codeagent.core.jobs import TriggerFired
from codeagent.core.json_types import MAIN
from codeagent.core.messages import AssistantMessage, Usage
from codeagent.core.notices import (
    AgentStarted,
    RecipeStepBegun,
    RecipeStopped,
    RunNotBegun,
    SessionNotSaved,
    TypedNotice,
)
from codeagent.core.policy import EFFECTS, HOSTS, Decision
from codeagent.core.redact import Redactor
from codeagent.core.runtime import AgentHandle, Session
from codeagent.core.sanitize import one_line, visible, visible_json

if TYPE_CHECKING:  # only on a terminal
    from codeagent.console.run_view import RunView

Output = Literal["text", "json", "jsonl"]
Channel = Literal["out", "err"]

EXIT_CODES: dict[RunReason, int] = {
    "done": 0,
    "failed": 1,
    "limit": 3,
    "denied": 4,
    "interrupted": 130,
}
BROKEN_PIPE = 128 + signal.SIGPIPE
"""Exit code if the reader of standard output went away, as a shell reports it."""
NOBODY = "there is nobody to ask (headless); allow it with --allow or --yes"
NOBODY_FOR_HOSTS = "nobody to ask; --allow 'network(HOST)' allows it"
NO_USER = "no user"
"""The answer to the agent's own questions; a yes would be no answer to them."""
_BACKLOG = 1024 * 1024
"""Unwritten bytes beyond which no more events are read; the agent continues."""
_WIDTH = 110
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True)
class Streams:
    """Where bytes go; None if the descriptor was closed before the start."""

    out: Callable[[bytes], None] | None
    err: Callable[[bytes], None] | None
    out_is_terminal: bool = False
    err_is_terminal: bool = False
    """Whether a line there can be drawn again."""
    out_is_drawn: bool = False
    """Whether answers are drawn there as Markdown: for a user, and never for a program."""

    @classmethod
    def standard(cls) -> "Streams":
        out = None if sys.stdout is None else write_all_to(1)
        err = None if sys.stderr is None else write_all_to(2)
        draws = os.environ.get("TERM", "dumb") != "dumb"
        terminal = out is not None and os.isatty(1)
        redraws = draws and err is not None and os.isatty(2)
        return cls(out, err, terminal, redraws, draws and terminal)


class Headless:
    """Prints what happens and answers what is asked, without a user.

    Standard output holds the result only: the assistant's text, one json object, or one event per
    line. Everything else goes to standard error.
    """

    def __init__(
        self, streams: Streams, redactor: Redactor, *, output: Output, approve: bool
    ) -> None:
        self._redactor = redactor
        self._output = output
        self._approve = approve
        self._writer = _Writer(streams, self._output_failed)
        self._view = self._view_on(streams)
        self._agent: AgentHandle | None = None
        self._failure: OSError | None = None
        self._signal: signal.Signals | None = None
        self._targets: dict[tuple[str, str], str] = {}
        """By agent and call."""
        self._results: list[ToolResultAdded] = []
        self._finished: RunFinished | None = None
        self._ends: list[tuple[str, RunFinished]] | None = None
        """Of a recipe: the steps that ended, and how; None for a prompt."""
        self._step = ""
        """The step that is running."""
        self._unsaved = False
        """The end of the run is not in the log."""
        self._said = False

    def say(self, text: str) -> None:
        """Print a line for the user on standard error."""
        line = self._redactor.clean(text)
        if self._view is None or not self._view.say(line):
            self._put("err", f"{line}\n")

    def _put(self, channel: Channel, text: str) -> None:
        """Print a text instead of the live line, which comes back."""
        if self._view is not None:
            self._view.erase()
        self._writer.put(channel, text)

    def _view_on(self, streams: Streams) -> "RunView | None":
        """Return what draws the run, if answers or messages are printed on a terminal."""
        live = streams.err_is_terminal and self._output != "jsonl"
        answers = streams.out_is_drawn and self._output == "text"
        if not live and not answers:
            return None
        from codeagent.console.run_view import RunView  # only on a terminal

        return RunView(self._writer.draw, self._redactor.clean, live=live, answers=answers)

    async def run(self, runtime: Session, prompt: str | RunRecipe | RunGroup) -> int:
        """Run one prompt, every step of a recipe, or a group, to its end, and return the exit code.

        The runtime is left open.
        """
        self._agent = runtime.agent
        self._ends = [] if isinstance(prompt, RunRecipe) else None
        self._catch_signals()
        try:
            async for event in runtime.agent.run(prompt):
                if isinstance(event, RunStarted) and (
                    self._signal is not None or self._failure is not None
                ):
                    self._abort()
                self.show(event)
                if isinstance(event, ApprovalRequested):
                    self._answer(event)
                await self._writer.room()
        finally:
            self._agent = None
        if self._output == "json" and self._ends:
            self._put("out", self._report_of_steps(self._ends))
        return self._exit_code()

    async def close(self) -> None:
        """Write what is left and give the signals back; idempotent."""
        if self._view is not None:
            self._view.close()
        await self._writer.close()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    def show_outside(self, event: KnownEvent) -> None:
        """Print what is emitted before the run, as an observer of the agent; the run itself is
        read."""
        if self._agent is None:
            self.show(event)

    def show(self, event: KnownEvent) -> None:
        """Print one event."""
        if self._view is not None:
            self._view.take(event)
        if isinstance(event, ToolResultAdded):
            self._results.append(event)
        end = end_of(event) if event.agent == MAIN else None
        self._finished = end or self._finished
        if isinstance(event, RecipeStepBegun):
            self._step = event.step
        if end is not None and self._ends is not None:
            self._ends.append((self._step, end))
        self._unsaved = self._unsaved or isinstance(event, SessionNotSaved)
        match self._output:
            case "jsonl" if isinstance(event, ToolCallDelta):
                pass  # in pieces, a secret in arguments could not be masked; the whole call comes next
            case "jsonl":
                self._put("out", visible_json(event_json(event, self._redactor)) + "\n")
                if end is not None and end.reason in ("failed", "limit", "denied"):
                    self.say(_end_line(end))
                elif isinstance(event, SessionNotSaved):
                    self._show_progress(event)
            case "json":
                self._show_progress(event)
                if end is not None and self._ends is None:
                    self._put("out", _json_line(self._report(end)))
            case "text":
                self._show_progress(event)
                match event:
                    case MessageAdded(message=AssistantMessage(text=text)) if event.agent == MAIN:
                        self._show_text(text)

    def _show_text(self, text: str) -> None:
        if self._view is not None and self._view.answer(text):
            return
        if text := text.strip():
            gap = "\n" if self._said else ""
            self._said = True
            self._put("out", f"{gap}{self._redactor.clean(text)}\n")

    def _show_progress(self, event: KnownEvent) -> None:
        """Say what happened, behind the name of the child to which it did."""
        agent = event.agent
        whose = "" if agent == MAIN else f"{agent}: "
        match event:
            case BatchPlanned():
                self._targets |= {(agent, call.call_id): call.target for call in event.calls}
            case ToolStarted():
                self._targets[agent, event.call_id] = event.target
            case ToolResultAdded():
                self.say(whose + _call_line(event, self._targets.pop((agent, event.call_id), "")))
            case ProviderToolUsed():
                self.say(whose + event.told())
            case EffectsFound():
                self.say(f"{whose}± {one_line(event.told(), 400)}")
            case JobStarted():
                self.say(f"{whose}… {event.job_id} started: {one_line(event.title, _WIDTH)}")
            case JobFinished():
                why = f": {one_line(event.summary, _WIDTH)}" if event.summary else ""
                self.say(f"{whose}… {event.job_id} {event.status}{why}")
            case AgentStarted() if whose:
                pass  # its parent said so
            case TriggerFired():
                self.say(f"… {event.trigger.id} fired: {one_line(event.trigger.title, _WIDTH)}")
            case Notice() | TypedNotice():
                self.say(f"{whose}{event.level}: {one_line(event.text, 400)}")
            case ContextCompacted():
                self.say(whose + compacted_words(event))
            case LimitReached():
                self.say(f"{whose}the limit {event.limit} = {event.maximum:g} is reached")
            case RunFinished():
                self.say(whose + _end_line(event))
            case _:
                pass

    def _report_of_steps(self, ends: Sequence[tuple[str, RunFinished]]) -> str:
        """One object as for a single run, whose counts are those of all steps, with `steps` beside
        them."""
        last = ends[-1][1]
        total = replace(
            last,
            usage=sum((end.usage for _, end in ends), Usage()),
            turns=sum(end.turns for _, end in ends),
            duration_ms=sum(end.duration_ms for _, end in ends),
        )
        steps = [
            {"step": step, "reason": end.reason, "text": self._redactor.clean(end.text)}
            for step, end in ends
        ]
        return _json_line({**self._report(total), "steps": steps})

    def _report(self, event: RunFinished) -> dict[str, object]:
        counted = asdict(gather_stats(self._results))
        told = ("total_calls", "successful", "failed", "total_duration_ms", "tools", "errors")
        return {
            "text": self._redactor.clean(event.text),
            "reason": event.reason,
            "session": event.session,
            "usage": asdict(event.usage),
            "tool_stats": {name: counted[name] for name in told},
            "turns": event.turns,
            "duration_ms": event.duration_ms,
            "error": None if event.error is None else self._redactor.clean(event.error),
        }

    def _answer(self, event: ApprovalRequested) -> None:
        if self._agent is not None:
            self._agent.do(answer_of_nobody(event, approve=self._approve))

    def _abort(self) -> None:
        if self._agent is None:
            return
        self._agent.do(
            Stop(
                f"stopped by {self._signal.name}" if self._signal else "standard output was closed"
            )
        )

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            # nohup stays in force; SIGINT does not stay ignored as shells set it for background
            # jobs.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: signal.Signals) -> None:
        if self._signal is not None:
            os._exit(128 + number)
        self._signal = number
        self._abort()

    def _output_failed(self, error: OSError) -> None:
        self._failure = error
        self._abort()

    def _exit_code(self) -> int:
        if self._signal is not None:
            return 128 + self._signal
        if isinstance(self._failure, BrokenPipeError):
            return BROKEN_PIPE
        if self._failure is not None:
            self.say(
                f"standard output cannot be written ({self._failure.strerror}); the session is kept"
            )
            return 1
        if self._finished is None or self._unsaved:
            return 1
        return EXIT_CODES[self._finished.reason]


class _Writer:
    """Writes in a thread, so that a reader that does not read holds up neither the agent nor a
    signal."""

    def __init__(self, streams: Streams, on_failure: Callable[[OSError], None]) -> None:
        self._targets: dict[Channel, Callable[[bytes], None] | None] = {
            "out": streams.out,
            "err": streams.err,
        }
        self._out_is_terminal = streams.out_is_terminal
        self._on_failure = on_failure
        self._queue: queue.SimpleQueue[tuple[Channel, bytes] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._backlog = 0
        self._written = asyncio.Event()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._work, name="output", daemon=True)
        self._thread.start()

    def put(self, channel: Channel, text: str) -> None:
        """Queue a text: nothing of it acts on a terminal, and a file or pipe gets results as they
        are."""
        self._add(channel, visible(text) if channel == "err" or self._out_is_terminal else text)

    def draw(self, text: str, channel: Channel) -> None:
        """Queue text that may act on the terminal: moves of the cursor, and styles around visible
        text."""
        self._add(channel, text)

    def _add(self, channel: Channel, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        self._backlog += len(data)
        self._queue.put((channel, data))

    async def room(self) -> None:
        """Wait while too much is unwritten."""
        while self._backlog > _BACKLOG:
            self._written.clear()
            await self._written.wait()

    async def close(self) -> None:
        """Return once everything is written, or cannot be."""
        self._queue.put(None)
        await self._ended.wait()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            channel, data = item
            target = self._targets[channel]
            if target is not None:
                try:
                    target(data)
                except OSError as error:
                    self._targets[channel] = None
                    if channel == "out":
                        self._tell(self._on_failure, error)
            self._tell(self._wrote, len(data))
        self._tell(self._ended.set)

    def _wrote(self, size: int) -> None:
        self._backlog -= size
        self._written.set()

    def _tell(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            pass  # the loop is closed: nobody is waiting


def write_all_to(fd: int) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(fd, rest) :]
            except BlockingIOError:
                select.select([], [fd], [])

    return write


def _json_line(report: Mapping[str, object]) -> str:
    return visible_json(json.dumps(report, ensure_ascii=False)) + "\n"


def _call_line(result: ToolResultAdded, target: str) -> str:
    if result.error is None:
        nothing = "  ✓ changed nothing" if result.details.get("files_changed") == 0 else ""
        took = _seconds(result.duration_ms)
        return f"✓ {result.name:<6} {one_line(target, _WIDTH - 20)}  {took}{nothing}"
    mark = "–" if result.error.kind == "skipped" else "✗"
    kind, message = result.error.kind, result.error.message
    why = message if message.lower().startswith(kind) else f"{kind}: {message}"
    return f"{mark} {result.name:<6} {one_line(target, _WIDTH // 2)}  {one_line(why, _WIDTH)}"


def answer_of_nobody(event: ApprovalRequested, *, approve: bool) -> Answer:
    """Return the answer to a request: a yes only if everything is to be approved."""
    if any(isinstance(block, QuestionBlock) for block in event.blocks):
        return Answer(event.approval_id, Decision("deny", NO_USER, source="auto"))
    if approve:
        return Answer(event.approval_id, Decision("once", source="flag"))
    why = NOBODY_FOR_HOSTS if event.name == HOSTS else NOBODY
    if event.name == EFFECTS and event.proposal:
        why = f"nobody to ask; --allow '{event.proposal}' takes it"
    return Answer(event.approval_id, Decision("deny", why, source="auto"))


def end_of(event: KnownEvent) -> RunFinished | None:
    """Return the run's end if the event is one, or says that the run could not begin."""
    match event:
        case RunFinished():
            return event
        case RunNotBegun():
            return _without_run(event, "denied")
        case RecipeStopped() if event.error is not None:
            return _without_run(event, "failed")
        case _:
            return None


def _without_run(event: TypedNotice, reason: RunReason) -> RunFinished:
    end = RunFinished(
        reason=reason, text="", usage=Usage(), turns=0, calls=0, error=event.text, duration_ms=0
    )
    return replace(end, seq=event.seq, ts=event.ts, session=event.session, agent=event.agent)


def _end_line(event: RunFinished) -> str:
    parts = [
        event.reason if event.error is None else f"{event.reason}: {one_line(event.error, 400)}"
    ]
    counts = f"{_count(event.turns, 'turn')}, {_count(event.calls, 'call')}"
    usage = event.usage
    about, cost = (
        "about " if usage.estimated else "",
        f", ${usage.cost_usd:.4f}" if usage.cost_usd else "",
    )
    if usage.cost_usd is None and usage.input_tokens:
        cost = ", no price known"
    tokens = f"{about}{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{cost}"
    return " · ".join(
        [*parts, counts, tokens, _seconds(event.duration_ms), f"session {event.session}"]
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
