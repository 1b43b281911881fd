"""Folders of tool files: which kinds of files there are, and what trust is given to."""

import hashlib
from pathlib import Path

from codeagent.app.describe import describe_tools
from codeagent.config.extensions import file_kind
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.tools.folders import FirstFileLoader, FolderState, ToolFile, ToolFolder, ToolLoader
from tests.table import for_each
from tests.tools.catalog_setting import Lines


def test_trust_is_about_the_files_of_tools_of_every_kind_and_then_those_of_agents(
    tmp_path: Path,
) -> None:
    tools, agents = (tmp_path / ".codeagent" / name for name in ("tools", "agents"))
    files = [tools / "a.yaml", tools / "b.py", agents / "c.md"]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#")
    (tools / "notes.txt").write_text("of no kind")
    local = LocalEnvironment(tmp_path, tmp_path / "state", {})
    catalog = describe_tools(local, Settings())
    assert [Path(name).name for name in catalog.now.untrusted] == ["a.yaml", "b.py", "c.md"]
    a, b, c = (ToolFile(file, "", b"#", "project") for file in files)
    digests = f"{FolderState((a, b)).digest} {FolderState((c,)).digest}"
    assert catalog.now.digest == hashlib.sha256(digests.encode()).hexdigest()


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
    [("a.py", True), ("a.yaml", False), ("a.yml", False), ("a.txt", None), ("a.md", False)],
)
def test_an_extension_says_which_files_it_loads_and_which_of_them_run(
    name: str, only_read: bool | None
) -> None:
    found = file_kind(name)
    assert (None if found is None else bool(found[1].look)) is only_read
