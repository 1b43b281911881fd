"""Collects what a command prints, in bounded memory: whole for the store, head and tail for the model."""

import codecs
import re
from collections import deque
from collections.abc import Callable
from typing import Literal

from codeagent.core.ports import OutputSink

Stream = Literal["stdout", "stderr"]

_KEPT = 64 * 1024
"""Characters kept as they came at each end: what the model gets is cut from these."""
_LONGEST_LINE = 64 * 1024
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # titles, links, device strings
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
)
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n])")
_ERASED = re.compile(r"[^\n\x08]\x08")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class CommandOutput:
    """Takes the bytes of both streams; lines of the two are never mixed within a line."""

    def __init__(self, open_sink: Callable[[], OutputSink], head: int = 16_000, tail: int = 16_000) -> None:
        """`open_sink` is called once there is more than the model is shown; sizes are characters."""
        self._open_sink = open_sink
        self._head_size, self._tail_size = head, tail
        self._decoders = {stream: codecs.getincrementaldecoder("utf-8")("backslashreplace") for stream in _STREAMS}
        self._unfinished: dict[Stream, str] = {"stdout": "", "stderr": ""}
        self._head: list[str] = []
        self._head_length = 0
        self._tail: deque[str] = deque()
        self._tail_length = 0
        self._sink: OutputSink | None = None
        self._text: str | None = None
        self.bytes = 0
        self.characters = 0
        self.lines = 0
        self.truncated = False

    @property
    def handle(self) -> str | None:
        """Where all of it can be read; None where the model has all of it."""
        return None if self._sink is None else self._sink.handle

    def feed(self, stream: Stream, data: bytes) -> str:
        """Take the next bytes and return their text for whoever watches."""
        self.bytes += len(data)
        text = self._decoders[stream].decode(data)
        self._take_lines(stream, text)
        return text

    def finish(self) -> str:
        """Take in unfinished lines, close the stored copy, and return the text for the model."""
        if self._text is not None:
            return self._text
        for stream in _STREAMS:
            rest = self._unfinished[stream] + self._decoders[stream].decode(b"", final=True)
            self._unfinished[stream] = ""
            self._add(rest)
        self._text = self._for_model()
        if self._sink is not None:
            self._sink.close()
        return self._text

    def _take_lines(self, stream: Stream, text: str) -> None:
        whole = self._unfinished[stream] + text
        cut = whole.rfind("\n") + 1
        if not cut and len(whole) > _LONGEST_LINE:
            cut = len(whole)
        self._unfinished[stream] = whole[cut:]
        self._add(whole[:cut])

    def _add(self, text: str) -> None:
        if not text:
            return
        self.characters += len(text)
        self.lines += text.count("\n")
        if self._sink is not None:
            self._sink.write(text)
        room = _KEPT - self._head_length
        if room > 0:
            self._head.append(text[:room])
            self._head_length += len(self._head[-1])
            text = text[room:]
        if text:
            self._add_to_tail(text)

    def _add_to_tail(self, text: str) -> None:
        self._tail.append(text[-_KEPT:])
        self._tail_length += len(self._tail[-1])
        if self._tail_length <= _KEPT:
            return
        if self._sink is None:
            self._spill()
        while self._tail_length - len(self._tail[0]) >= _KEPT:
            self._tail_length -= len(self._tail.popleft())

    def _spill(self) -> None:
        """Hand everything so far to the store; called before the first piece is dropped."""
        self._sink = self._open_sink()
        self._sink.write("".join([*self._head, *self._tail]))

    def _for_model(self) -> str:
        head, tail = "".join(self._head), "".join(self._tail)
        complete = self.characters == len(head) + len(tail)
        if complete:
            text = readable(head + tail)
            if len(text) <= self._head_size + self._tail_size:
                return text
            if self._sink is None:
                self._spill()
            first, last = text[: self._head_size], text[-self._tail_size :]
        else:
            first, last = readable(head)[: self._head_size], readable(tail)[-self._tail_size :]
        self.truncated = True
        first, last = first[: first.rfind("\n") + 1] or first, last[last.find("\n") + 1 :] or last
        return f"{first}{self._marker(len(first) + len(last))}{last}"

    def _marker(self, shown: int) -> str:
        left_out = max(self.characters - shown, 0)
        return (
            f"[… about {left_out} of {self.characters} characters left out ({self.lines} lines in all); "
            f'output_read(id="{self.handle}") shows them …]\n'
        )


_STREAMS: tuple[Stream, ...] = ("stdout", "stderr")


def readable(text: str) -> str:
    """The text without escape sequences; of a line that was overwritten, only its last state."""
    plain = _ESCAPES.sub("", text).replace("\r\n", "\n") if "\x1b" in text else text.replace("\r\n", "\n")
    if "\r" in plain:
        plain = _OVERWRITTEN.sub("", plain)
    if "\x08" in plain:
        before = ""
        while before != plain:
            before, plain = plain, _ERASED.sub("", plain)
    return _CONTROLS.sub("", plain)
