"""The pages of `/status`, `/cost`, `/context`, `/config`, `/tools` and `/skills`, as Markdown."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, assert_never

from codeagent.config.checking import as_given
from codeagent.config.settings import Settings
from codeagent.core.memory import Skill
from codeagent.core.runtime import Session
from codeagent.core.sandbox import SandboxInfo
from codeagent.tui.status import Status, UsageStatus

About = Literal["status", "cost", "context", "config", "tools", "skills"]
_CHARS_PER_TOKEN = 4
"""A rough figure, used only to show how a context is divided."""


def info_page(
    about: About, workspace: Path, now: Status, settings: Settings | None, runtime: Session | None
) -> str:
    """Return the Markdown page; `settings` and `runtime` are None while codeagent is still
    starting."""
    match about:
        case "status":
            return _status(workspace, now, settings, runtime)
        case "cost":
            return _cost(now.usage)
        case "context":
            return _context(now, settings, runtime)
        case "config":
            return _config(settings)
        case "tools":
            return _tools(runtime)
        case "skills":
            return _skills(() if runtime is None else runtime.skills.listed)
        case _:
            assert_never(about)


def sandbox_words(info: SandboxInfo | None) -> str:
    """Describe the sandbox in a word or two."""
    if info is None:
        return "none"
    if info.kind != "docker":
        return "off" if info.kind == "host" else "not needed: a replay"
    return "docker"


def _status(
    workspace: Path, now: Status, settings: Settings | None, runtime: Session | None
) -> str:
    info, model = (None, None) if runtime is None else (runtime.sandbox_info, runtime.agent.model)
    used = () if model is None else (model.lane, model.server and f"at {model.server}")

    def chosen(name: str, value: object) -> str:
        """Say where a setting comes from; nothing if the conversation has another value by now."""
        if settings is None or getattr(settings, name) != value:
            return ""
        return f"from {settings.origins[name]}" if name in settings.origins else "the default"

    folder, talk = now.folder, now.conversation
    model_words = (talk.model or "none", *used, chosen("model", talk.model))
    rows = [
        ("folder", str(workspace)),
        ("branch", f"{folder.branch or 'none'}, {folder.changes} changed"),
        ("model", ", ".join(filter(None, model_words))),
        ("mode", ", ".join(filter(None, (talk.mode, chosen("mode", talk.mode))))),
        ("session", talk.session or "not started"),
        ("sandbox", talk.sandbox),
        ("network", talk.network),
    ]
    if info is not None:
        rows += [("image", f"{info.image} ({info.image_origin})"), ("commands run as", info.user)]
        rows += [("warning", warning) for warning in info.warnings]
    return _table("Status", rows)


def _cost(usage: UsageStatus) -> str:
    cost = "not known for this model" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    rows = [
        ("cost", cost),
        ("tokens in", f"{usage.input_tokens:,}"),
        (
            "of which from the cache",
            f"{usage.cache_read_tokens:,} ({_share(usage.cache_read_tokens, usage.input_tokens)})",
        ),
        ("tokens out", f"{usage.output_tokens:,}"),
    ]
    if usage.estimated:
        rows.append(
            ("note", "the provider sent no usage for some requests: their tokens are estimates")
        )
    return _table("Cost of this session", rows)


def _context(now: Status, settings: Settings | None, runtime: Session | None) -> str:
    window = now.usage.context_window
    used = f"{now.usage.context_tokens:,}" + (
        f" of {window:,} ({_share(now.usage.context_tokens, window)})" if window else ""
    )
    rows = [("tokens in use", used)]
    if settings is not None and window:
        share = settings.context.compact_at
        rows.append(
            (
                "compacted at",
                f"{share:.0%} of the window, {round(window * share):,}; /compact does it now",
            )
        )
    if now.work.pins:
        rows.append(("pinned lines", str(len(now.work.pins))))
    if runtime is not None:
        coming = runtime.next_request()
        tools = sum(
            len(one.name) + len(one.description) + len(json.dumps(one.parameters))
            for one in coming.tools
        )
        rows.append(
            (
                "system prompt of the next request",
                f"about {len(coming.system) // _CHARS_PER_TOKEN:,}",
            )
        )
        rows.append(("its tools", f"{len(coming.tools)}, about {tools // _CHARS_PER_TOKEN:,}"))
    return _table("Context", rows)


def _config(settings: Settings | None) -> str:
    if settings is None:
        return "# Settings\n\nNot read yet."
    text = json.dumps(as_given(settings), indent=2, ensure_ascii=False)
    return f"# Settings in force\n\n```json\n{text}\n```"


def _tools(runtime: Session | None) -> str:
    if runtime is None:
        return "# Tools\n\nNot started yet."
    return "\n\n".join(
        [
            "# Tools",
            *(f"## {tool.name}\n\n{tool.description}" for tool in runtime.next_request().tools),
        ]
    )


def _table(title: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"# {title}", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {_cell(value)} |" for name, value in rows]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "0%"


def _skills(listed: Sequence[Skill]) -> str:
    if not listed:
        return "There are no skills here. Put folders with a `SKILL.md` below `.codeagent/skills`."
    rows = [
        f"| {_cell(skill.name)} | {_cell(skill.description)} | {_cell(skill.where)} |"
        for skill in listed
    ]
    return "\n".join(["| skill | about | from |", "| --- | --- | --- |", *rows])
