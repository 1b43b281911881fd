"""Why a server is not running, in words that say what would help."""

from codeagent.core.errors import SandboxUnavailable
from codeagent.core.sandbox import RunningProgram
from codeagent.core.sanitize import one_line
from codeagent.disk.private import UnsafeFile
from codeagent.extensions.mcp.config import ServerConfig
from codeagent.extensions.mcp.described import DescribedServer
from codeagent.extensions.mcp.record import ServerRecord

ON_MACHINE = '"where": "machine" in your own mcp.json'
"""The setting that runs a server on this machine; it cannot be in a project's file."""
_NO_PROGRAM = 127
_WRITE = 'it may only read the workspace; "write": true in your own mcp.json lets it write'
_PLANNING = "for now it may only read the workspace, as in plan mode and in codeagent mcp test"


async def why_ended(
    config: ServerConfig,
    record: ServerRecord,
    error: Exception | None,
    program: RunningProgram | None,
    hint: str,
) -> str:
    """Return why a server is not running, as a phrase, with its last output if nothing else is
    known.

    `error` is what its start or its connection raised; `program` is ended, if it has not ended
    already; `hint` says what its program probably lacks, empty if that is not known.
    """
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if why := _not_begun(error, config):
        return why
    if program is None:
        return _told(record, error) or "it has ended"
    code = await program.close()
    if code == _NO_PROGRAM and config.where == "sandbox":
        return hint or (
            f"the sandbox has no {one_line(config.command, 60)}: choose an image that has it "
            f"(sandbox.image), or run it on this machine, with {ON_MACHINE}"
        )
    ended = "it has ended" if code is None else f"it ended with code {code}"
    said = ended if code else _told(record, error) or ended
    last = f" (it wrote: {one_line(record.lines[-1], 200)})" if record.lines else ""
    if record.met_read_only and not program.writes:
        hint = _PLANNING if config.write else _WRITE
    return f"{said}{last}; {hint}" if hint else f"{said}{last}"


def _not_begun(error: Exception | None, config: ServerConfig) -> str:
    """Return why it could not even begin; empty if `error` is another one."""
    if isinstance(error, SandboxUnavailable):
        return f"{error}: {error.remedy}"
    if isinstance(error, UnsafeFile):
        return f"it is not known what its program was when you agreed to it: {error}"
    # Of httpx2, which is not imported here.
    if type(error).__name__ in ("ConnectError", "ConnectTimeout"):
        why = one_line(str(error), 200) or "no answer"
        return f"it cannot be reached {DescribedServer(config).where} ({why}); check its url"
    return ""


def _told(record: ServerRecord, error: Exception | None) -> str:
    """Return why codeagent ended the connection, or what the error says."""
    if record.why or error is None:
        return record.why
    return one_line(str(error), 300) or type(error).__name__
