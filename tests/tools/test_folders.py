"""Loaders of files, each made only when it is needed."""

from pathlib import Path

from codeagent.config.extensions import file_kind
from codeagent.tools.folders import FirstFileLoader, ToolFolder, ToolLoader
from tests.table import for_each
from tests.tools.catalog_setting import Lines


def test_a_loader_is_made_only_once_there_is_a_file_for_it(tmp_path: Path) -> None:
    made: list[ToolLoader] = []

    def make() -> ToolLoader:
        made.append(Lines())
        return made[-1]

    loader = FirstFileLoader((".txt",), make)
    folder = ToolFolder(tmp_path, ("tools",), "project", loader.suffixes)
    assert folder.read().files == () and made == []
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "a.txt").write_text("one two")
    (tmp_path / "tools" / "b.py").write_text("")
    [file] = folder.read().files
    assert made == []
    assert [tool.name for tool in loader.load(file).tools] == ["one", "two"]


@for_each(
    ("name", "only_read"),
    [("a.py", True), ("a.yaml", False), ("a.yml", False), ("a.txt", None), ("README.md", None)],
)
def test_an_extension_says_which_files_it_loads_and_which_of_them_run(
    name: str, only_read: bool | None
) -> None:
    kind = file_kind(name)
    assert (None if kind is None else bool(kind.look)) is only_read
