"""Loaders of several kinds of files, of which each is made only when it is needed."""

from pathlib import Path

from codeagent.config.extensions import file_kind
from codeagent.tools.folders import LoaderBySuffix, ToolFolder, ToolLoader
from tests.table import for_each
from tests.tools.catalog_setting import Lines


def test_the_kinds_of_files_are_asked_for_only_once_there_is_a_folder_for_them(
    tmp_path: Path,
) -> None:
    asked: list[ToolLoader] = []

    def loaders() -> list[ToolLoader]:
        asked.append(Lines())
        return asked

    loader = LoaderBySuffix(loaders)
    folder = ToolFolder(tmp_path, ("tools",), "project", lambda: loader.suffixes)
    assert folder.read().files == () and asked == []
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "a.txt").write_text("one two")
    (tmp_path / "tools" / "b.py").write_text("")
    [file] = folder.read().files
    assert [tool.name for tool in loader.load(file).tools] == ["one", "two"]
    assert len(asked) == 1


@for_each(
    ("name", "only_read"),
    [("a.py", True), ("a.yaml", False), ("a.yml", False), ("a.txt", None), ("README.md", None)],
)
def test_an_extension_says_which_files_it_loads_and_which_of_them_run(
    name: str, only_read: bool | None
) -> None:
    kind = file_kind(name)
    assert (None if kind is None else bool(kind.look)) is only_read
