"""Decodes and encodes text files so that bytes outside of a change stay the same."""

import codecs
from dataclasses import replace
from typing import Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex

Encoding = Literal["utf-8", "utf-16-le", "utf-16-be", "latin-1"]

_BOMS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_STRAY = lazy_regex("[\udc80-\udcff]")
_CONTROL = lazy_regex(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_MOST_CONTROLS = 0.05
_SNIFFED = 8192


class NotText(Exception):
    """The bytes are not editable text; the message says what they are."""


class NotEncodable(Exception):
    """The file's encoding does not have a character; the message names both."""


@dataclass(frozen=True)
class Splice:
    """A piece of the text, and its replacement."""

    start: int
    end: int
    """Offsets in characters."""
    replacement: str


@dataclass(frozen=True)
class TextFile:
    """A file's bytes and their text, with newlines unchanged and without the byte order mark.

    Invalid bytes in a file that is mostly UTF-8 are lone surrogates in `text`.
    """

    data: bytes
    text: str
    encoding: Encoding
    bom: bytes

    def spliced(self, spans: list[Splice]) -> "TextFile":
        """Return the file with the spans replaced; all other bytes are copied, not encoded again.

        `spans` are in order and do not overlap. Raises NotEncodable.
        """
        data, text = [self.bom], list[str]()
        done_chars, done_bytes = 0, len(self.bom)
        for span in spans:
            start = done_bytes + self._width(done_chars, span.start)
            data += [self.data[done_bytes:start], self.encode(span.replacement)]
            text += [self.text[done_chars : span.start], span.replacement]
            done_bytes = start + self._width(span.start, span.end)
            done_chars = span.end
        data.append(self.data[done_bytes:])
        text.append(self.text[done_chars:])
        return replace(self, data=b"".join(data), text="".join(text))

    def encode(self, text: str) -> bytes:
        """Return text in this file's encoding. Raises NotEncodable."""
        try:
            return text.encode(self.encoding, self._errors)
        except UnicodeEncodeError as error:
            char = text[error.start]
            raise NotEncodable(
                f"the file is {self.encoding}, which has no {char!r} (U+{ord(char):04X})"
            ) from None

    def decode(self, data: bytes) -> str:
        """Return the text of other content in this file's encoding. Raises NotText."""
        try:
            return data.removeprefix(self.bom).decode(self.encoding, self._errors)
        except UnicodeDecodeError:
            raise NotText(f"not {self.encoding}, as it was") from None

    def _width(self, start: int, end: int) -> int:
        """Return the number of bytes of the characters from `start` to `end`."""
        return len(self.text[start:end].encode(self.encoding, self._errors))

    @property
    def _errors(self) -> str:
        return "surrogateescape" if self.encoding == "utf-8" else "strict"


def read_text(data: bytes) -> TextFile:
    """Decode UTF-8, UTF-16 with a mark, or else Latin-1. Raises NotText."""
    if data.startswith(_UTF32):
        raise NotText("UTF-32 text, which is not supported")
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return _with_bom(data, bom, encoding)
    if is_binary(data):
        raise NotText("a binary file")
    try:
        return TextFile(data, data.decode("utf-8"), "utf-8", b"")
    except UnicodeDecodeError:
        pass
    escaped = data.decode("utf-8", "surrogateescape")
    stray = len(_STRAY.findall(escaped))
    beyond_ascii = sum(1 for char in escaped if char > "\x7f")
    if beyond_ascii - stray >= stray:
        return TextFile(data, escaped, "utf-8", b"")
    return TextFile(data, data.decode("latin-1"), "latin-1", b"")


def is_binary(data: bytes) -> bool:
    """Whether there is a NUL, or the first bytes have too many control characters for text."""
    head = data[:_SNIFFED]
    return b"\0" in data or len(_CONTROL.findall(head)) > _MOST_CONTROLS * len(head)


def shown(text: str) -> str:
    """The text in printable form: stray bytes as `\\xNN`."""
    return _STRAY.sub(lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", text)


def _with_bom(data: bytes, bom: bytes, encoding: Encoding) -> TextFile:
    try:
        text = data[len(bom) :].decode(encoding)
    except UnicodeDecodeError:
        raise NotText(f"a file that is marked as {encoding} but is not valid {encoding}") from None
    return TextFile(data, text, encoding, bom)
