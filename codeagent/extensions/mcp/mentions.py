"""Reads what a prompt uses from servers: `@server:resource` anywhere, and `/server:prompt …` at its
beginning."""

import asyncio
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, starmap
from typing import Any, TypeGuard

from codeagent.changes.diff import count
from codeagent.core.messages import text_of
from codeagent.core.runtime import OfferedText, TextKind
from codeagent.core.sanitize import one_line, visible
from codeagent.core.tool import Failed, ToolError
from codeagent.extensions.mcp.answer import result_of
from codeagent.extensions.mcp.source import McpSource

_RESOURCE = re.compile(r"(?<![\w@/.])@([A-Za-z0-9][A-Za-z0-9_-]{0,31}):([^\s]+)", re.ASCII)
_PROMPT = re.compile(
    r"/([A-Za-z0-9][A-Za-z0-9_-]{0,31}):([^\s]+)(?:\s+(.*))?", re.ASCII | re.DOTALL
)
_AT_THE_END = ".,;:!?)]}'\""
"""Punctuation that may follow a name in a sentence without being part of it."""
_MOST = 5
_LONGEST = 40_000
_MOST_OFFERED = 500
_LARGEST = 1 << 50
"""Bytes of a resource whose size is believed."""


def resources_in(text: str, servers: Sequence[McpSource]) -> dict[str, tuple[McpSource, str]]:
    """Return the resources that a prompt names, as typed, with their servers and addresses. A name
    that is not a server's is ordinary text. Raises Failed if there are too many."""
    by_name = {server.name: server for server in servers}
    found = {
        f"{match[1]}:{uri}": (by_name[match[1]], uri)
        for match in _RESOURCE.finditer(text)
        if match[1] in by_name and (uri := match[2].rstrip(_AT_THE_END))
    }
    if len(found) > _MOST:
        raise Failed(f"a prompt can name at most {_MOST} resources of servers, not {len(found)}")
    return found


async def read_mentions(
    text: str, servers: Sequence[McpSource], hear: Callable[[str], None] = lambda name: None
) -> tuple[str, Mapping[str, str]]:
    """Return the text that a prompt uses from servers, for the model, and how large each resource
    in it is; the text is empty if it uses nothing.

    `hear` is called with the name of each server that text comes from. Raises Failed, which says
    what cannot be read.
    """
    wanted = resources_in(text, servers)
    named = [server.name for server, _ in wanted.values()]
    parts: list[str] = []
    command = _PROMPT.fullmatch(text.strip())
    for server in servers:
        if command is not None and command[1] == server.name:
            named.insert(0, server.name)
            parts.append(await _prompt(server, command[2], command[3] or ""))
    read = await asyncio.gather(*starmap(_resource, wanted.values()))
    for name in dict.fromkeys(named):
        hear(name)
    # Above its lines are a title, and the address.
    sizes = {
        name: f"{count(len(said.splitlines()) - 2, 'line')} · {_tokens(len(said))}"
        for name, said in zip(wanted, read, strict=True)
    }
    return "\n\n".join((*parts, *read)), sizes


def _tokens(size: int) -> str:
    return f"~{size // 4:,} tokens"


async def offered_texts(server: McpSource, kind: TextKind) -> tuple[OfferedText, ...]:
    """Return what a prompt can use from the server, as far as it can be typed. Raises Failed."""
    offered = _resource_text if kind == "resource" else _prompt_text
    texts = (offered(server.name, each) for each in await server.pages(f"{kind}s"))
    return tuple(islice((text for text in texts if text is not None), _MOST_OFFERED))


def _resource_text(server: str, resource: Mapping[str, Any]) -> OfferedText | None:
    """Return the text to offer for a resource; None if its address would be misread."""
    uri = resource.get("uri")
    if not _can_be_typed(uri) or uri != uri.rstrip(_AT_THE_END):
        return None
    size = resource.get("size")
    return OfferedText(
        f"{server}:{uri}",
        _about(resource),
        size=_tokens(size) if isinstance(size, int) and 0 <= size < _LARGEST else "",
    )


def _prompt_text(server: str, prompt: Mapping[str, Any]) -> OfferedText | None:
    name = prompt.get("name")
    if not _can_be_typed(name):
        return None
    inputs = tuple(
        (each["name"], _about(each))
        for each in _objects(prompt.get("arguments"))
        if _can_be_typed(each.get("name"))
    )
    return OfferedText(f"{server}:{name}", _about(prompt), inputs)


def _can_be_typed(name: object) -> TypeGuard[str]:
    return (
        isinstance(name, str)
        and re.fullmatch(r"\S{1,400}", name) is not None
        and visible(name) == name
    )


def _about(said: Mapping[str, Any]) -> str:
    return one_line(str(said.get("description") or said.get("title") or ""), 200)


def _objects(listed: object) -> list[Mapping[str, Any]]:
    """Return the objects of a list, if it is one."""
    return (
        [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    )


async def _resource(server: McpSource, uri: str) -> str:
    answer = await server.request("resources/read", {"uri": uri})
    found = answer.get("contents")
    found = found if isinstance(found, list) else []
    contents = [{"type": "resource", "resource": each} for each in found]
    if not contents:
        raise Failed(f"@{server.name}:{one_line(uri, 200)} is empty")
    text = await asyncio.to_thread(_text, server.name, contents)
    return _bounded(f"Content of @{server.name}:{one_line(uri, 300)}", text)


async def _prompt(server: McpSource, name: str, given: str) -> str:
    listed = await server.pages("prompts")
    about = next((prompt for prompt in listed if prompt.get("name") == name), None)
    if about is None:
        known = ", ".join(one_line(str(prompt.get("name")), 40) for prompt in listed[:20]) or "none"
        raise Failed(f"{server.name} has no prompt {one_line(name, 60)!r}; it has {known}")
    params = {"name": name, "arguments": _arguments(server.name, about, given)}
    answer = await server.request("prompts/get", params)
    lines: list[str] = []
    for message in _objects(answer.get("messages")):
        content = message.get("content")
        said = await asyncio.to_thread(
            _text, server.name, content if isinstance(content, list) else [content]
        )
        lines.append(
            said if message.get("role") == "user" else f"(said before by the assistant) {said}"
        )
    return _bounded(
        f"The prompt {one_line(name, 60)} of the MCP server {server.name}, which the user asks for",
        "\n".join(lines),
    )


def _arguments(server: str, about: Mapping[str, Any], given: str) -> dict[str, str]:
    """Read `a=1 b="two words"`, or values in the order of the prompt's arguments. Raises Failed."""
    declared = _objects(about.get("arguments"))
    names = [each["name"] for each in declared if isinstance(each.get("name"), str)]
    required = [
        each["name"]
        for each in declared
        if each.get("required") is True and each.get("name") in names
    ]
    try:
        words = shlex.split(given)
    except ValueError as error:
        raise Failed(f"the arguments of the prompt cannot be read: {error}") from error
    pairs = [word.partition("=") for word in words]
    if words and all(equals and key in names for key, equals, _ in pairs):
        found = {key: value for key, _, value in pairs}
    else:
        found = dict(zip(names[:-1], words, strict=False))
        if names and len(words) >= len(names):
            found[names[-1]] = " ".join(words[len(names) - 1 :])
    missing = [visible(name) for name in required if name not in found]
    if missing:
        name = one_line(str(about.get("name")), 60)
        usage = " ".join(f"{visible(one)}=…" for one in names)
        raise Failed(f"/{server}:{name} needs {', '.join(missing)}: write /{server}:{name} {usage}")
    return found


def _text(server: str, blocks: Sequence[Any]) -> str:
    try:
        return text_of(result_of(server, {"content": blocks}).content)
    except ToolError as error:
        return str(error)


def _bounded(title: str, text: str) -> str:
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…\n[cut: {len(text):,} characters]"
    return f"{title}:\n{cut}"
