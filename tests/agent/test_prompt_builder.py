"""Trusting a project's tools takes effect at once while nothing runs, and otherwise at the next boundary."""

import asyncio
from pathlib import Path
from typing import Any

from codeagent.agent.emitter import Emitter
from codeagent.agent.prompt import PromptBuilder
from codeagent.core.events import Notice
from codeagent.core.policy import Rule
from codeagent.tools.catalog import ToolCatalog
from tests.agent.doubles import MemoryJournal
from tests.tools.catalog_setting import Setting


class Kept:
    """A conversation's tools, with one file of the project's that waits."""

    def __init__(self, setting: Setting, *rules: str) -> None:
        setting.write("project", "a.txt", "one")
        self.running = False
        self.catalog: ToolCatalog = setting.catalog()
        self.builder = PromptBuilder(
            self.catalog,
            lambda tools: " ".join(tool.name for tool in tools),
            rules=[Rule.parse(rule, "deny") for rule in rules],
        )
        self.journal = MemoryJournal()
        self.emitter = Emitter(self.journal)

    async def trust(self, trusted: bool = True) -> None:
        await self.builder.trust(trusted, self.emitter, running=self.running)

    def notices(self) -> list[Any]:
        return [getattr(event, "code", None) for event in self.journal.events]


async def test_what_was_trusted_is_there_at_once_while_nothing_runs(tmp_path: Path) -> None:
    kept = Kept(Setting(tmp_path))
    await kept.builder.at_boundary(kept.emitter)
    assert kept.catalog.now.untrusted == (".codeagent/tools/a.txt",)

    await kept.trust()

    assert kept.catalog.now.untrusted == ()
    assert kept.builder.system_prompt == "read bash one"
    assert [tool.name for tool in kept.builder.tools] == ["read", "bash", "one"]
    assert kept.notices() == ["tools.untrusted", "tools.changed"]


async def test_a_rule_that_names_no_tool_is_told_once_all_tools_are_known(tmp_path: Path) -> None:
    kept = Kept(Setting(tmp_path), "one(x)", "oen(x)")
    await kept.builder.at_boundary(kept.emitter)
    assert "rule.unknown" not in kept.notices()

    await kept.trust()

    told = [event for event in kept.journal.events if isinstance(event, Notice) and event.code == "rule.unknown"]
    assert [notice.text for notice in told] == ["the rule oen(x) names no tool; did you mean one(x)?"]


async def test_during_a_run_it_waits_for_the_boundary(tmp_path: Path) -> None:
    kept = Kept(Setting(tmp_path))
    kept.running = True

    await kept.trust()
    assert kept.builder.system_prompt == "read bash"

    await kept.builder.at_boundary(kept.emitter)
    assert kept.builder.system_prompt == "read bash one"


async def test_what_is_not_trusted_any_more_is_gone_at_once(tmp_path: Path) -> None:
    kept = Kept(Setting(tmp_path))
    await kept.trust()
    await kept.trust(False)
    assert kept.builder.system_prompt == "read bash"


async def test_two_looks_at_once_say_it_once(tmp_path: Path) -> None:
    kept = Kept(Setting(tmp_path))
    await asyncio.gather(*(kept.builder.at_boundary(kept.emitter) for _ in range(5)))
    assert kept.notices() == ["tools.untrusted"]


async def test_where_no_file_changed_prompt_and_tools_are_the_very_same(tmp_path: Path) -> None:
    kept = Kept(Setting(tmp_path))
    await kept.builder.at_boundary(kept.emitter)
    before = kept.builder.system_prompt, kept.builder.tools
    await kept.builder.at_boundary(kept.emitter)
    assert (kept.builder.system_prompt, kept.builder.tools) == before
    assert kept.builder.tools is before[1]
