"""Rules that keep files from being read hold for the listings of the set `files`."""

from pathlib import Path

import pytest

from codeagent.core.policy import Permission, Rule
from codeagent.extensions.file_tools.tree import Glob, Tree
from tests.tools.private_files import listed, named_and_kept_back

LISTINGS = (
    (Glob, '{"patterns": ["private/*"]}'),
    (Glob, '{"patterns": ["*.txt", "key*"]}'),
    (Tree, "{}"),
    (Tree, '{"path": "private", "depth": 9}'),
)


@pytest.mark.parametrize(("tool", "arguments"), LISTINGS)
@pytest.mark.parametrize(
    ("permission", "named"), [("deny", False), ("prompt", True), ("auto", True)]
)
async def test_a_file_that_a_rule_denies_to_read_is_not_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tool: type[Glob | Tree],
    arguments: str,
    permission: Permission,
    named: bool,
) -> None:
    rule = Rule.parse("read(private/**)", permission)
    text = await listed(tmp_path, monkeypatch, tool, arguments, rule)
    assert named_and_kept_back(text) == (named, not named)
