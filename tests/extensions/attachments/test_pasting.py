"""What is pasted or dropped becomes a mention: paths, and the image on the clipboard."""

import os
import stat
from pathlib import Path

import pytest

from codeagent.extensions.attachments import pasting
from codeagent.extensions.attachments.pasting import clean, pasted
from tests.extensions.attachments.drawn import drawn
from tests.fakes import put


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace, with a state folder of its own and no clipboard."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    put(tmp_path, "work/src/a b.py", "x\n")
    put(tmp_path, "work/a.png", drawn())
    put(tmp_path, "my shot.png", drawn())
    put(tmp_path, "notes.txt", "x\n")
    put(tmp_path, "long.png", drawn()[:60])
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "work/loop.png").symlink_to("loop.png")
    return tmp_path


def clipboard(folder: Path, name: str, data: bytes) -> Path:
    """A program that prints what a clipboard holds."""
    put(folder, f"{name}.data", data)
    program = put(folder, f"bin/{name}", f'#!/bin/sh\nexec /bin/cat "{folder}/{name}.data"\n')
    program.chmod(0o755)
    return program


async def test_dropped_paths_become_mentions_and_other_text_stays(folder: Path) -> None:
    work = folder / "work"
    for text, mention in {
        f"{work}/a.png": "@a.png",
        f"'{work}/src/a b.py' ": '@"src/a b.py"',
        f"{work}/src/a\\ b.py {work}/a.png": '@"src/a b.py" @a.png',
        f"file://{work}/src/a%20b.py": '@"src/a b.py"',
        f"{work}/src": "@src/",
        f"{work}": "",
        f"{folder}/notes.txt": "",
        f"{folder}/long.png": "",
        f"{folder}/pipe.png": "",
        f"{work}/loop.png": "",
        f"{work}/a.png and more": "",
        f"{work}/../notes.txt": "",
        "/etc/passwd": "",
        "/": "",
        "'": "",
        "/\0": "",
    }.items():
        assert await pasted(work, text) == mention, text


async def test_an_image_from_elsewhere_is_kept_for_its_owner_only(folder: Path) -> None:
    mention = await pasted(folder / "work", f"'{folder}/my shot.png'")
    name = mention.removeprefix("@image:")
    assert name.startswith("my-shot-")
    kept = folder / "state/codeagent/attachments" / name
    assert kept.read_bytes() == drawn()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


async def test_the_image_on_the_clipboard_is_pasted(folder: Path) -> None:
    assert await pasted(folder / "work", None) == ""
    clipboard(folder, "wl-paste", b"")
    clipboard(folder, "xclip", drawn())
    assert (await pasted(folder / "work", None)).startswith("@image:pasted-")


async def test_the_program_of_the_clipboard_gets_no_secret_and_loads_nothing_of_the_workspace(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "ANTHROPIC_API_KEY": "s3cret",
        "LD_LIBRARY_PATH": str(folder / "work" / "lib"),
        "XAUTHORITY": str(folder / "work" / "auth"),
        "WAYLAND_DISPLAY": "wayland-0",
    }.items():
        monkeypatch.setenv(name, value)
    program = put(folder, "bin/wl-paste", f'#!/bin/sh\n/usr/bin/env > "{folder}/environment"\n')
    program.chmod(0o755)
    await pasted(folder / "work", None)
    names = {line.partition("=")[0] for line in (folder / "environment").read_text().splitlines()}
    assert "WAYLAND_DISPLAY" in names
    assert not names & {"ANTHROPIC_API_KEY", "LD_LIBRARY_PATH", "XAUTHORITY"}


async def test_a_clipboard_without_an_end_is_read_no_further_than_an_image_is_long(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any program on the desktop can own the clipboard."""
    monkeypatch.setattr(pasting, "_LONGEST", 1 << 16)
    for name, does in {"wl-paste": "cat /dev/zero", "xclip": "sleep 600"}.items():
        put(folder, f"bin/{name}", f"#!/bin/sh\nexec /bin/{does}\n").chmod(0o755)
    monkeypatch.setattr(pasting, "_SECONDS", 0.2)
    assert await pasted(folder / "work", None) == ""


async def test_a_clipboard_that_prints_hexadecimal_is_understood(folder: Path) -> None:
    said = "«data PNGf".encode() + drawn().hex().upper().encode() + "»\n".encode()
    clipboard(folder, "osascript", said)
    assert (await pasted(folder / "work", None)).startswith("@image:pasted-")


async def test_no_program_of_the_workspace_is_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clipboard(folder / "work", "xclip", drawn())
    monkeypatch.setenv("PATH", f"{folder / 'work' / 'bin'}:bin")
    assert await pasted(folder / "work", None) == ""


def test_images_pasted_long_ago_are_removed(folder: Path) -> None:
    old, new = put(folder, "kept/old", b"1"), put(folder, "kept/new", b"2")
    os.utime(old, (0, 0))
    clean(folder / "kept")
    assert (old.exists(), new.exists()) == (False, True)
