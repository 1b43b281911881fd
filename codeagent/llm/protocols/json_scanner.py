"""Finds the end of a JSON object or array in text that comes in pieces, in one pass."""

import re
from typing import Literal

_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_ATOM = re.compile(r"[-+.\w]*")
_ATOM_STARTS = frozenset("-0123456789tfnNI")
_ESCAPES = frozenset('"\\/bfnrt')
_HEX = frozenset("0123456789abcdefABCDEF")
_LONGEST_KEPT = 256

_Expect = Literal["value", "value or end", "key", "key or end", "colon", "comma"]
_Part = Literal["structure", "string", "escape", "unicode", "atom"]


class JsonScanner:
    """Structure only: numbers and words are left to the decoder. Begins at a `{` or `[`.

    `keys` and `strings` tell what a call would be recognised by: the keys of the object, or of the
    objects of the array, and the values among them that are strings.
    """

    def __init__(self) -> None:
        self.state: Literal["more", "whole", "bad"] = "more"
        self.keys: list[str] = []
        self.strings: list[tuple[str, str]] = []
        self.in_string = False
        self.plain_items = False
        """An array holds something that is no object."""
        self._open: list[str] = []
        self._expect: _Expect = "value"
        self._part: _Part = "structure"
        self._is_key = False
        self._hex = 0
        self._kept: list[str] | None = None

    def feed(self, data: str, position: int) -> int:
        """Where it stopped: behind the value, at the character that cannot be, or at the end of `data`."""
        while position < len(data) and self.state == "more":
            match self._part:
                case "string":
                    position = self._string(data, position)
                case "escape":
                    position = self._escape(data, position)
                case "unicode":
                    position = self._unicode(data, position)
                case "atom":
                    found = _ATOM.match(data, position)
                    assert found is not None
                    position = found.end()
                    if position < len(data):
                        self._part, self._expect = "structure", "comma"
                case "structure":
                    position = self._structure(data, position)
        self.in_string = self._part in ("string", "escape", "unicode")
        return position

    def _string(self, data: str, position: int) -> int:
        found = _PLAIN.match(data, position)
        assert found is not None
        self._keep(found[0])
        end = found.end()
        if end == len(data):
            return end
        if data[end] == "\\":
            self._part = "escape"
        elif data[end] == '"':
            self._close_string()
        else:
            return self._bad(end)
        return end + 1

    def _escape(self, data: str, position: int) -> int:
        character = data[position]
        if character == "u":
            self._part, self._hex = "unicode", 4
        elif character in _ESCAPES:
            self._part = "string"
        else:
            return self._bad(position)
        self._keep("\\" + character)
        return position + 1

    def _unicode(self, data: str, position: int) -> int:
        if data[position] not in _HEX:
            return self._bad(position)
        self._keep(data[position])
        self._hex -= 1
        if not self._hex:
            self._part = "string"
        return position + 1

    def _structure(self, data: str, position: int) -> int:
        found = _SPACE.match(data, position)
        assert found is not None
        position = found.end()
        if position == len(data):
            return position
        character = data[position]
        if not self._takes(character):
            return self._bad(position)
        return position + 1

    def _takes(self, character: str) -> bool:
        """Whether the character may stand here; if so, what it does is done."""
        expect = self._expect
        if self._open == ["["] and character not in "{],":
            self.plain_items = True
        if character == '"' and expect in ("value", "value or end", "key", "key or end"):
            self._begin_string(expect.startswith("key"))
        elif character in "{[" and expect.startswith("value"):
            self._open.append(character)
            self._expect = "key or end" if character == "{" else "value or end"
        elif character in "}]" and self._open:
            return self._takes_end(character)
        elif not self._open:
            return False
        elif character == ":" and expect == "colon":
            self._expect = "value"
        elif character == "," and expect == "comma":
            self._expect = "key" if self._open[-1] == "{" else "value"
        elif character in _ATOM_STARTS and expect.startswith("value"):
            self._part = "atom"
        else:
            return False
        return True

    def _takes_end(self, character: str) -> bool:
        empty = "key or end" if character == "}" else "value or end"
        if self._expect not in ("comma", empty) or (self._open[-1] == "{") != (character == "}"):
            return False
        self._open.pop()
        self._expect = "comma"
        if not self._open:
            self.state = "whole"
        return True

    def _begin_string(self, is_key: bool) -> None:
        self._part, self._is_key = "string", is_key
        outer = self._open in (["{"], ["[", "{"])
        self._kept = [] if outer else None

    def _close_string(self) -> None:
        self._part = "structure"
        self._expect = "colon" if self._is_key else "comma"
        if self._kept is None:
            return
        text = "".join(self._kept)[:_LONGEST_KEPT]
        self._kept = None
        if self._is_key:
            self.keys.append(text)
        elif self.keys:
            self.strings.append((self.keys[-1], text))

    def _keep(self, text: str) -> None:
        """Enough of the string to know it by."""
        if self._kept is not None and len(self._kept) < _LONGEST_KEPT:
            self._kept.append(text[:_LONGEST_KEPT])

    def _bad(self, position: int) -> int:
        self.state = "bad"
        return position
