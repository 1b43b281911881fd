"""The `scratchpad` tool: notes that outlast a compacted conversation and the session's end."""

import asyncio
from typing import Literal, assert_never

from codeagent.core.errors import SessionError
from codeagent.core.memory import Scratchpad, ScratchpadFull
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import one_line
from codeagent.core.tool import (
    Access,
    Failed,
    InvalidArgs,
    NotFound,
    Tool,
    ToolArgs,
    ToolContext,
    ToolResult,
)
from codeagent.tools.faults import nearest_or_all

_LONGEST_KEY = 100
_PLACE = "\0scratchpad"
"""The key that orders the calls; a path can never be equal to it, as it has a NUL."""


class ScratchpadArgs(ToolArgs):
    action: Literal["get", "set", "append", "delete", "list"]
    key: str = ""
    value: str | None = None
    project: bool = False


class ScratchpadTool(Tool[ScratchpadArgs]):
    """Does not need approval: it does not change anything of the user's."""

    name = "scratchpad"
    label = "Notes"
    description = "Your own notes, by key; they outlast the conversation. project: shared by all sessions here."
    Args = ScratchpadArgs
    permission = "auto"
    concurrency = "keyed"
    effect = "nothing"

    def __init__(self, session: Scratchpad, project: Scratchpad | None = None) -> None:
        """If `project` is None, there is only the session's scratchpad."""
        self._session = session
        self._project = project

    def access(self, args: ScratchpadArgs, workspace: Workspace) -> Access:
        return Access("shared" if args.action in ("get", "list") else "keyed", _PLACE)

    def approval_key(self, args: ScratchpadArgs) -> ApprovalKey:
        return ApprovalKey(
            kind="text", parts=(f"{args.action} {one_line(args.key, _LONGEST_KEY)}".strip(),)
        )

    async def run(self, args: ScratchpadArgs, ctx: ToolContext) -> ToolResult:
        pad = self._project if args.project else self._session
        if pad is None:
            raise Failed(
                "nothing can be kept for this project here; leave out project to keep it for this session"
            )
        if args.action != "list" and not args.key.strip():
            raise InvalidArgs(f"{args.action} needs a key")
        if len(args.key) > _LONGEST_KEY:
            raise InvalidArgs(f"a key has at most {_LONGEST_KEY} characters")
        try:
            text = await asyncio.to_thread(_do, pad, args)
        except ScratchpadFull as full:
            raise Failed(f"The scratchpad is full, nothing was changed: {full}") from None
        except SessionError as error:
            raise Failed(str(error)) from None
        return ToolResult.from_text(text)


def _do(pad: Scratchpad, args: ScratchpadArgs) -> str:
    match args.action:
        case "get":
            found = pad.get(args.key)
            if found is None:
                raise NotFound(f"unknown note {args.key!r}{_others(pad, args.key)}")
            return found or "(empty)"
        case "set" | "append":
            if args.value is None:
                raise InvalidArgs(f"{args.action} needs a value")
            (pad.set if args.action == "set" else pad.append)(args.key, args.value)
            return f"Kept {args.key!r}."
        case "delete":
            if not pad.delete(args.key):
                raise NotFound(f"unknown note {args.key!r}{_others(pad, args.key)}")
            return f"Deleted {args.key!r}."
        case "list":
            return (
                "\n".join(f"{note.key}  {note.size} characters" for note in pad.list())
                or "(no notes)"
            )
        case _:
            assert_never(args.action)


def _others(pad: Scratchpad, key: str) -> str:
    return nearest_or_all(key, [note.key for note in pad.list()])
