"""The work of one call, awaited until it ends or becomes a job: what it prints, and what it is
sent.

What it prints can be read by line while it runs: the end is in memory; all output of a job is in a
file.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

from codeagent.agent.calls import PreparedCall, checked, result_of_error
from codeagent.agent.emitter import Emitter
from codeagent.agent.hooks.hook import Hooks
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import RunCancelled
from codeagent.core.events import JobUpdated, ToolProgress, ToolUpdated
from codeagent.core.memory import OutputPage, OutputSink, OutputStore
from codeagent.core.messages import DONE, OutputStream, require_text, require_update
from codeagent.core.tool import Failed, ToolContext, ToolResult
from codeagent.tools.shell.run import readable

_CANCEL_SECONDS = 10.0
"""Seconds that a cancelled caller waits for the work to end."""
_CHARACTERS_PER_SECOND = 1 << 20
_MOST_MESSAGES = 1000
_KEPT = 32 * 1024
"""Characters in memory, besides the block that is being filled."""
_BLOCK = 4 * 1024
_LONGEST_LINE = 16 * 1024
"""Characters; a longer line is broken, so that output without line ends stays in bounds."""


class OutputThrottle:
    """Lets at most a megabyte of output a second through to the screen, and says how much it held
    back."""

    def __init__(self) -> None:
        self._window = time.monotonic()
        self._shown = 0
        self._held_back = 0

    def take(self, text: str) -> str:
        """Return the part of `text` to show now; it may be empty."""
        now = time.monotonic()
        if now - self._window >= 1:
            self._window = now
            self._shown = 0
        self._shown += len(text)
        if self._shown > _CHARACTERS_PER_SECOND:
            return self.hold_back(text)
        if self._held_back and text:
            text = f"\n[… {self._held_back} characters went by too fast to show …]\n{text}"
            self._held_back = 0
        return text

    def hold_back(self, text: str) -> str:
        """Show none of the text; the next one that is shown says how much was held back."""
        self._held_back += len(text)
        return ""


class _InTurn:
    """Runs pieces of work one after the other, whether or not anybody waits for them."""

    def __init__(self) -> None:
        self._last: asyncio.Task[None] | None = None
        self._waiting = 0

    @property
    def busy(self) -> bool:
        return self._waiting > 0

    @property
    def full(self) -> bool:
        return self._waiting >= _MOST_MESSAGES

    def add(self, work: Coroutine[Any, Any, None]) -> Awaitable[None]:
        """Queue the work; awaiting what is returned waits for its end."""
        self._waiting += 1
        self._last = asyncio.create_task(self._after(self._last, work))
        return asyncio.shield(self._last)

    async def ended(self) -> None:
        if self._last is not None:
            await asyncio.shield(self._last)

    def drop(self) -> None:
        """Cancel all work that has not ended."""
        if self._last is not None:
            self._last.cancel()

    async def _after(
        self, before: asyncio.Task[None] | None, work: Coroutine[Any, Any, None]
    ) -> None:
        try:
            if before is not None:
                await before
            await work
        finally:
            work.close()  # in case it never began
            self._waiting -= 1


class CallWork:
    """The work of one call in a task of its own: only its token ends it early, not a caller that
    stops waiting.

    What it prints is kept, and emitted as the output of the call, or of the job that it became.
    """

    def __init__(
        self,
        prepared: PreparedCall,
        context: ToolContext,
        limit: float | None,
        emitter: Emitter,
        hooks: Hooks,
    ) -> None:
        """Start it under the context's token, for at most `limit` seconds; `context` gets its
        callbacks here."""
        self.prepared = prepared
        self.token = context.cancel
        self.output = JobOutput()
        self.over = False
        """Whether its result was read: what it still sends is ignored."""
        self._emitter = emitter
        self._hooks = hooks
        self._throttle = OutputThrottle()
        self._judging = _InTurn()
        """The updates about which hooks are still being asked, before they are shown."""
        self._sent: asyncio.Queue[str] = asyncio.Queue(_MOST_MESSAGES)
        self._job_id: str | None = None
        self._printed: Callable[[], None] = lambda: None
        loop = asyncio.get_running_loop()
        self._moved: asyncio.Future[str] = loop.create_future()
        self._alarm: asyncio.TimerHandle | None = None
        context = replace(
            context,
            on_update=self._update,
            on_progress=self._progress,
            is_job=lambda: self._job_id is not None,
        )
        self._task = asyncio.create_task(self._work(context))
        if limit is not None:
            self._alarm = loop.call_later(limit, self.token.cancel, f"timeout after {limit:g} s")
            self._task.add_done_callback(lambda _: self._disarm())

    @property
    def movable(self) -> bool:
        """Whether it can be moved to the background."""
        ended = self._task.done() or self._moved.done() or self.token.cancelled
        return not (ended or self.prepared.tool.waits_for_user)

    def after(self, seconds: float, do: Callable[[], object]) -> None:
        """Call `do` if it still runs after so many seconds."""
        timer = asyncio.get_running_loop().call_later(seconds, do)
        self._task.add_done_callback(lambda _: timer.cancel())

    def move(self, job_id: str, *, limited: bool) -> None:
        """Make `settle` return this job's id; unless it stays limited, the time limit no longer
        applies."""
        if not limited:
            self._disarm()
        self._moved.set_result(job_id)

    def become(self, job_id: str, printed: Callable[[], None]) -> None:
        """Treat the output as this job's from now on; `printed` is called after every piece."""
        self._job_id = job_id
        self._printed = printed

    def send(self, text: str) -> bool:
        """Give it text to receive; False if too many texts wait already."""
        if self._sent.full():
            return False
        self._sent.put_nowait(text)
        return True

    async def settle(self) -> ToolResult | str:
        """Wait for the result, or for the id of the job it became."""
        try:
            either: set[asyncio.Future[Any]] = {self._task, self._moved}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not self._moved.done():
                self._task.cancel()
                await asyncio.wait({self._task}, timeout=_CANCEL_SECONDS)
            raise
        if self._moved.done():
            return self._moved.result()
        self.over = True
        return self._task.result()

    async def result(self) -> ToolResult:
        """Wait for the result; a caller that is cancelled leaves the work running."""
        result = await asyncio.shield(self._task)
        self.over = True
        return result

    async def _work(self, context: ToolContext) -> ToolResult:
        """Run the tool, and wait until its updates have been shown."""
        result = await self._result(context)
        if self._judging.busy:
            try:
                await self.token.guard(self._judging.ended())
            except RunCancelled:
                self._judging.drop()
        return result

    async def _result(self, context: ToolContext) -> ToolResult:
        """Run the tool; whatever it raises becomes a result."""
        tool, args = self.prepared.tool, self.prepared.args
        try:
            work = self._talk(context) if tool.mode == "stateful" else tool.run(args, context)
            return checked(await self.token.guard(work))
        except Exception as error:
            failed = result_of_error(error, executed=True, cancelled_because=self.token.reason)
        try:
            return checked(failed)
        except Failed as odd:
            return result_of_error(odd, executed=True)

    async def _talk(self, context: ToolContext) -> ToolResult:
        """Run a stateful tool: what it yields is output, and it receives what is sent to it. Raises
        what it raises."""
        talk = self.prepared.tool.talk(self.prepared.args, replace(context, receive=self._sent.get))
        try:
            text = await talk.asend(None)
            while True:
                await context.on_update(text if text.endswith("\n") else f"{text}\n")
                await asyncio.sleep(0)
                text = await talk.asend(None if self._sent.empty() else self._sent.get_nowait())
        except StopAsyncIteration:
            return ToolResult(content=())
        finally:
            await talk.aclose()

    def _update(self, text: str, stream: OutputStream = "output") -> Awaitable[None]:
        if self.over:
            return DONE
        require_update(text, stream)
        self.output.add(text, stream)
        self._printed()
        shown = self._throttle.hold_back(text) if self._judging.full else self._throttle.take(text)
        if not shown:
            return DONE
        if self._hooks.see_updates(self.prepared.call.name):
            return self._judging.add(self._judged(shown, stream))
        self._show(shown, stream)
        return DONE

    async def _judged(self, shown: str, stream: OutputStream) -> None:
        call = self.prepared.call
        if not self.over and await self._hooks.before_update(call, shown) and not self.over:
            self._show(shown, stream)
            await self._hooks.after_update(call, shown)

    def _show(self, text: str, stream: OutputStream) -> None:
        call = self.prepared.call
        if self._job_id is not None:
            self._emitter.emit(JobUpdated(job_id=self._job_id, text=text, stream=stream))
        else:
            self._emitter.emit(
                ToolUpdated(call_id=call.id, name=call.name, text=text, stream=stream)
            )

    def _progress(self, text: str) -> Awaitable[None]:
        """Emit the text, unless the call has become a job: only a job's output is shown."""
        if self.over:
            return DONE
        require_text("on_progress", text)
        if self._job_id is None:
            call = self.prepared.call
            self._emitter.emit(ToolProgress(call_id=call.id, name=call.name, text=text))
        return DONE

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()


@dataclass
class _Block:
    """A block of whole lines, each with its newline."""

    text: str
    lines: int


class JobOutput:
    """The output of one call. The two streams never mix within a line. Safe to read from another
    thread.

    Until `keep` is called only the end is held: a call that is awaited keeps its output elsewhere.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks: deque[_Block] = deque()
        self._kept = 0
        self._unfinished: dict[OutputStream, str] = {}
        self._lines = 0
        self.characters = 0
        """Printed so far."""
        self._store: OutputStore | None = None
        self._sink: OutputSink | None = None
        self._before_file = 0
        """How many lines were dropped before there was a file."""
        self._ended = False

    @property
    def lines(self) -> int:
        return self._lines + sum(1 for text in self._unfinished.values() if text)

    @property
    def handle(self) -> str | None:
        """The handle of the output in the store; None before `keep`."""
        return None if self._sink is None else self._sink.handle

    @property
    def whole(self) -> bool:
        """Whether the store has all of it, from the first line on."""
        return self._before_file == 0

    def add(self, text: str, stream: OutputStream = "output") -> None:
        with self._lock:
            self.characters += len(text)
            whole = _broken(self._unfinished.get(stream, "") + text)
            cut = whole.rfind("\n") + 1
            self._unfinished[stream] = whole[cut:]
            if cut:
                self._take(whole[:cut])

    def keep(self, store: OutputStore, name: str) -> None:
        """From now on write everything to the store as well, beginning with what is still in
        memory."""
        with self._lock:
            self._store = store
            self._sink = store.create(name)
            self._before_file = self._first - 1
            for block in self._blocks:
                self._sink.write(block.text)

    def flush(self) -> None:
        """Write what the store has buffered to disk."""
        with self._lock:
            if self._sink is not None and not self._ended:
                self._sink.flush()

    def end(self) -> None:
        """Finish the last line and close the file: nothing more is printed. Idempotent."""
        with self._lock:
            if self._ended:
                return
            for stream in tuple(self._unfinished):
                if text := self._unfinished.pop(stream):
                    self._take(f"{text}\n")
            self._ended = True
            if self._sink is not None:
                self._sink.close()

    def forget(self) -> None:
        """Free the memory if the store has everything: from now on it is read from there."""
        with self._lock:
            if self._ended and self._in_file():
                self._blocks.clear()
                self._kept = 0

    def tail(self, characters: int) -> str:
        """Return the last whole lines that fit, as the model reads them; the end of the last line
        if none fits."""
        with self._lock:
            text = "".join(block.text for block in self._blocks) + "".join(
                self._unfinished.values()
            )
        return end_of(readable(text), characters)

    def read(self, offset: int | None, lines: int) -> OutputPage:
        """`lines` lines from line `offset`, counted from 1; None: the last ones. Skips what is
        gone. Blocks."""
        with self._lock:
            total = self._lines + sum(1 for text in self._unfinished.values() if text)
            first = max(1, total - lines + 1 if offset is None else offset)
            held, held_first = self._held(), self._first
            sink, store = self._sink, self._store
            if sink is not None and not self._ended and first < held_first:
                sink.flush()
        if first >= held_first or sink is None or store is None:
            start = max(first, held_first)
            return OutputPage(tuple(held[start - held_first :][:lines]), start, total, 0)
        start = max(first, self._before_file + 1)
        try:
            page = store.read(sink.handle, start - self._before_file, lines)
        except KeyError:
            return OutputPage((), start, total, 0)
        found = tuple(readable(line) for line in page.lines)
        more = held[max(0, start + len(found) - held_first) :][: lines - len(found)]
        joins = start + len(found) >= held_first
        return OutputPage((*found, *(more if joins else ())), start, total, page.dropped_bytes)

    @property
    def _first(self) -> int:
        """Return the number of the first line in memory."""
        return self._lines - sum(block.lines for block in self._blocks) + 1

    def _held(self) -> list[str]:
        whole = "".join(block.text for block in self._blocks)
        held = [readable(line) for line in whole.split("\n")[:-1]] if whole else []
        return held + [readable(text) for text in self._unfinished.values() if text]

    def _in_file(self) -> bool:
        if self._sink is None or self._store is None or not self.whole:
            return False
        try:
            return self._store.read(self._sink.handle, 1, 0).total == self._lines
        except KeyError:
            return False

    def _take(self, text: str) -> None:
        lines = text.count("\n")
        self._lines += lines
        if self._sink is not None:
            self._sink.write(text)
        if len(text) > _KEPT:
            text = text[text.find("\n", len(text) - _KEPT - 1) + 1 :]
            lines = text.count("\n")
            self._blocks.clear()
            self._kept = 0
        if self._blocks and len(self._blocks[-1].text) + len(text) <= _BLOCK:
            self._blocks[-1].text += text
            self._blocks[-1].lines += lines
        else:
            self._blocks.append(_Block(text, lines))
        self._kept += len(text)
        while self._kept - len(self._blocks[0].text) >= _KEPT:
            self._kept -= len(self._blocks.popleft().text)


def _broken(text: str) -> str:
    """Break lines that are too long; of a line that was overwritten, keep only the last state."""
    if len(text) <= _LONGEST_LINE:
        return text
    lines = text.split("\n")
    return "\n".join(line if len(line) <= _LONGEST_LINE else _in_pieces(line) for line in lines)


def _in_pieces(line: str) -> str:
    last = line.rstrip("\r").rpartition("\r")[2]
    return "\n".join(last[at : at + _LONGEST_LINE] for at in range(0, len(last), _LONGEST_LINE))


def end_of(text: str, characters: int) -> str:
    """Return the last whole lines that fit; the end of the last line if none fits."""
    text = text.rstrip("\n")
    if len(text) <= characters:
        return text
    cut = text[-characters:]
    return cut[cut.find("\n") + 1 :] if text[-characters - 1] != "\n" and "\n" in cut else cut
