"""Keeps secrets of this process out of everything that is written down or printed."""

import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from codeagent.core.lazy_regex import lazy_regex

_SECRET_NAME = lazy_regex(
    r"(?:^|_)(?:API_?KEY|APIKEY|KEY|TOKENS?|SECRETS?|PASSWORD|PASSWD|PASS|PASSPHRASE|PASSCODE|CREDENTIALS?|CREDS|DSN"
    r"|CONNECTION_?STRING|JWT|COOKIE)(?:$|_)|_(?:PWD|PW|AUTH)$",
    re.IGNORECASE,
)
_LOGIN = lazy_regex(r"[A-Za-z][\w+.-]*://([^\s/?#@:]*:([^\s/?#]+))@")
"""A URL with a password, as in `DATABASE_URL`: who logs in and with what, then the password
alone."""
KEY_STARTS = (
    ("sk-ant-", "ANTHROPIC_API_KEY"),
    ("sk-or-", "OPENROUTER_API_KEY"),
    ("AIza", "GEMINI_API_KEY"),
    ("gsk_", "GROQ_API_KEY"),
    ("xai-", "XAI_API_KEY"),
    ("sk-", "OPENAI_API_KEY"),
)
"""How the keys of providers begin, and their environment variables; the first match counts."""
_KEY = lazy_regex(
    rf"(?<![\w-])(?:{'|'.join(start for start, _ in KEY_STARTS)})(?=[\w-]*\d)[\w-]{{16,}}"
)
"""A name of several words begins like a key as well, but has no digit."""
_SHORTEST = 8
_DEEPEST = 3
_SHORTEST_PART = 6
_CUT = lazy_regex(r"((?:\n|\\n)?\[?…\]?(?:\n|\\n)?)")
"""The mark of a cut, also of one with a sentence about it in brackets on a line of its own; in JSON
or not."""


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name is taken to hold a secret."""
    return _SECRET_NAME.search(name) is not None


def has_key(text: str) -> bool:
    """Whether something in the text looks like a provider's API key."""
    return _KEY.search(text) is not None


def _spellings(value: str) -> set[str]:
    """The value, and what quoting makes of it, several times over: a command is JSON within the
    JSON of an event."""
    found = {value}
    for _ in range(_DEEPEST):
        found |= {quoted for one in found for quoted in _quoted(one)}
    return found


def _quoted(text: str) -> tuple[str, ...]:
    """Inside the quotes of JSON with and without ASCII only, of a shell, and of Python."""
    python = text.replace("\\", "\\\\").replace("'", "\\'")
    return (
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        text.replace("'", "'\\''"),
        python,
    )


class Redactor:
    """Replaces each secret's value by `[secret NAME]`, in plain text and inside JSON strings.

    A variable counts as a secret by its name (`*_API_KEY`, `*_PASS`, …), and whatever its name, the
    login of a URL in its value (`postgres://user:password@host`). Values under eight characters are
    left alone, since they would match ordinary words; of a login that is true of the password by
    itself, not of both together.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._names: dict[str, str] = {}
        self._by_start: dict[str, list[str]] = {}
        self._by_end: dict[str, list[str]] = {}
        self._longest = 0
        self._pattern: re.Pattern[str] | None = None
        self._add((name, value) for name, value in environment.items() if is_secret_name(name))
        logins = (
            (name, login) for name, value in environment.items() for login in _LOGIN.finditer(value)
        )
        self._add(
            (name, text)
            for name, login in logins
            for text in (f"{login[1]}@", login[2], unquote(login[2]))
        )

    def learn(self, name: str, value: str) -> None:
        """Mask this secret as well from now on."""
        self._add([(name, value)])

    def _add(self, secrets: Iterable[tuple[str, str]]) -> None:
        for name, value in secrets:
            if len(value) >= _SHORTEST:
                self._names |= dict.fromkeys(_spellings(value), name)
        longest_first = sorted(self._names, key=len, reverse=True)
        self._pattern = (
            re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        )
        self._longest = max(map(len, longest_first), default=0)
        self._by_start = {}
        self._by_end = {}
        for secret in longest_first:
            self._by_start.setdefault(secret[:_SHORTEST_PART], []).append(secret)
            self._by_end.setdefault(secret[-_SHORTEST_PART:], []).append(secret)

    def clean(self, text: str) -> str:
        """Also masks the part of a secret that is left where a text was cut short, which an
        ellipsis shows."""
        if self._pattern is None:
            return text
        cleaned = self._pattern.sub(lambda match: f"[secret {self._names[match[0]]}]", text)
        if "…" not in cleaned:
            return cleaned
        pieces = _CUT.split(cleaned)
        for at in range(0, len(pieces), 2):
            piece = pieces[at] if at == len(pieces) - 1 else self._without_begun(pieces[at])
            pieces[at] = self._without_ended(piece) if at else piece
        return "".join(pieces)

    def _without_begun(self, text: str) -> str:
        """Mask the longest beginning of a secret at the end of the text; linear in its length."""
        for at in range(max(0, len(text) - self._longest), len(text) - _SHORTEST_PART + 1):
            for secret in self._by_start.get(text[at : at + _SHORTEST_PART], ()):
                if secret.startswith(text[at:]):
                    return f"{text[:at]}[secret {self._names[secret]}]"
        return text

    def _without_ended(self, text: str) -> str:
        """Mask the longest end of a secret at the beginning of the text; linear in its length."""
        for end in range(min(len(text), self._longest), _SHORTEST_PART - 1, -1):
            for secret in self._by_end.get(text[end - _SHORTEST_PART : end], ()):
                if secret.endswith(text[:end]):
                    return f"[secret {self._names[secret]}]{text[end:]}"
        return text

    def open_end(self, text: str) -> int:
        """How many characters at its end may be the beginning of a secret that continues."""
        return max((_overlap(text, secret) for secret in self._names), default=0)


def _overlap(first: str, second: str) -> int:
    """How many characters end the first and begin the second."""
    most = min(len(first), len(second))
    return next((size for size in range(most, 0, -1) if first.endswith(second[:size])), 0)
