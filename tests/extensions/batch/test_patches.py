"""The tool `take_patch` takes what a task changed in its working copy into the present workspace."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from codeagent.core.display import TextBlock
from codeagent.core.messages import text_of
from codeagent.core.tool import BaseChanged, Failed
from codeagent.extensions.batch.copies import Mirror
from codeagent.extensions.batch.patches import TakePatch, TakePatchArgs
from codeagent.extensions.batch.results import Results
from codeagent.tools.edit.reads import ReadTracker
from codeagent.workspace.files import LocalWorkspace
from tests.extensions.batch.test_copies import git, repository
from tests.extensions.batch.test_results import RECORD
from tests.fakes import tool_context

__all__ = ["repository"]
_LINES = "".join(f"line {number}\n" for number in range(20))
_FILES = ("text", "gone", "run")


class Taking:
    """A repository, and a task with a changed working copy of it."""

    def __init__(self, repository: Path, tmp_path: Path) -> None:
        self.root = repository
        for name in _FILES:
            (repository / name).write_text(_LINES)
        git(repository, "add", ".")
        git(repository, "commit", "-qm", "second")
        self._copy = tmp_path / "copy"
        self._mirror = Mirror.of(str(repository), tmp_path / "state/codeagent/mirrors")
        asyncio.run(self._mirror.update(str(repository)))
        self._commit = self._mirror.commit("HEAD")
        self._mirror.check_out(self._commit, self._copy)
        self._results = Results(tmp_path / "results")
        self.workspace = LocalWorkspace(repository)
        self.tool = TakePatch(self.workspace, ReadTracker(self.workspace))

    def changed(self, change: Callable[[Path], object]) -> TakePatchArgs:
        change(self._copy)
        folder = self._results.folder("task")
        folder.path.mkdir(parents=True)
        self._mirror.patch(self._commit, self._copy, folder.patch)
        folder.finish(replace(RECORD, repository=str(self.root), commit=self._commit))
        return TakePatchArgs(results=str(self._results.path), key="task")

    async def take(self, args: TakePatchArgs) -> str:
        shown = await self.tool.preview(args, tool_context(self.workspace))
        context = tool_context(self.workspace, base=shown.base)
        return text_of((await self.tool.run(args, context)).content)


@pytest.fixture
def taking(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Taking:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Taking(repository, tmp_path)


def several(copy: Path) -> None:
    (copy / "text").write_text(_LINES.replace("line 3\n", "theirs\n"))
    (copy / "new").mkdir()
    (copy / "new/file").write_bytes(b"\0binary")
    (copy / "gone").unlink()
    (copy / "run").chmod(0o755)


async def test_files_are_changed_added_removed_and_made_executable(taking: Taking) -> None:
    args = taking.changed(several)
    assert sorted((await taking.take(args)).splitlines()) == [
        "A new/file",
        "D gone",
        "M run",
        "M text",
    ]
    root = taking.root
    assert "theirs\n" in (root / "text").read_text()
    assert (root / "new/file").read_bytes() == b"\0binary"
    assert not (root / "gone").exists()
    assert os.access(root / "run", os.X_OK)
    with pytest.raises(Failed, match="already has all of these"):
        await taking.take(args)


async def test_changes_on_both_sides_are_merged(taking: Taking) -> None:
    args = taking.changed(several)
    (taking.root / "text").write_text(_LINES.replace("line 15\n", "mine\n"))
    await taking.take(args)
    text = (taking.root / "text").read_text()
    assert "theirs\n" in text and "mine\n" in text


def _same_line(root: Path) -> None:
    (root / "text").write_text(_LINES.replace("line 3\n", "mine\n"))


def _link(root: Path) -> None:
    (root / "text").rename(root / "other")
    (root / "text").symlink_to("other")


CONFLICTS = {
    "the same lines were changed here": _same_line,
    "it was changed here in another way": lambda root: (root / "text").unlink(),
    "it is behind a link": _link,
}


@pytest.mark.parametrize("why", CONFLICTS)
async def test_a_file_that_cannot_be_merged_is_named_and_left_alone(
    why: str, taking: Taking
) -> None:
    args = taking.changed(several)
    CONFLICTS[why](taking.root)
    before = (taking.root / "text").read_text() if (taking.root / "text").exists() else None
    shown = await taking.tool.preview(args, tool_context(taking.workspace))
    assert isinstance(first := shown.blocks[0], TextBlock)
    assert first.text == f"text is left: {why}"
    assert f"text is left: {why}" in await taking.take(args)
    assert not (taking.root / "gone").exists()
    assert before == ((taking.root / "text").read_text() if before is not None else None)


async def test_a_link_is_left_alone(taking: Taking) -> None:
    args = taking.changed(lambda copy: (copy / "link").symlink_to("/etc/passwd"))
    with pytest.raises(Failed, match="link is left: it is a link"):
        await taking.take(args)


async def test_nothing_lands_that_was_not_shown(taking: Taking) -> None:
    args = taking.changed(several)
    shown = await taking.tool.preview(args, tool_context(taking.workspace))
    _same_line(taking.root)
    with pytest.raises(BaseChanged):
        await taking.tool.run(args, tool_context(taking.workspace, base=shown.base))


async def test_hunks_that_were_left_out_do_not_land(taking: Taking) -> None:
    both = _LINES.replace("line 3\n", "theirs\n").replace("line 15\n", "theirs too\n")
    args = taking.changed(lambda copy: (copy / "text").write_text(both))
    shown = await taking.tool.preview(args, tool_context(taking.workspace))
    assert shown.by_hunk
    context = replace(tool_context(taking.workspace, base=shown.base), hunks=(False, True))
    await taking.tool.run(args, context)
    assert (taking.root / "text").read_text() == _LINES.replace("line 15\n", "theirs too\n")
