"""A file whose name is not plain text is named in one spelling, and every tool takes that spelling
back."""

import os

import pytest

from codeagent.core.errors import MissingPath, ProtectedPath
from codeagent.tools.edit.reads import ReadTracker
from tests.fakes import put
from tests.table import for_each
from tests.toolbox import Toolbox

NAMES = (
    b"bad\xff.txt",
    b"two\nlines.txt",
    b"a\r\nb\tc",
    "r\u202etl.txt".encode(),
    b"a\\x0ab",
    b"\x85\xc2\x85",
    b"plain\\n",
)


def folder_with(box: Toolbox, name: bytes) -> str:
    """Put the file alone into a folder; return its name as Python has it."""
    put(box.root, f"{os.fsdecode(name)}/{os.fsdecode(name)}", "needle\n")
    return os.fsdecode(name)


@pytest.mark.parametrize("name", NAMES)
async def test_what_list_prints_can_be_read_written_edited_and_searched(
    box: Toolbox, name: bytes
) -> None:
    real = folder_with(box, name)
    _, folder, file = (await box.text("list")).splitlines()
    told = f"{folder.strip().removesuffix('/')}/{file.strip().removesuffix('  7 B')}"
    assert await box.text("list", glob="**/*") == f"./\n{told}  7 B"
    assert await box.text(
        "list", path=told.partition("/")[0]
    ) == f"{told.partition('/')[0]}/\n{file.strip()}".replace("\n", "\n  ")
    assert await box.text("read", path=told) == "1\tneedle"
    assert await box.text("search", pattern="needle", path=told) == f"{told}:1:needle"
    assert (await box.text("edit", path=told, old_string="needle", new_string="pin")).startswith(
        f"Edited {told}:"
    )
    assert (await box.text("write", path=told, content="thread\n")).startswith(f"Replaced {told}:")
    assert (box.root / real / real).read_bytes() == b"thread\n"
    assert [os.fsencode(path.name) for path in box.root.iterdir()] == [name]


async def test_a_path_that_search_prints_can_be_read(box: Toolbox) -> None:
    put(box.root, os.fsdecode(b"src/bad\xff\n.py"), "needle\n")
    path, _, _ = (await box.text("search", pattern="needle")).rpartition(":1:")
    assert path == "src/bad\\xff\\x0a.py"
    assert await box.text("read", path=path) == "1\tneedle"


async def test_a_new_file_gets_the_name_that_the_spelling_means(box: Toolbox) -> None:
    await box.call("write", path="new\\xfe.txt", content="")
    await box.call("write", path="kept\\x41\\n.txt", content="")
    assert sorted(os.fsencode(path.name) for path in box.root.iterdir()) == [
        b"kept\\x41\\n.txt",
        b"new\xfe.txt",
    ]


async def test_what_was_read_is_known_again_after_a_restart(box: Toolbox) -> None:
    put(box.root, os.fsdecode(b"bad\xff.txt"), "needle\n")
    details = (await box.call("read", path="bad\\xff.txt")).details
    assert details["path"] == "bad\\xff.txt"
    again = ReadTracker(box.workspace)
    again.restore(details)
    assert again.check(os.fsdecode(b"bad\xff.txt"), b"needle\n").whole


@for_each(
    ("path", "error", "said"),
    [
        ("no\\xff.txt", MissingPath, r"no\\xff\.txt does not exist"),
        ("no\\x0ahere", MissingPath, r"no\\x0ahere does not exist"),
        (".git/x\\xff", ProtectedPath, "protected"),
        (".git\\u200b/x", ProtectedPath, "protected"),
    ],
)
async def test_an_error_names_the_file_in_the_same_spelling(
    box: Toolbox, path: str, error: type[Exception], said: str
) -> None:
    tool = "write" if error is ProtectedPath else "read"
    with pytest.raises(error, match=said):
        await box.call(tool, path=path, **({"content": ""} if tool == "write" else {}))


def test_a_spelling_cannot_hide_a_file_of_secrets_or_a_protected_folder(box: Toolbox) -> None:
    for path in (".env\\u200b", ".\\u200benv", "\\xff.env"):
        key = box.tool("read").approval_key(box.tool("read").Args(path=path))
        assert key.sensitive is not None and key.sensitive.startswith(path), key
