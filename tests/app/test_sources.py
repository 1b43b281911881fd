"""What extensions bring to a conversation, and what becomes of one that fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.app import sources, tools
from codeagent.app.describe import describe_tools
from codeagent.config.extensions import Extensions
from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.errors import ConfigError
from codeagent.core.extension import Extension, InConversations


def fails(given: object) -> Iterator[object]:
    raise RuntimeError("not today")
    yield given


@pytest.mark.parametrize(
    "extension",
    [
        Extension(name="mine", about="", sources=f"{__name__}:fails"),
        Extension(name="mine", about="", sources="no.such.module:sources"),
        Extension(
            name="mine", about="", in_conversations=InConversations(parts=f"{__name__}:fails")
        ),
    ],
    ids=["sources", "missing", "parts"],
)
def test_an_extension_of_a_package_that_fails_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: Extension
) -> None:
    for module in (sources, tools):
        monkeypatch.setattr(module, "all_extensions", lambda: Extensions((extension,)))
    with pytest.raises(
        ConfigError, match=r"^the extension mine cannot be used: \w+Error: .*--safe"
    ):
        describe_tools(LocalEnvironment(tmp_path, tmp_path / "state", {}))
