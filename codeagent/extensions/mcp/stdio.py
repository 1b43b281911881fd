"""The protocol over a program's standard input and output: one message per line, in bounded
memory."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from codeagent.core.errors import SandboxLost
from codeagent.core.sandbox import RunningProgram
from codeagent.extensions.mcp.record import ServerRecord

LARGEST_MESSAGE = 8 << 20
"""Bytes."""
_MOST_ASKED = 32
"""Requests of the server that may wait for an answer at the same time."""
_MOST_UNSENT = 64
_LONGEST_SENT = 1 << 20

Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


@asynccontextmanager
async def program_streams(
    program: RunningProgram, record: ServerRecord, ended: anyio.Event
) -> AsyncIterator[Streams]:
    """Yield the session's two streams; `ended` is set once the program no longer answers.

    Lines that are not messages are skipped and counted. The connection ends if a message is too
    large, or if the server asks without waiting for answers. Afterwards nothing of the program is
    left running.
    """
    to_session, received = anyio.create_memory_object_stream[Incoming](0)
    sent, from_session = anyio.create_memory_object_stream[SessionMessage](_MOST_UNSENT)
    asked: set[str | int] = set()

    async def read() -> None:
        try:
            async with to_session:
                async for message in _messages(program, record):
                    if isinstance(message.message, JSONRPCRequest):
                        asked.add(message.message.id)
                        if len(asked) > _MOST_ASKED:
                            record.why = f"it asked {_MOST_ASKED} things at once without waiting for an answer"
                            return
                    await to_session.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session ended first
        finally:
            ended.set()

    async def write() -> None:
        try:
            async with from_session:
                async for message in from_session:
                    data = (
                        message.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
                        + b"\n"
                    )
                    for at in range(0, len(data), _LONGEST_SENT):
                        await program.send(data[at : at + _LONGEST_SENT])
                    if isinstance(message.message, JSONRPCResponse | JSONRPCError):
                        asked.discard(message.message.id or 0)
        except SandboxLost:
            ended.set()
            await to_session.aclose()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            group.start_soon(write)
            yield received, sent
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await program.close()
        for stream in (to_session, received, sent, from_session):
            stream.close()


async def _messages(program: RunningProgram, record: ServerRecord) -> AsyncIterator[SessionMessage]:
    """Yield the program's messages; end if one is too large."""
    held = bytearray()
    async for name, piece in program.output():
        if name == "stderr":
            record.add_stderr(piece)
            continue
        begin = len(held)
        held += piece
        while (at := held.find(b"\n", begin)) >= 0:
            line, begin = bytes(held[:at]).strip(), 0
            del held[: at + 1]
            if line and (message := _parsed(line, record)) is not None:
                yield message
        if len(held) > LARGEST_MESSAGE:
            record.why = f"it sent a message of more than {LARGEST_MESSAGE >> 20} MiB"
            return


def _parsed(line: bytes, record: ServerRecord) -> SessionMessage | None:
    """Return the message; None if it is not one, or only meant for a log."""
    if len(line) > LARGEST_MESSAGE:
        record.add_noise(line[:LARGEST_MESSAGE])
        return None
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValueError, RecursionError):
        record.add_noise(line)
        return _error_for(line)
    if isinstance(message, JSONRPCNotification) and message.method == "notifications/message":
        record.add(f"log: {(message.params or {}).get('data', '')}")
        return None
    return SessionMessage(message)


def _error_for(line: bytes) -> SessionMessage | None:
    """Return an error to replace an answer that cannot be read, so that nobody waits for it; else
    None."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match answer:
        case {"jsonrpc": "2.0", "id": int() as number, "result": _}:
            error = ErrorData(code=PARSE_ERROR, message="its answer breaks the protocol")
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=error))
        case _:
            return None
