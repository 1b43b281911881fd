"""The pages of `/status`, `/cost`, `/context`, `/config`, `/tools` and `/skills`, as Markdown."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, assert_never

from codeagent.config.settings import Settings
from codeagent.core.ports import SandboxInfo
from codeagent.core.runtime import Runtime
from codeagent.tui.state import UiState

About = Literal["status", "cost", "context", "config", "tools", "skills"]
_CHARS_PER_TOKEN = 4
"""A rough figure, only for how a context is divided."""


@dataclass(frozen=True)
class InfoSources:
    """Where the pages get what they say from; None while codeagent is still starting."""

    workspace: Path
    state: UiState
    settings: Settings | None
    runtime: Runtime | None


def info_page(about: About, sources: InfoSources) -> str:
    match about:
        case "status":
            return _status(sources)
        case "cost":
            return _cost(sources)
        case "context":
            return _context(sources)
        case "config":
            return _config(sources)
        case "tools":
            return _tools(sources)
        case "skills":
            return _skills(sources)
        case _:
            assert_never(about)


def sandbox_words(info: SandboxInfo | None) -> str:
    """The sandbox in the few words of the header."""
    if info is None:
        return "none"
    if info.kind == "host":
        return "off"
    return "docker, net off" if info.network in ("none", "off") else f"docker, net {info.network}"


def _status(sources: InfoSources) -> str:
    now = sources.state.status.now
    info = None if sources.runtime is None else sources.runtime.sandbox_info
    rows = [
        ("folder", str(sources.workspace)),
        ("branch", f"{now.branch or 'none'}, {now.changes} changed"),
        ("model", now.model or "none"),
        ("mode", now.mode),
        ("session", now.session or "not begun"),
        ("sandbox", now.sandbox),
    ]
    if info is not None:
        rows += [("image", f"{info.image} ({info.image_origin})"), ("commands run as", info.user)]
        rows += [("warning", warning) for warning in info.warnings]
    return _table("Status", rows)


def _cost(sources: InfoSources) -> str:
    now = sources.state.status.now
    cost = "not known for this model" if now.cost_usd is None else f"${now.cost_usd:.4f}"
    rows = [
        ("cost", cost),
        ("tokens in", f"{now.input_tokens:,}"),
        ("of these from the cache", f"{now.cache_read_tokens:,} ({_share(now.cache_read_tokens, now.input_tokens)})"),
        ("tokens out", f"{now.output_tokens:,}"),
    ]
    if now.estimated:
        rows.append(("note", "the provider sent no usage for some requests: their tokens are estimates"))
    return _table("Cost of this session", rows)


def _context(sources: InfoSources) -> str:
    now = sources.state.status.now
    window = now.context_window
    used = f"{now.context_tokens:,}" + (f" of {window:,} ({_share(now.context_tokens, window)})" if window else "")
    rows = [("tokens in use", used)]
    if sources.runtime is not None:
        tools = sum(
            len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters)) for tool in sources.runtime.tools
        )
        rows.append(("system prompt", f"about {len(sources.runtime.system_prompt) // _CHARS_PER_TOKEN:,}"))
        rows.append(("tool descriptions", f"about {tools // _CHARS_PER_TOKEN:,}"))
    return _table("Context", rows)


def _config(sources: InfoSources) -> str:
    if sources.settings is None:
        return "# Settings\n\nNot read yet."
    text = json.dumps(sources.settings.model_dump(mode="json"), indent=2, ensure_ascii=False)
    return f"# Settings in force\n\n```json\n{text}\n```"


def _tools(sources: InfoSources) -> str:
    if sources.runtime is None:
        return "# Tools\n\nNot started yet."
    parts = ["# Tools"]
    for tool in sources.runtime.tools:
        parts.append(f"## {tool.name}\n\n{tool.description}")
    return "\n\n".join(parts)


def _table(title: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"# {title}", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {_cell(value)} |" for name, value in rows]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "0%"


def _skills(sources: InfoSources) -> str:
    listed = () if sources.runtime is None else sources.runtime.skills.listed
    if not listed:
        return "There are no skills here: folders with a `SKILL.md` below `.codeagent/skills` are listed."
    rows = [f"| {_cell(skill.name)} | {_cell(skill.description)} | {_cell(skill.where)} |" for skill in listed]
    return "\n".join(["| skill | about | from |", "| --- | --- | --- |", *rows])
