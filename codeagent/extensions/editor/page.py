"""Puts the selections that an editor sends into the line the user types in; nothing is sent from
there."""

import asyncio
import hmac
import json
from contextlib import suppress
from functools import partial
from pathlib import Path

from codeagent.core.sanitize import visible
from codeagent.disk.opens import file_inside
from codeagent.extensions.editor.listeners import LINES, LONGEST, SelectionListener, announced
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.parts.suggestions import mention_of

_SECONDS = 5.0


async def listen(chat: ChatScreen) -> None:
    """Take selections until it is cancelled. If the system does not let it listen, doctor and
    send-selection say so."""
    workspace = Path((await chat.outbox.ready()).launcher.workspace).resolve()  # noqa: ASYNC240  # one folder
    with suppress(OSError), announced(chat.folders.state, workspace) as (listener, own):
        answer = partial(_answer, chat, listener)
        async with await asyncio.start_server(answer, sock=own, limit=LONGEST) as server:
            await server.serve_forever()


async def _answer(
    chat: ChatScreen,
    listener: SelectionListener,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Answer one message with `ok`, or with what is wrong."""
    try:
        async with asyncio.timeout(_SECONDS):
            said = _take(chat, listener, await reader.readline())
            writer.write(f"{said}\n".encode(errors="replace"))
            await writer.drain()
    except (OSError, ValueError, TimeoutError):
        pass  # the other side is gone, did not speak, or said too much
    finally:
        writer.close()


def _take(chat: ChatScreen, listener: SelectionListener, message: bytes) -> str:
    """Put what was selected into the composer; return `ok`, or what is wrong."""
    try:
        given = json.loads(message)
    except (ValueError, RecursionError):
        given = None
    match given:
        case {"token": str(token), "path": str(path), "lines": str(lines)}:
            pass
        case _:
            return "not a selection; nothing was taken"
    if not hmac.compare_digest(token.encode(errors="replace"), listener.token.encode()):
        return "wrong token; nothing was taken"
    file = file_inside(Path(listener.workspace), path)
    if file is None or (lines and LINES.fullmatch(lines) is None):
        return f"not lines of a file in {listener.workspace}; nothing was taken"
    name = str(file.relative_to(listener.workspace))
    if visible(name) != name:
        return "its name has characters that cannot be shown; nothing was taken"
    mention = mention_of(name) + (f":{lines}" if lines else "")
    composer = chat.composer
    row, column = composer.cursor_location
    before = composer.document.get_line(row)[:column]
    composer.insert(f"{mention} " if not before or before[-1].isspace() else f" {mention} ")
    chat.tell(f"from your editor: {mention}")
    return "ok"
