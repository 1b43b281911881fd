"""Reads what a prompt mentions: `@path`, `@path:10-20`, `@folder/`, and images that were pasted."""

import asyncio
import base64
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from codeagent.agent.parts import Host
from codeagent.config.local_environment import state_dir
from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError, WorkspaceError
from codeagent.core.json_types import JsonObject
from codeagent.core.messages import Attached, ContentPart, ImagePart, text_of
from codeagent.core.notes import framed
from codeagent.core.runtime import Mentioned
from codeagent.core.sanitize import one_line, spelled, unspelled
from codeagent.core.tool import ReadingRules, Tool, ToolContext, ToolError, ToolResult
from codeagent.disk.private import UnsafeFile, read_private
from codeagent.extensions.attachments import FOLDER, PREFIX
from codeagent.tools.builtin.list import List, ListArgs
from codeagent.tools.builtin.read import Read, ReadArgs
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.pictures import LARGEST, NotAnImage, picture

_MENTION = re.compile(r"(?<![^\s(\[{'\"])@(?:\"([^\"\n]+)\"(:[\d-]+)?|([^\s\"]+))")
_LINES = re.compile(r"(.+):(\d{1,9})(?:-(\d{1,9}))?")
_ELSEWHERE = re.compile(r"[A-Za-z0-9][\w-]*:\S+", re.ASCII)
"""What a server may offer; the text is not a path."""
_PASTED = re.compile(r"[\w-][\w.-]{0,99}", re.ASCII)
_AT_THE_END = ".,;:!?)]}'\""
"""Punctuation that may follow a name in a sentence without being part of it."""
_MOST = 20
_MOST_CHARACTERS = 120_000
"""Of all texts that one prompt brings with it."""
_HEAD = "The user shows you these with what they typed. A file's lines come with their numbers:"


@dataclass(frozen=True)
class _Target:
    """A file or a folder of the workspace, and which lines of it."""

    name: str
    """As it was typed, without what follows it in the sentence."""
    path: str
    folder: bool
    lines: tuple[int, int] | None = None


@dataclass(frozen=True)
class _Found:
    shown: Attached
    text: str
    images: tuple[ImagePart, ...] = ()


class _StaysText(Exception):
    """Says why a name is not more than text; empty if it is probably not meant for us."""


async def read_mentions(host: Host, text: str) -> Mentioned:
    """Read what the text mentions, as far as the rules let the model read it without a question."""
    names = tuple(dict.fromkeys(_names(text)))
    found: list[_Found] = []
    left = [_stays(name, f"at most {_MOST} are read") for name in names[_MOST:]]
    for name in names[:_MOST]:
        try:
            one = await _read(host, name)
            if sum(len(each.text) for each in (*found, one)) > _MOST_CHARACTERS:
                raise _StaysText("too long beside the others")
            found.append(one)
        except _StaysText as reason:
            left += [_stays(name, str(reason))] if str(reason) else []
        except (ToolError, CodeagentError) as error:
            left.append(_stays(name, one_line(str(error), 160)))
    images = tuple(image for each in found for image in each.images)
    refusal = _blind(host.model.in_use.name, found) if host.model.in_use.images is False else ""
    if not found:
        return Mentioned(left=tuple(left))
    note = framed(_HEAD, "\n\n".join(each.text for each in found))
    content: tuple[ContentPart, ...] = (*note.content, *images)
    attached = tuple(each.shown for each in found)
    return Mentioned(replace(note, content=content, attached=attached), tuple(left), refusal)


def _names(text: str) -> Iterator[str]:
    for match in _MENTION.finditer(text):
        yield match[3] or match[1] + (match[2] or "")


def _stays(name: str, reason: str) -> str:
    return f"@{one_line(name.rstrip(_AT_THE_END), 80)} ({reason})"


def _blind(model: str, found: list[_Found]) -> str:
    """Return why the images are not sent to a model that does not see any; empty without images."""
    names = ", ".join(f"@{each.shown.name}" for each in found if each.images)
    if not names:
        return ""
    return f"{model} does not see images: take out {names}, or choose another model with /model"


async def _read(host: Host, name: str) -> _Found:
    """Raises _StaysText, ToolError or CodeagentError if it is not sent."""
    if name.startswith(PREFIX):
        return await asyncio.to_thread(_pasted, name.rstrip(_AT_THE_END))
    workspace = host.context.workspace
    target = await asyncio.to_thread(_target, host, name)
    if target.folder:
        return _listing(target, await _called(host, List(workspace), ListArgs(path=target.path)))
    first, last = target.lines or (1, 2_000)
    args = ReadArgs(path=target.path, offset=first, limit=max(1, last - first + 1))
    # What it shows counts as read once it is sent: `Attached.details`.
    read = Read(workspace, ReadTracker(workspace))
    result = await _called(host, read, args)
    for part in result.content:
        if isinstance(part, ImagePart):
            data, title = base64.b64decode(part.data), spelled(target.path)
            return await asyncio.to_thread(_picture, target.name, title, data)
    return _file(target, result)


def _target(host: Host, name: str) -> _Target:
    """Find the path in a name that may be followed by lines and by the rest of a sentence. Blocks;
    raises _StaysText."""
    for typed in dict.fromkeys((name, name.rstrip(_AT_THE_END))):
        lines = _LINES.fullmatch(typed)
        for path in filter(None, (typed, lines and lines[1])):
            kind = _kind(host, path := unspelled(path))
            if kind == "directory":
                return _Target(typed, path, folder=True)
            if kind == "file" and (lines is None or path != lines[1]):
                return _Target(typed, path, folder=False)
            if kind == "file" and lines is not None:
                first = max(1, int(lines[2]))
                return _Target(typed, path, False, (first, max(first, int(lines[3] or lines[2]))))
    raise _StaysText("" if _ELSEWHERE.fullmatch(name) else "not a file or folder here")


def _kind(host: Host, path: str) -> str:
    workspace = host.context.workspace
    try:
        return workspace.stat(workspace.resolve(path)).kind
    except (WorkspaceError, OSError, ValueError):
        return ""


async def _called(host: Host, tool: Tool[Any], args: Any) -> ToolResult:
    """Return what the tool shows, if the rules need nobody's answer for that. Raises _StaysText."""
    permissions = host.shared.permissions
    key = tool.approval_key(args)
    verdict = permissions.policy.check(tool.name, key, tool.permission, tool.effect)
    if verdict.permission != "auto":
        raise _StaysText(verdict.reason)
    reading = ReadingRules(
        partial(permissions.withheld, (tool.name,), key.parts),
        partial(permissions.denies_path, (tool.name,)),
    )
    workspace = host.context.workspace
    context = ToolContext("", tool.name, workspace, None, CancelToken(), reading=reading)
    return await tool.run(args, context)


def _file(target: _Target, result: ToolResult) -> _Found:
    text = text_of(result.content)
    shown = _shown_lines(result.details)
    part = "" if target.lines or result.details.get("whole") else "first "
    about = f"{part}{_count(shown, 'line')} · ~{_tokens(text)} tokens"
    attached = Attached(name=target.name, about=about, details=result.details)
    return _Found(attached, f"{spelled(target.path)}:\n{text}")


def _listing(target: _Target, result: ToolResult) -> _Found:
    text = text_of(result.content)
    about = f"{_count(text.count(chr(10)), 'name')} · ~{_tokens(text)} tokens"
    return _Found(Attached(name=target.name, about=about), text)


def _pasted(name: str) -> _Found:
    """Raises _StaysText."""
    file = name.removeprefix(PREFIX)
    try:
        data = (
            read_private(state_dir() / FOLDER / file, LARGEST) if _PASTED.fullmatch(file) else None
        )
    except (UnsafeFile, OSError) as error:
        raise _StaysText(one_line(str(error), 160)) from error
    if data is None:
        raise _StaysText("that image is no longer kept; paste it again")
    return _picture(name, file, data)


def _picture(name: str, title: str, data: bytes) -> _Found:
    try:
        found = picture(data)
    except NotAnImage as error:
        raise _StaysText(str(error)) from error
    attached = Attached(name=name, about=found.about, thumbnail=found.thumbnail)
    return _Found(attached, f"{title}: an image, {found.about}", (found.part,))


def _shown_lines(details: JsonObject) -> int:
    runs = details.get("seen")
    return sum(last - first + 1 for first, last in runs) if isinstance(runs, list) else 0


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _tokens(text: str) -> str:
    count = len(text) // 4
    return f"{count / 1000:.1f}k" if count >= 1000 else str(count)
