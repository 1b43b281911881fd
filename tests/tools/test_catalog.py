"""The set of tools changes only where it is looked at, and only by files somebody vouches for."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.errors import ConfigError
from codeagent.core.policy import Rule
from codeagent.core.tool import Denied, NotFound
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.folders import LARGEST_FILE, FolderState, Loaded, ToolFile, ToolFolder
from tests.tools.catalog_setting import Lines, Plain, Setting


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


def names(catalog: ToolCatalog) -> list[str]:
    return [tool.name for tool in catalog]


async def test_tools_of_files_come_after_the_built_in_ones_by_file_and_line(
    setting: Setting,
) -> None:
    setting.write("user", "b.txt", "three")
    setting.write("user", "a.txt", "one two")
    catalog = setting.catalog()
    change = await catalog.refresh()
    assert names(catalog) == ["read", "bash", "one", "two", "three"]
    assert change is not None and change.added == ("one", "two", "three")


async def test_nothing_changes_between_two_looks(setting: Setting) -> None:
    catalog = setting.catalog()
    await catalog.refresh()
    setting.write("user", "a.txt", "one")
    assert names(catalog) == ["read", "bash"]
    with pytest.raises(NotFound):
        catalog.get("one")


async def test_a_look_that_finds_nothing_new_loads_nothing(setting: Setting) -> None:
    setting.write("user", "a.txt", "one")
    catalog = setting.catalog()
    await catalog.refresh()
    assert await catalog.refresh() is None
    assert len(setting.loader.loads) == 1


async def test_an_edited_file_gives_its_new_tools_and_only_it_is_loaded_again(
    setting: Setting,
) -> None:
    setting.write("user", "a.txt", "one two")
    setting.write("user", "b.txt", "three")
    catalog = setting.catalog()
    await catalog.refresh()
    setting.write("user", "a.txt", "one four")
    change = await catalog.refresh()
    assert change is not None
    assert (change.added, change.changed, change.removed) == (("four",), ("one",), ("two",))
    assert [Path(shown).name for shown in setting.loader.loads] == ["a.txt", "b.txt", "a.txt"]


async def test_a_broken_file_disables_only_itself_until_it_is_repaired(setting: Setting) -> None:
    setting.write("user", "a.txt", "one")
    setting.write("user", "b.txt", "!")
    catalog = setting.catalog()
    change = await catalog.refresh()
    assert change is not None and [problem.text for problem in change.problems] == ["it is broken"]
    assert names(catalog) == ["read", "bash", "one"]
    setting.write("user", "b.txt", "two")
    await catalog.refresh()
    assert names(catalog) == ["read", "bash", "one", "two"]
    assert catalog.now.problems == ()


async def test_a_name_that_is_taken_is_refused_with_both_origins(setting: Setting) -> None:
    setting.write("user", "a.txt", "one bash")
    setting.write("user", "b.txt", "one")
    catalog = setting.catalog()
    await catalog.refresh()
    assert names(catalog) == ["read", "bash", "one"]
    taken, doubled = sorted(catalog.now.problems, key=lambda problem: problem.text)
    assert "bash" in taken.text and "builtin" in taken.text
    assert "b.txt:1" in doubled.text and "a.txt:1" in doubled.text


async def test_files_of_a_project_are_not_loaded_before_somebody_said_yes(setting: Setting) -> None:
    setting.write("project", "a.txt", "one")
    catalog = setting.catalog()
    change = await catalog.refresh()
    assert change is not None and change.untrusted == (".codeagent/tools/a.txt",)
    assert setting.loader.loads == []
    assert names(catalog) == ["read", "bash"]


async def test_trust_loads_them_at_the_next_look_and_in_the_next_session(setting: Setting) -> None:
    setting.write("project", "a.txt", "one")
    catalog = setting.catalog()
    await catalog.refresh()
    await catalog.files.trust()
    assert names(catalog) == ["read", "bash"]
    await catalog.refresh()
    assert names(catalog) == ["read", "bash", "one"]
    later = setting.catalog()
    await later.refresh()
    assert names(later) == ["read", "bash", "one"]


async def test_files_that_changed_after_they_were_listed_are_not_trusted_before_they_are_listed_again(
    setting: Setting,
) -> None:
    setting.write("project", "a.txt", "one")
    catalog = setting.catalog()
    await catalog.refresh()
    setting.write("project", "a.txt", "two")
    with pytest.raises(
        ConfigError, match="changed after they were listed: look at them again; nothing was trusted"
    ):
        await catalog.files.trust()
    await catalog.refresh()
    assert (names(catalog), setting.trust.digest) == (["read", "bash"], "")
    await catalog.files.trust()
    await catalog.refresh()
    assert names(catalog) == ["read", "bash", "two"]


@pytest.mark.parametrize(
    "alter",
    [
        lambda setting: setting.write("project", "a.txt", "one more"),
        lambda setting: setting.write("project", "b.txt", "more"),
        lambda setting: (setting.project / ".codeagent/tools/a.txt").rename(
            setting.project / ".codeagent/tools/c.txt"
        ),
    ],
    ids=["a changed byte", "a further file", "another name"],
)
async def test_any_change_ends_the_trust(
    setting: Setting, alter: Callable[[Setting], object]
) -> None:
    setting.write("project", "a.txt", "one")
    catalog = setting.catalog()
    await catalog.refresh()
    await catalog.files.trust()
    await catalog.refresh()
    alter(setting)
    change = await catalog.refresh()
    assert change is not None and change.untrusted and change.removed == ("one",)
    assert names(catalog) == ["read", "bash"]


async def test_a_run_that_accepts_the_project_takes_it_as_it_is_at_the_beginning(
    setting: Setting,
) -> None:
    setting.write("project", "a.txt", "one")
    catalog = setting.catalog(accept=True)
    await catalog.refresh()
    assert names(catalog) == ["read", "bash", "one"]
    setting.write("project", "a.txt", "two")
    await catalog.refresh()
    assert names(catalog) == ["read", "bash"]
    assert setting.trust.digest == ""


async def test_distrust_takes_them_out(setting: Setting) -> None:
    setting.write("project", "a.txt", "one")
    catalog = setting.catalog()
    await catalog.refresh()
    await catalog.files.trust()
    await catalog.refresh()
    await catalog.files.distrust()
    await catalog.refresh()
    assert names(catalog) == ["read", "bash"]


async def test_where_trust_is_damaged_nothing_is_loaded_and_it_is_said(setting: Setting) -> None:
    def damaged(digest: str) -> bool:
        raise ConfigError("trust.jsonl:1: it is damaged")

    setting.write("project", "a.txt", "one")
    setting.trust.trusts = damaged  # type: ignore[method-assign]  # the one method that reads
    catalog = setting.catalog()
    await catalog.refresh()
    assert names(catalog) == ["read", "bash"]
    assert [problem.text for problem in catalog.now.problems] == ["trust.jsonl:1: it is damaged"]


async def test_a_further_tool_changes_nothing_of_what_stands_before_its_place(
    setting: Setting,
) -> None:
    setting.write("user", "b.txt", "two")
    catalog = setting.catalog()
    await catalog.refresh()
    before = catalog.definitions()
    setting.write("user", "c.txt", "three")
    await catalog.refresh()
    assert catalog.definitions()[: len(before)] == before


def test_a_folder_that_cannot_be_read_for_now_keeps_its_files_and_is_a_problem(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting.write("user", "a.txt", "one")
    folder = ToolFolder(setting.user, (), "user", (".txt",))
    before = folder.read()
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", raising(OSError(errno.EMFILE, "Too many open files")))
        broken = folder.read()
        assert (broken.files, broken.digest) == (
            before.files,
            before.digest,
        ) and folder.read() is broken
        assert [one.text for one in broken.problems] == [
            "it cannot be read (Too many open files): what was read before stays"
        ]
        unknown = ToolFolder(setting.user, (), "user", (".txt",)).read()
        assert unknown.files == () and unknown.problems[0].level == "error"
    assert folder.read().problems == ()


def test_a_folder_that_is_a_link_is_a_warning_and_one_that_is_missing_is_none(
    tmp_path: Path,
) -> None:
    assert ToolFolder(tmp_path, ("tools",), "project", (".txt",)).read() == FolderState()
    (tmp_path / "tools").symlink_to(tmp_path)
    [problem] = ToolFolder(tmp_path, ("tools",), "project", (".txt",)).read().problems
    assert (
        str(problem) == "tools: it is a link, or not a folder: nothing in it is loaded"
        and problem.level == "warning"
    )


def raising(error: Exception) -> Callable[..., Any]:
    def raise_it(*_: Any) -> Any:
        raise error

    return raise_it


def test_no_link_is_followed(setting: Setting, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.txt").write_text("evil")
    (setting.user / "a.txt").symlink_to(tmp_path / "elsewhere.txt")
    state = ToolFolder(setting.user, (), "user", (".txt",)).read()
    assert state.files == () and len(state.problems) == 1
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".codeagent").symlink_to(setting.project / ".codeagent")
    setting.write("project", "a.txt", "one")
    assert (
        ToolFolder(tmp_path / "linked", (".codeagent", "tools"), "project", (".txt",)).read().files
        == ()
    )


def test_what_is_too_large_or_no_file_is_a_problem(setting: Setting) -> None:
    (setting.user / "a.txt").write_bytes(b"x" * (LARGEST_FILE + 1))
    (setting.user / "b.txt").mkdir()
    state = ToolFolder(setting.user, (), "user", (".txt",)).read()
    assert state.files == () and len(state.problems) == 2


def test_hidden_and_private_files_are_passed_over(setting: Setting) -> None:
    setting.write("user", ".a.txt", "one")
    setting.write("user", "_b.txt", "two")
    setting.write("user", "c.md", "three")
    assert ToolFolder(setting.user, (), "user", (".txt",)).read().files == ()


def unknown(catalog: ToolCatalog, *rules: str) -> list[str]:
    return list(catalog.unknown([Rule.parse(rule, "deny") for rule in rules]))


async def test_a_rule_that_names_no_tool_is_told_with_the_nearest_name(setting: Setting) -> None:
    setting.write("user", "a.txt", "deploy")
    catalog = setting.catalog(elsewhere=["write", "edit"])
    await catalog.refresh()
    assert unknown(catalog, "Write(*)", "bsh(rm*)", "deplyo", "zzz") == [
        "the rule Write(*) does not name a tool; did you mean write(*)?",
        "the rule bsh(rm*) does not name a tool; did you mean bash(rm*)?",
        "the rule deplyo does not name a tool; did you mean deploy?",
        "the rule zzz does not name a tool; there are bash, deploy, edit, read, write",
    ]


async def test_a_rule_for_a_tool_that_is_there_or_could_be_is_taken(setting: Setting) -> None:
    catalog = setting.catalog(elsewhere=["write"])
    await catalog.refresh()
    assert (
        unknown(
            catalog, "bash(rm *)", "*", "re*", "write(src/**)", "mcp__github__search(*)", "mcp__*"
        )
        == []
    )


async def test_the_tools_are_complete_once_no_file_waits_for_trust_or_repair(
    setting: Setting,
) -> None:
    setting.write("project", "a.txt", "one")
    catalog = setting.catalog()
    await catalog.refresh()
    assert not catalog.complete and unknown(catalog, "one") != []
    await catalog.files.trust()
    await catalog.refresh()
    assert catalog.complete and unknown(catalog, "one") == []
    setting.write("user", "b.txt", "!")
    await catalog.refresh()
    assert not catalog.complete


async def test_no_file_takes_the_name_of_a_built_in_tool_that_only_other_conversations_have(
    setting: Setting,
) -> None:
    setting.write("user", "a.txt", "write one")
    catalog = setting.catalog(elsewhere=["write"])
    await catalog.refresh()
    assert names(catalog) == ["read", "bash", "one"]
    assert [problem.text for problem in catalog.now.problems] == [
        f"the tool write of {setting.user}/a.txt:1 is refused: a built-in tool has that name"
    ]


class Narrowing(Lines):
    """Its tools of a built-in tool's name take the place of that one."""

    builtin: dict[str, Plain]

    def load(self, file: ToolFile) -> Loaded:
        loaded = super().load(file)
        for tool in loaded.tools:
            tool.in_place_of = self.builtin.get(tool.name)
        return loaded


async def test_a_built_in_tool_is_refused_while_the_file_that_narrowed_it_is_there_but_not_loaded(
    setting: Setting,
) -> None:
    setting.loader = loader = Narrowing()
    setting.write("project", "a.txt", "bash")
    catalog = setting.catalog(accept=True)
    loader.builtin = {tool.name: tool for tool in catalog}  # type: ignore[misc]  # each is a Plain
    await catalog.refresh()
    assert catalog.get("bash").source == "lines"
    for text in ("bash one", "bash two"):
        setting.write("project", "a.txt", text)
        await catalog.refresh()
        assert names(catalog) == ["read"]
        with pytest.raises(
            Denied, match=r"refused until \.codeagent/tools/a\.txt, which narrows it, is trusted"
        ):
            catalog.get("bash")
    await catalog.files.trust()
    await catalog.refresh()
    assert catalog.get("bash").source == "lines"
    setting.write("project", "a.txt", "bash three")
    await catalog.refresh()
    (setting.project / ".codeagent" / "tools" / "a.txt").unlink()
    await catalog.refresh()
    assert catalog.get("bash").source == "builtin"


async def test_a_file_that_the_user_stops_trusting_narrows_nothing(setting: Setting) -> None:
    setting.loader = loader = Narrowing()
    setting.write("project", "a.txt", "bash")
    catalog = setting.catalog(accept=True)
    loader.builtin = {tool.name: tool for tool in catalog}  # type: ignore[misc]  # each is a Plain
    await catalog.refresh()
    await catalog.files.distrust()
    await catalog.refresh()
    assert catalog.get("bash").source == "builtin"
