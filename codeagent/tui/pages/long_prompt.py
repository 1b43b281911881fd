"""Stops text that does not fit into the model's window before it is sent, and asks what to do with
it."""

import sys
from typing import Any

from textual.app import App

from codeagent.core.compaction import TOKENS_PER_CHARACTER
from codeagent.core.errors import CodeagentError
from codeagent.tui.pages.picker import Picker
from codeagent.tui.parts.composer import Composer
from codeagent.tui.parts.marked_list import PickerRow
from codeagent.tui.session_client import SessionClient
from codeagent.tui.status import Status

_BESIDE = 3_000
"""Tokens that are left for the base prompt, the tools and the answer: in a small window a third of
it at most, in a large one a tenth at least."""
_MARK = 60
"""Characters that are left for the line that says what was cut."""


def longest_prompt(window: int | None) -> int:
    """Return about how many characters a prompt may have in a window of so many tokens; unknown:
    any number."""
    if window is None:
        return sys.maxsize
    return round((window - max(window // 10, min(_BESIDE, window // 3))) / TOKENS_PER_CHARACTER)


def size_words(length: int, status: Status) -> str:
    """Say how large a prompt of so many characters is, and how large the window."""
    return f"about {round(length * TOKENS_PER_CHARACTER):,} tokens; the window has {status.usage.context_window or 0:,}"


async def shorten(app: App[Any], composer: Composer, client: SessionClient, status: Status) -> bool:
    """Ask what to do with a prompt that is too long, and do it; False if it stays in the composer
    as it is.

    Call it from a worker. Raises CodeagentError.
    """
    most = longest_prompt(status.usage.context_window)
    file = PickerRow(
        "file", "Attach it as a file", "the agent gets its beginning, and reads what it needs"
    )
    ways = (
        *((file,) if client.reads_kept_texts else ()),
        PickerRow("cut", "Cut it", f"send the first {most:,} characters"),
        PickerRow("keep", "Cancel", "it stays in the prompt; nothing is sent"),
    )
    way = await app.push_screen_wait(
        Picker(f"Too long: {size_words(len(composer.text), status)}", ways)
    )
    if way not in ("file", "cut"):
        return False
    for chip, text in composer.pastes().items():
        excess = len(composer.text) - most
        if excess <= 0:
            break
        composer.put_behind(
            chip, await client.keep_text(text) if way == "file" else _cut(text, excess)
        )
    if len(composer.text) > most:
        raise CodeagentError(
            f"still too long: {size_words(len(composer.text), status)}; nothing was sent"
        )
    return True


def _cut(text: str, excess: int) -> str:
    """Return the text without at least `excess` characters of its end."""
    kept = text[: max(0, len(text) - excess - _MARK)]
    return f"{kept}\n[… {len(text) - len(kept):,} characters were cut here …]"
