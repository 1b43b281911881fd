"""The read tool: pages of any file, images as images, nothing else."""

import asyncio
import base64
import json
from dataclasses import asdict

import pytest

from codeagent.core.display import ImageBlock
from codeagent.core.errors import WorkspaceError
from codeagent.core.messages import ImagePart
from codeagent.core.tool import Failed, InvalidArgs
from codeagent.tools.builtin import read as read_module
from codeagent.tools.edit import reads as reads_module
from tests.fakes import put
from tests.toolbox import Toolbox

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


async def test_lines_come_with_their_numbers(box: Toolbox) -> None:
    put(box.root, "a.txt", "one\r\ntwo\r\n\r\nlast")
    assert await box.text("read", path="a.txt") == "1\tone\n2\ttwo\n3\t\n4\tlast"


async def test_a_page_says_how_to_go_on(box: Toolbox) -> None:
    put(box.root, "a.txt", "".join(f"line {n}\n" for n in range(1, 11)))
    assert await box.text("read", path="a.txt", offset=3, limit=2) == (
        "3\tline 3\n4\tline 4\n[Lines 3-4 of 10. Continue with offset=5.]"
    )
    assert await box.text("read", path="a.txt", offset=9) == "9\tline 9\n10\tline 10"


async def test_a_page_is_cut_at_its_size_and_a_long_line_at_its_width(box: Toolbox) -> None:
    put(box.root, "a.txt", ("x" * 1000 + "\n") * 100)
    assert "Continue with offset=32" in await box.text("read", path="a.txt")
    put(box.root, "b.txt", "y" * 100_000)
    assert "[… 98000 more characters in this line]" in await box.text("read", path="b.txt")


async def test_an_empty_file_and_a_wrong_offset_are_said(box: Toolbox) -> None:
    put(box.root, "a.txt", "")
    assert await box.text("read", path="a.txt") == "[The file is empty.]"
    put(box.root, "b.txt", "x\n")
    with pytest.raises(InvalidArgs, match="has 1 lines; offset 5 is past its end"):
        await box.call("read", path="b.txt", offset=5)


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_images_are_shown_as_images(box: Toolbox, data: bytes, media_type: str) -> None:
    put(box.root, "pic.bin", data)
    result = await box.call("read", path="pic.bin")
    assert result.content[1] == ImagePart(
        media_type=media_type, data=base64.b64encode(data).decode()
    )
    assert result.blocks == (ImageBlock(path="pic.bin", media_type=media_type),)


async def test_a_huge_image_and_binaries_are_refused_with_what_they_are(box: Toolbox) -> None:
    put(box.root, "big.png", PNG + b"\0" * (21 << 20))
    with pytest.raises(Failed, match="more than 20 MiB"):
        await box.call("read", path="big.png")
    put(box.root, "prog", b"\x7fELF\0\0")
    with pytest.raises(Failed, match=r"prog is a binary file \(an ELF program\) of 6 bytes"):
        await box.call("read", path="prog")


async def test_other_encodings_are_read(box: Toolbox) -> None:
    put(box.root, "u16.txt", "\ufeffé\nß".encode("utf-16-le"))
    put(box.root, "l1.txt", b"caf\xe9\n")
    put(box.root, "stray.txt", "é ü".encode() + b" \xff\n")
    assert await box.text("read", path="u16.txt") == "1\té\n2\tß"
    assert await box.text("read", path="l1.txt") == "1\tcafé"
    assert await box.text("read", path="stray.txt") == "1\té ü \\xff"


async def test_a_line_that_a_sparse_file_never_ends_is_refused_at_once(box: Toolbox) -> None:
    with put(box.root, "sparse", "a" * 3000 + "\n" + "b" * 3000 + "\n").open("r+b") as file:
        file.truncate(1 << 40)
    for offset in (3, 4, 1000):
        with pytest.raises(
            Failed, match="sparse is a file with binary parts of 1099511627776 bytes"
        ):
            await asyncio.wait_for(box.call("read", path="sparse", offset=offset), 5)
    assert (await box.text("read", path="sparse", limit=2)).startswith("1\ta")


async def test_a_page_that_is_not_found_in_time_is_given_up(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeagent.tools.builtin.read._SECONDS", -1.0)
    put(box.root, "huge.log", "a" * (17 << 20))
    with pytest.raises(
        Failed, match=r"line 2 of huge\.log was not found in -1 s; use sed or tail in bash"
    ):
        await box.call("read", path="huge.log", offset=2)


async def test_a_huge_file_is_paged_without_being_held(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (read_module, reads_module):
        monkeypatch.setattr(module, "LARGEST_FILE", 1000)
    monkeypatch.setattr(read_module, "_CHUNK", 64)
    put(box.root, "huge.log", "".join(f"line {n}\n" for n in range(1, 1001)))
    text = await box.text("read", path="huge.log", offset=500, limit=2)
    assert text.startswith(
        "500\tline 500\n501\tline 501\n[Lines 500-501. Continue with offset=502.]"
    )
    assert "not edited" in text
    assert (await box.text("read", path="huge.log", offset=999)).startswith(
        "999\tline 999\n1000\tline 1000\n[The file"
    )
    with pytest.raises(InvalidArgs, match="has 1000 lines"):
        await box.call("read", path="huge.log", offset=5000)
    monkeypatch.setattr(read_module, "_CHUNK", 4096)
    put(box.root, "one-line.log", "z" * 10_000)
    assert "more characters" in await box.text("read", path="one-line.log")


async def test_a_file_of_secrets_is_asked_about_also_behind_a_link(box: Toolbox) -> None:
    put(box.root, ".env", "KEY=value\n")
    (box.root / "harmless").symlink_to(".env")
    tool = box.tool("read")
    for path in (".env", "harmless", "./.env"):
        assert "secrets" in (tool.approval_key(tool.Args(path=path)).sensitive or "")
    assert tool.approval_key(tool.Args(path="a.txt")).sensitive is None
    assert "KEY=value" in await box.text("read", path=".env")
    with pytest.raises(WorkspaceError, match="is a link"):
        await box.call("read", path="harmless")


async def test_results_can_be_written_to_a_log_whatever_is_in_the_file(box: Toolbox) -> None:
    put(box.root, "odd.txt", b"\x1b[31mred\x07 \xc3\xa9\xff\xfe \xed\xa0\x80 end\n")
    json.dumps(asdict(await box.call("read", path="odd.txt")), ensure_ascii=False).encode()
