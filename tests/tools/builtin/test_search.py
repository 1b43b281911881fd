"""The search tool: what ripgrep finds, read again inside the workspace."""

import asyncio
import contextlib
import functools
import json
import os
import socket
import sys
import tracemalloc
from pathlib import Path

import pytest

from codeagent.core.errors import MissingPath, OutsideWorkspace
from codeagent.core.tool import Denied, Failed, InvalidArgs
from codeagent.tools import ripgrep
from codeagent.tools.builtin.search import Search
from codeagent.tools.ripgrep import MatchedLine, Query, digest_of, find_ripgrep
from tests.fakes import put, tool_context
from tests.toolbox import Toolbox


async def test_matches_come_sorted_as_path_line_text(box: Toolbox) -> None:
    put(box.root, "b.py", "x\nneedle 2\n")
    put(box.root, "a/a.py", "needle 1\n")
    assert await box.text("search", pattern=r"ne+dle \d") == "a/a.py:1:needle 1\nb.py:2:needle 2"


async def test_context_shows_the_lines_around(box: Toolbox) -> None:
    put(box.root, "a.txt", "1\n2\nneedle\n4\n5\n6\n7\nneedle\n")
    assert await box.text("search", pattern="needle", context=1) == (
        "a.txt-2-2\na.txt:3:needle\na.txt-4-4\n--\na.txt-7-7\na.txt:8:needle"
    )


async def test_literal_case_glob_and_path_narrow_the_search(box: Toolbox) -> None:
    put(box.root, "src/a.py", "f(x)\nF(X)\n")
    put(box.root, "src/a.txt", "f(x)\n")
    put(box.root, "other/a.py", "f(x)\n")
    assert (
        await box.text("search", pattern="f(x)", literal=True, path="src", glob="*.py")
        == "src/a.py:1:f(x)"
    )
    assert "a.py:2:F(X)" in await box.text(
        "search", pattern="f(x)", literal=True, ignore_case=True, path="src/a.py"
    )
    assert await box.text("search", pattern="nowhere") == "No matches."


@pytest.mark.parametrize(
    "pattern", ["-v", "--files", "-e x", "--pre=./evil", "$(touch P)", "; touch P", "`touch P`"]
)
async def test_a_pattern_is_never_an_option_or_a_command(box: Toolbox, pattern: str) -> None:
    put(box.root, "a.txt", f"before {pattern} after\n")
    assert (
        await box.text("search", pattern=pattern, literal=True) == f"a.txt:1:before {pattern} after"
    )
    assert not (box.root / "P").exists()


@pytest.mark.parametrize(
    "name", ["-rf", "$(x)", "a\nb", ";", "a b", "'", "x" * 255, "*", "é", "--", "a\\b"]
)
async def test_any_file_name_is_searched_and_read(box: Toolbox, name: str) -> None:
    put(box.root, name, "needle\n")
    assert "needle" in await box.text("search", pattern="needle", path=name)
    assert "1\tneedle" in await box.text("read", path=name)


async def test_a_bad_pattern_is_explained_in_ripgrep_s_words(box: Toolbox) -> None:
    with pytest.raises(InvalidArgs, match="unclosed group"):
        await box.call("search", pattern="f(x")
    with pytest.raises(InvalidArgs, match="error parsing glob"):
        await box.call("search", pattern="x", glob="{a")
    with pytest.raises(InvalidArgs, match="cannot hold a newline"):
        await box.call("search", pattern="a\nb")


async def test_ignored_files_the_repository_s_git_and_links_are_left_out(box: Toolbox) -> None:
    put(box.root, ".gitignore", "build/\n")
    for path in ("build/x", ".git/config", ".github/y", "z"):
        put(box.root, path, "needle\n")
    put(box.root.parent, "outside.txt", "needle\n")
    (box.root / "link").symlink_to("z")
    (box.root / "out").symlink_to("../outside.txt")
    assert await box.text("search", pattern="needle") == ".github/y:1:needle\nz:1:needle"
    with pytest.raises(OutsideWorkspace):
        await box.call("search", pattern="needle", path="out")
    with pytest.raises(MissingPath):
        await box.call("search", pattern="needle", path="none")


async def test_ignore_rules_of_the_root_hold_in_a_subdirectory(box: Toolbox) -> None:
    put(box.root, ".gitignore", "*.log\n")
    put(box.root, "sub/a.log", "needle\n")
    put(box.root, "sub/a.txt", "needle\n")
    assert await box.text("search", pattern="needle", path="sub") == "sub/a.txt:1:needle"


async def test_a_configuration_of_the_repository_is_not_used(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(put(box.root, ".ripgreprc", "--pre=./evil\n")))
    evil = put(box.root, "evil", "#!/bin/sh\ntouch P\n")
    evil.chmod(0o755)
    put(box.root, "a.txt", "needle\n")
    assert "a.txt:1:needle" in await box.text("search", pattern="needle")
    assert not (box.root / "P").exists()


@pytest.mark.parametrize("asked", ["notes", "./notes", ".ssh/../notes"])
def test_a_link_to_a_file_of_secrets_is_refused_before_anyone_is_asked(
    box: Toolbox, asked: str
) -> None:
    put(box.root, ".env", "TOKEN=1")
    (box.root / "notes").symlink_to(".env")
    search = box.registry.get("search")
    with pytest.raises(Denied, match=r"notes is a link, and \.env looks like a file of secrets"):
        search.refuse(search.Args(pattern="x", path=asked), tool_context(box.workspace))
    search.refuse(search.Args(pattern="x", path=".env"), tool_context(box.workspace))


async def test_files_that_look_like_secrets_are_counted_not_shown(box: Toolbox) -> None:
    put(box.root, ".env", "needle=1\n")
    put(box.root, "a.txt", "needle\n")
    text = await box.text("search", pattern="needle")
    assert "needle=1" not in text
    assert "[1 matching lines are in files that look like secrets" in text
    tool = box.tool("search")
    assert tool.approval_key(tool.Args(pattern="x", path=".env")).sensitive is not None


async def test_a_limit_ends_the_search_and_says_so(box: Toolbox) -> None:
    put(box.root, "a.txt", "needle\n" * 5000)
    text = await box.text("search", pattern="needle", limit=3)
    assert text.count("needle") == 3
    assert "[There is more: only 3 matching lines shown." in text


async def test_long_lines_are_cut_around_the_match(box: Toolbox) -> None:
    put(box.root, "min.js", "ü" * 5000 + "needle" + "y" * 5000 + "\n")
    text = await box.text("search", pattern="needle")
    assert "needle" in text
    assert len(text) < 500


async def test_other_encodings_are_found_and_binaries_are_not(box: Toolbox) -> None:
    put(box.root, "u16.txt", "\ufeffx\nneedle é\n".encode("utf-16-le"))
    put(box.root, "bom.txt", "\ufeffneedle\r\n".encode())
    put(box.root, "l1.txt", b"caf\xe9 needle\n")
    put(box.root, "bin", b"needle\n\0\0\n")
    text = await box.text("search", pattern="needle")
    assert text.split("\n")[:3] == [
        "bom.txt:1:needle",
        "l1.txt:1:café needle",
        "u16.txt:2:needle é",
    ]
    assert "bin:" not in text


async def test_files_over_the_limit_are_not_searched_and_named(box: Toolbox) -> None:
    with put(box.root, "sparse", "needle\n").open("r+b") as file:
        file.truncate(1 << 40)
    put(box.root, "one line", "needle" + "a" * (17 << 20))
    put(box.root, "name\nof: 2 bytes", "needle" + "a" * (17 << 20))
    put(box.root, "small", "needle\n")
    text = await box.text("search", pattern="needle")
    first, note = text.split("\n")
    assert first == "small:1:needle"
    assert (
        note.startswith("[Not searched: 3 files over 16 MiB (")
        and "sparse" in note
        and "one line" in note
    )
    assert (await box.text("search", pattern="nothing")).startswith(
        "No matches.\n[Not searched: 3 files"
    )
    assert "Not searched" not in await box.text("search", pattern="needle", glob="small")


async def test_a_named_file_over_the_limit_is_refused_with_the_next_step(box: Toolbox) -> None:
    with put(box.root, "sparse", "needle\n").open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(
        Failed, match="larger than 16 MiB, so it is not searched; page through it with read"
    ):
        await box.call("search", pattern="needle", path="sparse")


async def test_files_left_out_that_look_like_secrets_are_counted_and_not_named(
    box: Toolbox,
) -> None:
    put(box.root, ".env", "needle" + "a" * (17 << 20))
    assert (
        await box.text("search", pattern="needle")
        == "No matches.\n[Not searched: 1 file over 16 MiB.]"
    )


async def test_pipes_sockets_and_links_to_devices_in_the_tree_are_passed_over(box: Toolbox) -> None:
    os.mkfifo(box.root / "pipe")
    with socket.socket(socket.AF_UNIX) as bound, contextlib.chdir(box.root):
        bound.bind("socket")
    for name, target in {"zero": "/dev/zero", "kcore": "/proc/kcore", "self": "/proc/self"}.items():
        (box.root / name).symlink_to(target)
    put(box.root, "small", "needle\n")
    assert await asyncio.wait_for(box.text("search", pattern="needle"), 20) == "small:1:needle"


async def test_a_record_too_long_to_be_kept_is_counted(box: Toolbox) -> None:
    put(box.root, "long", "needle" + "\1" * (5 << 20))
    put(box.root, "small", "needle\n")
    text = await box.text("search", pattern="needle")
    assert text == "small:1:needle\n[1 matching line too long to be shown left out.]"


async def test_long_matching_lines_of_many_files_are_not_kept(box: Toolbox) -> None:
    line = "needle" + "a" * (4 << 20)
    for number in range(40):
        put(box.root, f"f{number}", line)
    tracemalloc.start()
    try:
        text = await box.text("search", pattern="needle")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert text.count(":1:needle") == 40
    assert most < 80 << 20


async def test_a_search_that_takes_too_long_tells_what_it_found_and_that_it_is_incomplete(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {
        "path": {"text": "a"},
        "lines": {"text": "needle\n"},
        "line_number": 1,
        "submatches": [],
    }
    record = json.dumps({"type": "match", "data": data}, separators=(",", ":"))
    put(box.root, "a", "needle\n")
    slow = put(
        box.root.parent, "slow-rg", f"#!/bin/sh\nprintf '%s\\n' '{record}'\nexec sleep 600\n"
    )
    slow.chmod(0o755)
    tool = box.tool("search")
    assert isinstance(tool, Search)
    tool._program = str(slow)
    monkeypatch.setattr(
        "codeagent.tools.builtin.search.Query", functools.partial(Query, seconds=0.5)
    )
    text = await box.text("search", pattern="needle")
    assert text.split("\n") == [
        "a:1:needle",
        "[The search is incomplete: it took longer than 0.5 s. Narrow it to a path or a glob.]",
    ]


async def test_a_ripgrep_that_dies_is_not_taken_for_one_that_found_nothing(box: Toolbox) -> None:
    tool = box.tool("search")
    assert isinstance(tool, Search)
    killed = put(box.root.parent, "killed-rg", "#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o755)
    tool._program = str(killed)
    assert "[The search is incomplete: ripgrep was ended by signal 9" in await box.text(
        "search", pattern="needle"
    )


async def test_what_ripgrep_says_is_shown_only_where_it_is_true(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(box.root, "a.txt", "one\ntwo\n")
    put(box.root.parent, "outside.txt", "CANARY\n")
    (box.root / "out").symlink_to("../outside.txt")
    lines = [
        ("a.txt", 1, b"one"),
        ("a.txt", 2, b"CANARY"),
        ("a.txt", 99, b"two"),
        ("out", 1, b"CANARY"),
        ("../outside.txt", 1, b"CANARY"),
        ("gone", 1, b"CANARY"),
        ("/etc/hostname", 1, b"CANARY"),
    ]
    hits = [MatchedLine(path, number, digest_of(text), 0) for path, number, text in lines]

    async def lying(*_: object) -> object:
        for hit in hits:
            yield hit

    monkeypatch.setattr("codeagent.tools.builtin.search.search", lying)
    text = await box.text("search", pattern="x")
    assert text == "a.txt:1:one\n[6 matching lines changed while searching and are not shown.]"


async def test_a_cancelled_search_stops_ripgrep(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = put(box.root.parent, "slow-rg", f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    slow.chmod(0o755)
    started: asyncio.Queue[asyncio.subprocess.Process] = asyncio.Queue()
    real = ripgrep.start_program

    async def remember(*args: object, **options: object) -> asyncio.subprocess.Process:
        process = await real(*args, **options)  # type: ignore[arg-type]  # passed on as it came
        started.put_nowait(process)
        return process

    monkeypatch.setattr(ripgrep, "start_program", remember)
    tool = box.tool("search")
    assert isinstance(tool, Search)
    tool._program = str(slow)
    task = asyncio.ensure_future(tool.run(tool.Args(pattern="x"), tool_context(box.workspace)))
    process = await started.get()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert process.returncode is not None


async def test_without_ripgrep_the_error_says_what_to_do(box: Toolbox) -> None:
    tool = box.tool("search")
    assert isinstance(tool, Search)
    tool._program = None
    with pytest.raises(Failed, match="ripgrep is missing"):
        await box.call("search", pattern="x")


def test_an_rg_of_the_workspace_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path / "none"))
    inside, outside = (
        put(tmp_path, "repo/bin/rg", "#!/bin/sh\n"),
        put(tmp_path, "system/rg", "#!/bin/sh\n"),
    )
    for program in (inside, outside):
        program.chmod(0o755)
    repo = tmp_path / "repo"
    monkeypatch.setenv(
        "PATH", os.pathsep.join([str(inside.parent), "", ".", "bin", str(outside.parent)])
    )
    monkeypatch.chdir(repo)
    assert find_ripgrep(repo) == str(outside)
    monkeypatch.setenv("PATH", str(inside.parent))
    assert find_ripgrep(repo) is None


async def test_stopping_in_a_flood_of_matches_never_hangs(box: Toolbox) -> None:
    """The pipe is full and unread then; ripgrep is reaped all the same."""
    for number in range(40):
        put(box.root, f"f{number}.txt", "needle in a line of some length to fill the pipe\n" * 2000)
    for _ in range(20):
        assert "There is more" in await asyncio.wait_for(
            box.text("search", pattern="needle", limit=1), 20
        )


async def test_in_a_folder_of_a_repository_ignore_files_above_count_for_search_and_list(
    box: Toolbox,
) -> None:
    put(box.root, "made.log", "needle\n")
    put(box.root, "kept.py", "needle\n")
    put(box.root.parent, ".gitignore", "*.log\n")
    assert "made.log" in await box.text("search", pattern="needle")
    (box.root.parent / ".git").mkdir()
    assert await box.text("search", pattern="needle") == "kept.py:1:needle"
    assert "made.log" not in await box.text("list")
