"""What a conversation begins with telling: problems of its files, its sandbox, its model and its
rules."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial

from codeagent.agent.agent import Agent
from codeagent.app.place import StartedSandbox
from codeagent.app.sources import remarks_of_extensions
from codeagent.app.tools import ToolDependencies
from codeagent.config.settings import Settings
from codeagent.core.errors import ConfigError, SandboxUnavailable
from codeagent.core.model import from_now_on
from codeagent.core.policy import Rule
from codeagent.core.ports import SandboxInfo
from codeagent.core.sanitize import visible
from codeagent.tools.catalog import ToolCatalog

CodedText = tuple[str, str]
"""Code and text of a notice that a conversation begins with."""


def troubles(
    settings: Settings, dependencies: ToolDependencies, sandbox: StartedSandbox
) -> Iterator[CodedText]:
    """Yield a notice for each problem of the instructions, the skills and the sandbox."""
    for problem in (*dependencies.instructions.problems, *dependencies.skills.problems):
        yield (
            "skills.problem" if "SKILL.md" in problem.where else "instructions.hidden",
            visible(str(problem)),
        )
    if (trouble := sandbox.trouble) is not None:
        yield "sandbox.unavailable", f"no sandbox, so bash is disabled: {trouble}. {trouble.remedy}"
    yield from _told_at_start(sandbox.info)
    if dependencies.servers is not None and (waiting := dependencies.servers.waiting):
        yield "mcp.untrusted", visible(waiting)
    yield from remarks_of_extensions(settings, dependencies)
    yield from (("settings.unused", visible(line)) for line in settings.unused)


def other_server(before: str, now: str) -> Iterator[CodedText]:
    """Yield a notice if the text of a resumed conversation will go to another host than before."""
    if before and (where := from_now_on(now, before)):
        yield "model.server", f"this conversation went to {before}{where}"


def tell_when_started(sandbox: StartedSandbox, agent: Agent, stack: AsyncExitStack) -> None:
    """Have the agent report how the sandbox started, if the first request did not wait for that."""
    if sandbox.starting is not None:
        sandbox.starting.add_done_callback(partial(_tell_started, agent))
        stack.callback(
            sandbox.starting.cancel
        )  # runs before the agent is closed, which could not report it


def _tell_started(agent: Agent, starting: asyncio.Task[SandboxInfo]) -> None:
    if starting.cancelled():
        return
    if (trouble := starting.exception()) is not None:
        remedy = f". {trouble.remedy}" if isinstance(trouble, SandboxUnavailable) else ""
        agent.emitter.warn(
            "sandbox.unavailable", f"no sandbox, so every command fails: {trouble}{remedy}"
        )
        return
    for code, text in _told_at_start(starting.result()):
        agent.emitter.warn(code, text)


def _told_at_start(info: SandboxInfo | None) -> Iterator[CodedText]:
    for text in () if info is None else info.told:
        yield "sandbox.narrowed", visible(text)


def hand_written(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules that were written by hand: the tool of a kept answer may be gone."""
    return tuple(rule for rule in rules if rule.origin in ("flag", "user", "project"))


def misnamed(
    catalog: ToolCatalog, rules: Sequence[Rule], dependencies: ToolDependencies
) -> tuple[CodedText, ...]:
    """Return code and text of a notice for each name in rules and lists that may belong to a tool
    not loaded yet.

    Raises ConfigError if nothing can bring it.
    """
    unknown = catalog.unknown(hand_written(rules))
    wrong = (
        *(unknown if catalog.complete else ()),
        *catalog.unlisted(dependencies.to_read, certain=True),
    )
    if wrong:
        waiting = (
            dependencies.servers.waiting
            if dependencies.servers is not None and "mcp__" in wrong[0]
            else ""
        )
        raise ConfigError(
            f"{_sentence(wrong[0])} Nothing was run{f'; {waiting}' if waiting else ''}"
        )
    doubtful = map(_sentence, (*unknown, *catalog.unlisted(dependencies.to_read)))
    return tuple(
        ("rule.unknown", f"{text} It is checked again when all tools are known")
        for text in doubtful
    )


def _sentence(text: str) -> str:
    return text if text.endswith("?") else f"{text}."
