"""The facts of `/context`: what takes the model's window, and what can be done about each."""

import json
from collections.abc import Iterator, Sequence

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.messages import (
    AssistantMessage,
    ContentPart,
    ImagePart,
    Message,
    ToolMessage,
    UserMessage,
    text_of,
)
from codeagent.core.model import ModelRequest
from codeagent.core.sanitize import one_line
from codeagent.tui.facts import Bar, Caption, Fact, FactRow, Facts, opened, share
from codeagent.tui.rendering.palette import StyleName
from codeagent.tui.status import UsageStatus

_CHARS_PER_TOKEN = 4
"""A rough figure, used only to show how a window is divided."""
_IMAGE = 1_500 * _CHARS_PER_TOKEN
_LARGEST = 12
"""How many of the largest items are listed."""
_NAME = 48
"""Characters of each."""
_INSTRUCTIONS = lazy_regex(r"(?s)# Instructions of this workspace.*?\n</agents-md-*>")
_COMPACT = "/compact"
_GROUPS: dict[str, tuple[str, StyleName, str, str]] = {
    "system prompt": ("█", "accent", "It is part of every request.", ""),
    "tools": ("▓", "running", "Turn off the sets of tools that you do not need.", "/tools"),
    "instructions": ("▒", "warning", "A shorter AGENTS.md leaves more room.", ""),
    "messages": ("▞", "success", "/compact replaces the older ones with a summary.", _COMPACT),
    "results of tools": ("░", "text", "/compact leaves the older ones out.", _COMPACT),
}
"""What a window holds: sign and style of each in the bar, what can be done about it, and the
command for that."""


@dataclass(frozen=True)
class _Part:
    """Something that takes room in the window."""

    group: str
    name: str
    text: str
    images: int = 0

    @property
    def size(self) -> int:
        """Characters; an image counts as the text that takes as much."""
        return len(self.text) + self.images * _IMAGE


def context_facts(
    usage: UsageStatus, compact_at: float, coming: ModelRequest, messages: Sequence[Message]
) -> Facts:
    """Divide the window: sizes are estimated from the text, and scaled to what the provider counted
    last."""
    parts = [*_first(coming), *_said(messages)]
    whole = sum(part.size for part in parts)
    used = usage.context_tokens or whole // _CHARS_PER_TOKEN
    window = usage.context_window or max(used, 1)

    def tokens(*those: _Part) -> int:
        return round(sum(part.size for part in those) * used / max(1, whole))

    bar: list[tuple[str, float, StyleName]] = []
    rows: list[FactRow] = []
    for group, (sign, style, advice, command) in _GROUPS.items():
        own = [part for part in parts if part.group == group]
        taken = tokens(*own)
        bar.append((sign, taken / window, style))
        cells = (f"{sign} {group}", f"{taken:,}", share(taken, window))
        opens = None if command else opened("\n\n".join(part.text for part in own))
        does = f"runs {command}" if command else "opens it"
        rows.append(Fact(cells=cells, about=advice, does=does, command=command, opens=opens))
    free = max(0, window - used)
    whole_window = "tokens; the size of the window is unknown"
    if usage.context_window:
        cells = ("· free", f"{free:,}", share(free, window))
        about = f"Older messages give way to a summary at {round(window * compact_at):,} tokens."
        rows.append(Fact(cells=cells, about=about, does=f"runs {_COMPACT}", command=_COMPACT))
        whole_window = f"of {window:,} tokens, {share(used, window)}"
    rows += [Caption(("",)), Caption(("The largest",))]
    for part in sorted(parts, key=lambda part: -part.size)[:_LARGEST]:
        cells = (part.name, f"{tokens(part):,}", share(tokens(part), window))
        about = _GROUPS[part.group][2]
        rows.append(Fact(cells=cells, about=about, does="opens it", opens=opened(part.text)))
    about = "" if usage.context_tokens else "about "
    bar.append(("·", free / window, "muted"))
    rows[:0] = [Bar(tuple(bar)), Caption(("",)), Caption(("", "tokens", "share"))]
    return Facts("Context", rows, f"{about}{used:,} {whole_window}")


def _first(coming: ModelRequest) -> Iterator[_Part]:
    found = _INSTRUCTIONS.search(coming.system)
    own = found[0] if found else ""
    yield _Part("system prompt", "system prompt", coming.system.replace(own, ""))
    if own:
        yield _Part("instructions", "AGENTS.md", own)
    for tool in coming.tools:
        text = f"{tool.description}\n{json.dumps(tool.parameters, indent=1)}"
        yield _Part("tools", f"tool {tool.name}", text)


def _said(messages: Sequence[Message]) -> Iterator[_Part]:
    asked: dict[str, str] = {}
    for message in messages:
        match message:
            case UserMessage():
                yield _of_content("messages", "you:", message.content)
            case AssistantMessage():
                asked |= {call.id: call.arguments for call in message.calls}
                calls = [f"{call.name} {call.arguments}" for call in message.calls]
                text = "\n".join([*(one.text for one in message.thinking), message.text, *calls])
                yield _Part("messages", f"answer: {one_line(text.strip(), _NAME)}", text)
            case ToolMessage():
                name = f"{message.name} {one_line(asked.get(message.call_id, ''), _NAME)}"
                yield _of_content("results of tools", name, message.content)


def _of_content(group: str, name: str, content: tuple[ContentPart, ...]) -> _Part:
    text, images = text_of(content), sum(isinstance(part, ImagePart) for part in content)
    named = f"{name} {one_line(text, _NAME)}" if group == "messages" else name
    return _Part(group, named, text, images)
