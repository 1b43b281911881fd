"""Trusting a project's tools takes effect at once while nothing runs, and otherwise at the next
boundary."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from codeagent.agent.emitter import Emitter
from codeagent.agent.prompt import PromptBuilder
from codeagent.core.errors import ConfigError
from codeagent.core.events import Notice
from codeagent.core.patterns import AllowList
from codeagent.core.policy import Rule
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.toolsets import Toolsets
from tests.agent.doubles import MemoryJournal
from tests.tools.catalog_setting import Plain, Setting
from tests.tools.toolset_setting import Source, catalog_of


class Kept:
    """A conversation's tools, with one file of the project's that waits."""

    def __init__(self, setting: Setting, *rules: str) -> None:
        setting.write("project", "a.txt", "one")
        self.running = False
        self.catalog: ToolCatalog = setting.catalog()
        self.builder = PromptBuilder(
            self.catalog,
            lambda tools, *, small=False: " ".join(tool.name for tool in tools),
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


async def test_files_that_changed_since_they_were_listed_are_listed_again_and_not_trusted(
    tmp_path: Path,
) -> None:
    setting = Setting(tmp_path)
    kept = Kept(setting)
    await kept.builder.at_boundary(kept.emitter)
    setting.write("project", "b.txt", "two")
    with pytest.raises(ConfigError, match="look at them again"):
        await kept.trust()
    assert kept.catalog.now.untrusted == (".codeagent/tools/a.txt", ".codeagent/tools/b.txt")
    await kept.trust()
    assert kept.builder.system_prompt == "read bash one two"


async def test_a_rule_that_names_no_tool_is_told_once_all_tools_are_known(tmp_path: Path) -> None:
    kept = Kept(Setting(tmp_path), "one(x)", "oen(x)")
    await kept.builder.at_boundary(kept.emitter)
    assert "rule.unknown" not in kept.notices()

    await kept.trust()

    told = [
        event
        for event in kept.journal.events
        if isinstance(event, Notice) and event.code == "rule.unknown"
    ]
    assert [notice.text for notice in told] == [
        "the rule oen(x) does not name a tool; did you mean one(x)?"
    ]


async def test_during_a_run_it_waits_for_the_boundary(tmp_path: Path) -> None:
    kept = Kept(Setting(tmp_path))
    kept.running = True

    kept.catalog.look()
    await kept.trust()
    assert kept.builder.system_prompt == "read bash"

    await kept.builder.at_boundary(kept.emitter)
    assert kept.builder.system_prompt == "read bash one"


async def test_what_is_not_trusted_any_more_is_gone_at_once(tmp_path: Path) -> None:
    kept = Kept(Setting(tmp_path))
    kept.catalog.look()
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


async def test_an_allowed_tool_that_does_not_exist_is_told_once_every_source_is_known() -> None:
    source = Source("hub", "deploy", held=True)
    toolsets = Toolsets([source], allow=AllowList((("read", "deploy", "deplyo", "zzz"),)))
    catalog = catalog_of(toolsets)
    builder, journal = (
        PromptBuilder(catalog, lambda tools, *, small=False: "", rules=()),
        MemoryJournal(),
    )
    emitter = Emitter(journal)
    toolsets.sources.begin()
    await builder.at_boundary(emitter)
    assert catalog.names.misnamed(()) == () and journal.events == []
    source.release.set()
    await toolsets.available.ready("hub")
    for _ in range(3):
        await builder.at_boundary(emitter)
        source.have("deploy", "more")
    told = [
        event.text
        for event in journal.events
        if isinstance(event, Notice) and event.code == "rule.unknown"
    ]
    assert told == [
        "deplyo in the list of allowed tools is not a tool; did you mean deploy?",
        "zzz in the list of allowed tools is not a tool; there are bash, deploy, read",
    ]
    await toolsets.sources.close()


async def test_a_small_window_gets_the_tool_that_a_cut_output_names_once_there_is_one() -> None:
    kept: list[str] = []
    catalog = ToolCatalog([Plain("read"), Plain("search"), Plain("output_read")])
    builder = PromptBuilder(catalog, lambda tools, *, small=False: "", outputs=lambda: kept)
    builder.fit(2_048)
    emitter, offered = Emitter(MemoryJournal()), []
    for handles in ([], ["out_1"]):
        kept[:] = handles
        await builder.at_boundary(emitter)
        offered.append([tool.name for tool in builder.tools])
    assert offered == [["read"], ["read", "output_read"]]
    assert builder.next_request().tools == builder.tools


async def test_what_is_turned_on_changes_neither_the_prompt_nor_what_was_told_before_it(
    tmp_path: Path,
) -> None:
    toolsets = Toolsets([Source("hub", "one", "two")])
    catalog = Setting(tmp_path).catalog(toolsets=toolsets)
    builder = PromptBuilder(
        catalog, lambda tools, *, small=False: " ".join(tool.name for tool in tools)
    )
    emitter = Emitter(MemoryJournal())
    await builder.at_boundary(emitter)
    prompt, tools = builder.system_prompt, builder.tools
    await toolsets.use("hub")
    coming = builder.next_request()
    assert builder.tools == tools
    await builder.at_boundary(emitter)
    assert (
        (coming.system, coming.tools)
        == (builder.system_prompt, builder.tools)
        == (prompt, catalog.definitions())
    )
    assert builder.next_request() == coming
    assert builder.system_prompt == prompt and builder.tools[: len(tools)] == tools
    assert [tool.name for tool in builder.tools[len(tools) :]] == ["one", "two"]
    await toolsets.sources.close()
