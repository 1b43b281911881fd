"""What a call prints: readable by line while it runs, the end in memory, all of it in a file."""

import threading
from collections import deque
from dataclasses import dataclass

from codeagent.core.messages import OutputStream
from codeagent.core.ports import OutputPage, OutputSink, OutputStore
from codeagent.tools.shell.run import readable

_KEPT = 32 * 1024
"""Characters in memory, besides the block that is being filled."""
_BLOCK = 4 * 1024
_LONGEST_LINE = 16 * 1024
"""Characters; a longer line is broken, so that what never ends a line stays in bounds."""


@dataclass
class _Block:
    """Whole lines, each with its newline."""

    text: str
    lines: int


class JobOutput:
    """The output of one call. The two streams never mix within a line. Safe to read from another thread.

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
        """Lines that went by before there was a file."""
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
        """Whether the store has it from the first line on."""
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
        """From now on write everything to the store as well, beginning with what is still in memory."""
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
        """Nothing more is printed: finish the last line and close the file. Idempotent."""
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
        """Free the memory where the store has everything: from now on it is read from there."""
        with self._lock:
            if self._ended and self._in_file():
                self._blocks.clear()
                self._kept = 0

    def tail(self, characters: int) -> str:
        """The last whole lines that fit, as a model reads them; the end of the last line where none fits."""
        with self._lock:
            text = "".join(block.text for block in self._blocks) + "".join(self._unfinished.values())
        return end_of(readable(text), characters)

    def read(self, offset: int | None, lines: int) -> OutputPage:
        """`lines` lines from line `offset`, counted from 1; None: the last ones. Skips what is gone. Blocks."""
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
        """Number of the first line in memory."""
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
    """The text without lines that are too long: of a line that was overwritten, only the last state is kept."""
    if len(text) <= _LONGEST_LINE:
        return text
    lines = text.split("\n")
    return "\n".join(line if len(line) <= _LONGEST_LINE else _in_pieces(line) for line in lines)


def _in_pieces(line: str) -> str:
    last = line.rstrip("\r").rpartition("\r")[2]
    return "\n".join(last[at : at + _LONGEST_LINE] for at in range(0, len(last), _LONGEST_LINE))


def end_of(text: str, characters: int) -> str:
    """The last whole lines that fit; the end of the last line where none fits."""
    text = text.rstrip("\n")
    if len(text) <= characters:
        return text
    cut = text[-characters:]
    return cut[cut.find("\n") + 1 :] if text[-characters - 1] != "\n" and "\n" in cut else cut
