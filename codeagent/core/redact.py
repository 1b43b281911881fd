"""Keeps secrets of this process out of everything that is written down or printed."""

import json
import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:$|_)", re.IGNORECASE)
_SHORTEST = 8
_DEEPEST_JSON = 3


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name is taken to hold a secret."""
    return _SECRET_NAME.search(name) is not None


def _spellings(value: str) -> set[str]:
    """The value, and as it stands in JSON, also in JSON within JSON: the arguments of a call are text in an event."""
    found = {value}
    for _ in range(_DEEPEST_JSON):
        found |= {json.dumps(one, ensure_ascii=ascii_only)[1:-1] for one in found for ascii_only in (True, False)}
    return found


class Redactor:
    """Replaces each secret's value by `[secret NAME]`, in plain text and inside JSON strings.

    A variable counts as a secret by its name (`*_API_KEY`, `*_TOKEN`, …); values under eight
    characters are left alone, since they would match ordinary words.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._names: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None
        self._add({name: value for name, value in environment.items() if is_secret_name(name)})

    def learn(self, name: str, value: str) -> None:
        """Mask this secret as well from now on."""
        self._add({name: value})

    def _add(self, secrets: Mapping[str, str]) -> None:
        for name, value in secrets.items():
            if len(value) >= _SHORTEST:
                self._names |= dict.fromkeys(_spellings(value), name)
        longest_first = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def clean(self, text: str) -> str:
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: f"[secret {self._names[match[0]]}]", text)

    def open_end(self, text: str) -> int:
        """How many characters at its end may be the beginning of a secret that goes on."""
        return max((_overlap(text, secret) for secret in self._names), default=0)


def _overlap(text: str, secret: str) -> int:
    most = min(len(text), len(secret) - 1)
    return next((size for size in range(most, 0, -1) if text.endswith(secret[:size])), 0)
