"""Reads what a prompt mentions: `@path`, `@path:10-20`, `@folder/`, and images that were pasted."""

import asyncio
import base64
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from codeagent.agent.parts import Host
from codeagent.changes.diff import count
from codeagent.config.local_environment import state_dir
from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError
from codeagent.core.json_types import JsonObject
from codeagent.core.messages import Attachment, ImagePart, text_of
from codeagent.core.model import ModelInUse
from codeagent.core.notes import framed
from codeagent.core.runtime import Mentioned
from codeagent.core.sanitize import one_line, spelled, unspelled
from codeagent.core.tool import Failed, ReadingRules, Tool, ToolContext, ToolError, ToolResult
from codeagent.disk.private import UnsafeFile, read_private
from codeagent.extensions.attachments import FOLDER, PREFIX
from codeagent.tools.builtin.list import List, ListArgs
from codeagent.tools.builtin.read import Read, ReadArgs
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.pictures import LARGEST, picture

_MENTION = re.compile(r"(?<![^\s(\[{'\"])@(?:\"([^\"\n]+)\"(:[\d-]+)?|([^\s\"]+))")
_LINES = re.compile(r"(.+):(\d{1,9})(?:-(\d{1,9}))?")
_NUMBER = re.compile(r"^\d+\t", re.MULTILINE)
"""What a line begins with as the model reads it."""
_ELSEWHERE = re.compile(r"[A-Za-z0-9][\w-]*:\S+", re.ASCII)
"""Names that a server may offer, which stay text without a message."""
_PASTED = re.compile(r"[\w-][\w.-]{0,99}", re.ASCII)
_AT_THE_END = ".,;:!?)]}'\""
"""Punctuation that may follow a name in a sentence without being part of it."""
_MOST = 20
_MOST_CHARACTERS = 120_000
"""Characters of everything that one prompt brings."""
_OF_AN_IMAGE = 100
"""Characters of its Base64 that count as one: a request has room for about ten million."""
_OF_A_TOKEN = 4
"""About how many characters a token has."""
_SHARE = 0.75
"""The share of the model's window that files may fill: the rest is for the prompt and the answer."""
_PAGE = 2_000
"""Lines of a file at most."""
_HEAD = "The user attached these to the prompt. Lines of files are numbered:"


class _MaybeElsewhere(Failed):
    """It may be the name of something that a server offers."""


@dataclass(frozen=True)
class _Target:
    """A file or a folder of the workspace, and which lines of it."""

    name: str
    """As it was typed, without what follows it in the sentence."""
    path: str
    kind: str
    lines: tuple[int, int] | None


@dataclass(frozen=True)
class _Found:
    """What one mention stands for."""

    shown: Attachment
    text: str
    image: ImagePart | None = None

    @property
    def size(self) -> int:
        """Characters that it counts as."""
        return len(self.text) + (len(self.image.data) // _OF_AN_IMAGE if self.image else 0)


async def read_mentions(host: Host, text: str) -> Mentioned:
    """Read what the text mentions, as far as the rules let the model read it without a question."""
    found: list[_Found] = []
    left: list[str] = []
    room = _MOST_CHARACTERS
    names = (hit[3] or hit[1] + (hit[2] or "") for hit in _MENTION.finditer(text))
    for name in dict.fromkeys(names):
        try:
            if len(found) >= _MOST:
                raise _MaybeElsewhere(f"at most {_MOST} are read")
            one = await _read(host, name)
            if one.size > room:
                raise Failed("too large together with the others")
            found.append(one)
            room -= one.size
        except (ToolError, CodeagentError, OSError, ValueError) as error:  # a disk that fails, too
            elsewhere = isinstance(error, _MaybeElsewhere) and _ELSEWHERE.fullmatch(name)
            if not elsewhere or name.startswith(PREFIX):
                why = one_line(str(error), 160)
                left.append(f"@{one_line(name.rstrip(_AT_THE_END) or name, 80)} ({why})")
    if not found:
        return Mentioned(left=tuple(left))
    note = framed(_HEAD, "\n\n".join(one.text for one in found))
    images = tuple(one.image for one in found if one.image is not None)
    attached = tuple(one.shown for one in found)
    refusal = _refusal(host.model.in_use, found)
    whole = replace(note, content=(*note.content, *images), attached=attached)
    return Mentioned(whole, tuple(left), refusal)


def _refusal(model: ModelInUse, found: list[_Found]) -> str:
    """Return why the prompt cannot be sent with what was found; empty if it can."""
    if model.images is False and (images := [one for one in found if one.image]):
        shown = ", ".join(f"@{one.shown.name}" for one in images)
        return f"{model.name} does not see images: take out {shown}, or choose another model with /model"
    held = sum(len(one.text) for one in found) // _OF_A_TOKEN
    if model.context_window is not None and held > model.context_window * _SHARE:
        return (
            f"{model.name} takes {model.context_window:,} tokens in all, and the files take about {held:,}: "
            "name only some lines, as in @file:10-40, or choose another model with /model"
        )
    return ""


async def _read(host: Host, name: str) -> _Found:
    """Raises ToolError or CodeagentError if it is not sent."""
    if name.startswith(PREFIX):
        return await asyncio.to_thread(_pasted, name.rstrip(_AT_THE_END))
    workspace = host.context.workspace
    target = await asyncio.to_thread(_target, host, name)
    if target.kind == "directory":
        listed = await _called(host, List(workspace), ListArgs(path=target.path))
        text = text_of(listed.content)
        return _of_text(target, text, count(text.count("\n"), "name"))
    first, last = target.lines or (1, _PAGE)
    args = ReadArgs(path=target.path, offset=first, limit=last - first + 1)
    # What it shows counts as read once it is sent: `Attachment.details`.
    result = await _called(host, Read(workspace, ReadTracker(workspace)), args)
    for part in result.content:
        if isinstance(part, ImagePart):
            data, title = base64.b64decode(part.data), spelled(target.path)
            return await asyncio.to_thread(_picture, target.name, title, data)
    text = f"{spelled(target.path)}:\n{text_of(result.content)}"
    return _of_text(target, text, _lines_of(target, text, result.details), result.details)


def _target(host: Host, name: str) -> _Target:
    """Find the path in a name that may be followed by lines and by the rest of a sentence. Blocks;
    raises Failed."""
    workspace = host.context.workspace
    for typed in filter(None, dict.fromkeys((name.rstrip(_AT_THE_END), name))):
        for path, lines in _readings(typed):
            try:
                kind = workspace.stat(workspace.resolve(path)).kind
            except (CodeagentError, OSError, ValueError):
                continue
            return _Target(typed, path, kind, lines)
    raise _MaybeElsewhere("not a file or folder here")


def _readings(typed: str) -> Iterator[tuple[str, tuple[int, int] | None]]:
    """Yield what a name may mean: a path, and a path followed by lines."""
    yield unspelled(typed), None
    if lines := _LINES.fullmatch(typed):
        first = max(1, int(lines[2]))
        yield unspelled(lines[1]), (first, max(first, int(lines[3] or first)))


async def _called(host: Host, tool: Tool[Any], args: Any) -> ToolResult:
    """Return what the tool shows, if the rules allow it without a question. Raises ToolError,
    CodeagentError."""
    permissions = host.shared.permissions
    key = tool.approval_key(args)
    verdict = permissions.policy.check(tool.name, key, tool.permission, tool.effect)
    if verdict.permission != "auto":
        raise Failed(verdict.reason)
    reading = ReadingRules(
        partial(permissions.withheld, (tool.name,), key.parts),
        partial(permissions.denies_path, (tool.name,)),
    )
    workspace = host.context.workspace
    context = ToolContext("", tool.name, workspace, None, CancelToken(), reading=reading)
    return await tool.run(args, context)


def _lines_of(target: _Target, text: str, details: JsonObject) -> str:
    part = "" if target.lines or details.get("whole") else "first "
    return f"{part}{count(len(_NUMBER.findall(text)), 'line')}"


def _of_text(target: _Target, text: str, size: str, details: JsonObject | None = None) -> _Found:
    about = f"{size} · ~{len(text) // _OF_A_TOKEN:,} tokens"
    return _Found(Attachment(name=target.name, about=about, details=details or {}), text)


def _pasted(name: str) -> _Found:
    """Raises Failed."""
    file = name.removeprefix(PREFIX)
    try:
        data = (
            read_private(state_dir() / FOLDER / file, LARGEST) if _PASTED.fullmatch(file) else None
        )
    except (UnsafeFile, OSError) as error:
        raise Failed(str(error)) from error
    if data is None:
        raise Failed("that image is no longer kept; paste it again")
    return _picture(name, file, data)


def _picture(name: str, title: str, data: bytes) -> _Found:
    """Raises NotAnImage."""
    found = picture(data)
    attached = Attachment(name=name, about=found.about, thumbnail=found.thumbnail)
    return _Found(attached, f"{title}: an image, {found.about}", found.part)
