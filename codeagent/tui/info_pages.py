"""The facts of `/status`, `/cost`, `/stats`, `/sandbox`, `/tools`, `/skills` and `/extensions`."""

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Literal

from codeagent import __version__
from codeagent.config.settings import Settings
from codeagent.core.audit import SessionStats
from codeagent.core.errors import CodeagentError
from codeagent.core.events import KnownEvent, RunFinished, TurnFinished, UnknownEvent
from codeagent.core.extension import Extension
from codeagent.core.hosts import NETWORK_MEANS
from codeagent.core.json_types import MAIN
from codeagent.core.memory import Skills
from codeagent.core.messages import Usage
from codeagent.core.policy import HOSTS, Rule
from codeagent.core.runtime import Session
from codeagent.core.sandbox import SandboxInfo
from codeagent.core.tool import ToolDefinition
from codeagent.tui.facts import COPIES, Caption, Fact, FactRow, Facts, opened, share
from codeagent.tui.status import Status, UsageStatus, fields_of, sandbox_words
from codeagent.tui.transcript.spelling import counted

About = Literal[
    "status", "cost", "context", "stats", "agents", "sandbox", "tools", "skills", "extensions"
]
_NO_AGENT = "No agent has worked for this conversation yet"
_SKILL_FILE = ".codeagent/skills/NAME/SKILL.md"


def status_facts(
    workspace: Path, now: Status, settings: Settings | None, runtime: Session | None
) -> Facts:
    model = None if runtime is None else runtime.agent.model
    used = () if model is None else (model.lane, model.server and f"at {model.server}")

    def chosen(name: str, value: object) -> str:
        """Say where a setting comes from; nothing if the conversation has another value by now."""
        if settings is None or getattr(settings, name) != value:
            return ""
        return f"from {settings.origins[name]}" if name in settings.origins else "the default"

    folder, talk = now.folder, now.conversation
    models = ", ".join(filter(None, (talk.model or "none", *used, chosen("model", talk.model))))
    modes = ", ".join(filter(None, (talk.mode, chosen("mode", talk.mode))))
    filled = fields_of(now)["context"].replace(" ctx", " tokens")
    changed = f"{folder.branch or 'none'}, {counted(folder.changes, 'file')} changed"
    table = (
        ("version", __version__, "", ""),
        ("folder", str(workspace), "", ""),
        ("branch", changed, "shows what this session changed", "/diff"),
        ("model", models, "chooses another model", "/model"),
        ("mode", modes, "shows the rules in force", "/permissions"),
        ("context", filled or "empty", "shows what fills it", "/context"),
        ("session", talk.session or "not started", "", ""),
        ("sandbox", talk.sandbox, "says more about it", "/sandbox"),
        ("network", talk.network, "changes it", "/sandbox"),
    )
    return Facts("Status", _rows(table))


def _rows(table: Iterable[tuple[str, str, str, str]]) -> list[Fact]:
    """Return a row for each name and value, with what Enter does and its command; without one it
    copies the value."""
    return [
        Fact(cells=(name, value), does=does or COPIES, command=command)
        for name, value, does, command in table
    ]


def cost_facts(usage: UsageStatus) -> Facts:
    cost = "not known for this model" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    cached = f"{usage.cache_read_tokens:,} ({share(usage.cache_read_tokens, usage.input_tokens)})"
    fills, calls = ("shows what fills the window", "/context"), ("shows the calls", "/stats")
    table = (
        ("cost", cost, "shows it over days", "/usage"),
        ("budget", usage.budget or "none", "says how to set one", "/budget"),
        ("tokens in", f"{usage.input_tokens:,}", *fills),
        ("of which from the cache", cached, *fills),
        ("tokens out", f"{usage.output_tokens:,}", *calls),
    )
    note = "some tokens are estimates: the provider sent no usage" if usage.estimated else ""
    return Facts("Cost of this session", _rows(table), note)


def stats_facts(stats: SessionStats) -> Facts:
    rows: list[FactRow] = [Caption(("tool", "calls", "failed", "seconds"))] if stats.tools else []
    for name, tool in stats.tools.items():
        cells = (name, f"{tool.calls:,}", f"{tool.failed:,}", f"{tool.duration_ms / 1000:,.1f}")
        does = "shows the decisions"
        rows.append(Fact(cells=cells, does=does, command="/permissions"))
    others = {
        "errors": stats.errors,
        "allowed or denied by": stats.approvals,
        "jobs": stats.jobs,
        "limits reached": stats.limits,
    }
    for name, counts in others.items():
        rows += [Caption(("",)), Caption((name,))] if counts else []
        rows += [Fact(cells=(kind, f"{count:,}")) for kind, count in counts.items()]
    if not rows:
        none = "No calls yet"
        rows.append(Fact(cells=(none,), does="shows usage of earlier days", command="/usage"))
    note = f"{counted(stats.total_calls, 'call')} · {counted(stats.turns, 'turn')}"
    return Facts("Calls of this session", rows, note)


def sandbox_facts(now: str, info: SandboxInfo | None, rules: Iterable[Rule]) -> Facts:
    """`now` is the level of the network; the rules say which hosts are on the allow-list."""
    rows: list[FactRow] = [Fact(cells=("sandbox", sandbox_words(info)))]
    if info is not None:
        image = f"{info.image} ({info.image_origin})" if info.image else "none"
        rows += [Fact(cells=("image", image)), Fact(cells=("commands run as", info.user))]
        rows += [Fact(cells=("warning", text), style="warning") for text in info.warnings]
    rows += [Caption(("",)), Caption(("What commands with network access may reach",))]
    allowed = [str(rule) for rule in rules if rule.tool == HOSTS and rule.permission == "auto"]
    none = "none yet; network(pypi.org) would allow one"
    for level, means in NETWORK_MEANS.items():
        listed = f": {', '.join(allowed) or none}" if level == "allow-list" else ""
        rows.append(
            Fact(
                cells=(f"{level} (now)" if level == now else level, f"{means}{listed}"),
                does="leaves it so" if level == now else "changes to it",
                command=f"/sandbox {level}",
                style="warning" if level == "open" else "text",
            )
        )
    return Facts("Sandbox", rows)


def tool_facts(tools: Iterable[ToolDefinition]) -> Facts:
    rows = [
        Fact(cells=(tool.name, tool.description), does="opens it", opens=opened(tool.description))
        for tool in tools
    ]
    return Facts("Tools", rows or [Fact(cells=("Not started yet",))])


def skills_facts(skills: Skills | None) -> Facts:
    def text_of(name: str) -> str | None:
        try:
            return None if skills is None else skills.read(name).text
        except (KeyError, CodeagentError):
            return None

    listed = () if skills is None else skills.listed
    rows: list[FactRow] = [Caption(("skill", "from", "about"))] if listed else []
    for skill in listed:
        cells = (skill.name, skill.where, skill.description)
        opens = partial(asyncio.to_thread, text_of, skill.name)
        rows.append(Fact(cells=cells, about=skill.description, does="opens it", opens=opens))
    if not listed:
        how = "No skills yet. Create one with a file like this:"
        rows = [Caption((how,)), Fact(cells=(_SKILL_FILE,), does="copies its name")]
    return Facts("Skills", rows, counted(len(listed), "skill"))


def agent_facts(events: Iterable[KnownEvent | UnknownEvent]) -> Facts:
    """Sum up what each agent of the conversation did, in the order in which they began."""
    usage, state, said = dict[str, Usage](), dict[str, str](), dict[str, str]()
    for event in events:
        match event:
            case _ if event.agent == MAIN:
                continue
            case TurnFinished():
                usage[event.agent] = usage.get(event.agent, Usage()) + event.usage
            case RunFinished():
                state[event.agent], said[event.agent] = event.reason, event.text
            case _:
                state.setdefault(event.agent, "working")
    rows: list[FactRow] = [Caption(("agent", "state", "tokens", "answer"))]
    for name, now in state.items():
        spent, text = usage.get(name, Usage()), said.get(name, "")
        cells = (name, now, f"{spent.input_tokens + spent.output_tokens:,}", text)
        rows.append(Fact(cells=cells, does="opens its answer", opens=opened(text)))
    none = Fact(cells=(_NO_AGENT,), does="lets the model use agents", command="/tools on agents")
    return Facts("Agents", rows if state else [none])


def extension_facts(on: Iterable[Extension], off: Iterable[Extension]) -> Facts:
    rows: list[FactRow] = [Caption(("extension", "state", "about"))]
    for state, extensions in (("on", on), ("off", off)):
        for one in extensions:
            brings = [f"/{each.name}" for each in one.screen.commands]
            brings += [f"codeagent {each.words}" for each in one.subcommands]
            brings += [f"toolset {each.name}" for each in one.sets]
            said = [one.about, *([one.when_off] if state == "off" else []), "", *brings]
            cells, opens = (one.name, state, one.about), opened("\n".join(said))
            rows.append(Fact(cells=cells, does="says what it brings", opens=opens))
    return Facts("Extensions", rows)
