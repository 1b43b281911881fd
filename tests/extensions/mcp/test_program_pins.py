"""A server whose program is in the workspace is started only as the user agreed to it, and stopped
once it changes."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from codeagent.core.errors import SandboxUnavailable
from codeagent.extensions.mcp.config import ServerConfig
from codeagent.extensions.mcp.pins import FILES
from codeagent.workspace import programs as bounds
from codeagent.workspace.programs import program_files
from tests.extensions.mcp.setting import HOSTILE, Setting, answer_of, serving
from tests.fakes import put

RUN = "import pathlib, sys; (pathlib.Path(sys.argv[2]) / 'ran').touch()\n"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """`tools/srv.py` in the workspace, with a module beside it that it imports; each start leaves
    `ran`."""
    put(tmp_path, "project/tools/srv.py", f"import beside\n{RUN}{HOSTILE.read_text()}")
    put(tmp_path, "project/tools/beside.py", "WORD = 'one'\n")
    return tmp_path / "project/tools/srv.py"


def config(program: Path, **fields: object) -> ServerConfig:
    values: dict[str, object] = {"env": {"TOKEN": "x"}, "where": "machine"} | fields
    return ServerConfig(
        "it", sys.executable, (str(program), "Server", str(program.parents[2])), **values
    )  # type: ignore[arg-type]  # by name


@asynccontextmanager
async def agreed(program: Path, **fields: object) -> AsyncIterator[Setting]:
    """The server, started after the user agreed to what was shown."""
    async with serving(program.parents[2], config(program, **fields)) as setting:
        await setting.start()
        await agree(setting)
        assert setting.problems == ""
        yield setting


async def agree(setting: Setting) -> None:
    assert setting.source.held
    assert await setting.source.agree([one.now.said for one in setting.source.changed])
    await setting.start()


def text(program: Path) -> str:
    return program.read_text()


def ran(program: Path) -> bool:
    """Whether it was started since this was last asked."""
    mark = program.parents[2] / "ran"
    found = mark.exists()
    mark.unlink(missing_ok=True)
    return found


@pytest.mark.parametrize("powerful", [True, False])
async def test_it_is_not_started_before_the_user_saw_all_of_it_and_agreed(
    program: Path, powerful: bool
) -> None:
    fields: dict[str, object] = {} if powerful else {"env": {}, "where": "sandbox"}
    async with serving(program.parents[2], config(program, **fields)) as setting:
        await setting.start()
        assert (
            "not started until you agree to its program" in setting.problems
            and "srv.py" in setting.problems
        )
        shown = {one.now.name: one.now.said for one in setting.source.changed}
        assert shown["tools/srv.py"] == text(program) and "tools/srv.py  " in shown[FILES]
        assert ("tools/beside.py" in shown) == powerful
        assert not ran(program)
        await agree(setting)
        assert await answer_of(setting, text="hi") == "hi" and ran(program)


async def test_what_was_agreed_to_holds_in_later_sessions_and_only_in_this_workspace(
    program: Path,
) -> None:
    async with agreed(program):
        pass
    async with serving(program.parents[2], config(program)) as setting:
        await setting.start()
        assert setting.names == ["mcp__it__echo"]


CHANGES = {
    "the file": lambda folder: (folder / "srv.py").write_text("print('evil')\n"),
    "a module beside it": lambda folder: (folder / "beside.py").write_text("WORD = 'two'\n"),
    "a module that is new": lambda folder: (folder / "json.py").write_text("print('evil')\n"),
    "a package that is new": lambda folder: put(folder, "email/__init__.py", "print('evil')\n"),
    "compiled code": lambda folder: put(folder, "__pycache__/beside.cpython-311.pyc", "evil"),
    "a file that is gone": lambda folder: (folder / "beside.py").unlink(),
    "a link in place of a file": lambda folder: linked(
        folder / "beside.py", folder.parent / "other.py"
    ),
    "the folder": lambda folder: (
        folder.rename(folder.with_name("old")) and put(folder, "srv.py", "print('evil')\n")
    ),
    "settings above": lambda folder: (folder.parent / "pyproject.toml").write_text("[tool.uv]\n"),
}


def linked(path: Path, target: Path) -> None:
    target.write_text(path.read_text())
    path.unlink()
    path.symlink_to(target)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_running_server_whose_program_changes_gets_no_further_call_and_waits(
    program: Path, change: str
) -> None:
    async with agreed(program) as setting:
        assert await answer_of(setting, text="hi") == "hi" and ran(program)
        CHANGES[change](program.parent)
        refused = await answer_of(setting, text="secret")
        assert "was not called: its program in the workspace changed" in refused
        await setting.until(lambda: setting.source.list().state == "failed")
        assert setting.source.held and not ran(program)
        assert living(program) == []
        assert "not started until you agree" in await answer_of(setting, text="secret")


def living(program: Path) -> list[str]:
    """The processes of it that have not ended."""
    pids = (file.name.removeprefix("pid-") for file in program.parents[2].glob("pid-*"))
    return [pid for pid in pids if Path("/proc", pid).exists()]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_program_that_changed_between_sessions_is_not_started_and_the_difference_is_shown(
    program: Path, change: str
) -> None:
    async with agreed(program):
        assert ran(program)
    CHANGES[change](program.parent)
    async with serving(program.parents[2], config(program)) as setting:
        await setting.start()
        first, *_ = setting.source.changed
        assert first.now.name == FILES and first.before != first.now.said and not ran(program)


async def test_the_difference_names_what_changed_and_shows_its_lines(program: Path) -> None:
    async with agreed(program) as setting:
        (program.parent / "beside.py").write_text("WORD = 'two'\n")
        await answer_of(setting, text="hi")
        await setting.until(lambda: setting.source.held)
        _, beside = setting.source.changed
        assert (beside.now.name, beside.before, beside.now.said) == (
            "tools/beside.py",
            "WORD = 'one'\n",
            "WORD = 'two'\n",
        )


async def test_prompts_and_resources_of_a_server_whose_program_changed_are_not_read(
    program: Path,
) -> None:
    async with agreed(program) as setting:
        (program.parent / "beside.py").write_text("WORD = 'two'\n")
        with pytest.raises(Exception, match="was not called: its program"):
            await setting.source.request("resources/read", {"uri": "x:y"})


async def test_a_file_that_was_written_again_as_it_was_changes_nothing(program: Path) -> None:
    async with agreed(program) as setting:
        put(program.parent, "srv.py", text(program))
        os.utime(program.parent / "beside.py")
        assert await answer_of(setting, text="hi") == "hi"


async def test_what_the_user_agreed_to_must_be_what_is_there_when_the_answer_arrives(
    program: Path,
) -> None:
    async with serving(program.parents[2], config(program)) as setting:
        await setting.start()
        seen = [one.now.said for one in setting.source.changed]
        (program.parent / "beside.py").write_text("WORD = 'evil'\n")
        assert not await setting.source.agree(seen)
        assert "'evil'" in setting.source.changed[-1].now.said + setting.source.changed[1].now.said
        await setting.start()
        assert setting.source.held and not ran(program)


async def test_a_program_that_changes_while_it_starts_is_ended_before_its_tools_are_used(
    program: Path,
) -> None:
    async with agreed(program):
        pass
    beside = program.parent / "beside.py"
    beside.write_text(
        f"import pathlib\npathlib.Path({str(program.parent / 'late.py')!r}).write_text('evil')\n"
    )
    async with serving(program.parents[2], config(program)) as setting:
        await setting.start()
        assert await setting.source.agree([one.now.said for one in setting.source.changed])
        await setting.start()
        assert setting.names == [] and "changed while it ran" in setting.problems


async def test_a_python_program_leaves_nothing_beside_itself_that_would_stop_it(
    program: Path,
) -> None:
    async with agreed(program) as setting:
        assert await answer_of(setting, text="hi") == "hi"
        assert sorted(path.name for path in program.parent.iterdir()) == ["beside.py", "srv.py"]


async def test_pins_of_a_program_that_cannot_be_read_keep_it_from_starting(program: Path) -> None:
    async with agreed(program) as setting:
        assert ran(program)
    [file] = (setting.folder / "pins").glob("*.program.json")
    for damage in (lambda: file.write_text("[1]"), lambda: file.chmod(0o644)):
        damage()
        async with serving(setting.folder, config(program)) as again:
            await again.start()
            assert "it is not known what its program was" in again.problems and not ran(program)


@pytest.mark.parametrize("bound", ["MOST_FILES", "MOST_BYTES"])
async def test_a_program_that_is_too_much_to_watch_is_refused(
    program: Path, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, bound, 2)
    put(program.parent, "more.py", "x = 1\n")
    async with serving(program.parents[2], config(program)) as setting:
        await setting.start()
        assert (
            "too much to be watched" in setting.problems
            and "put its program into a folder" in setting.problems
        )
        assert not ran(program) and not setting.source.held


async def test_a_server_without_a_program_in_the_workspace_is_not_asked_about(
    tmp_path: Path,
) -> None:
    command = ServerConfig(
        "it", sys.executable, (str(HOSTILE), "Server", str(tmp_path)), where="machine"
    )
    async with serving(tmp_path, command) as setting:
        put(tmp_path, "project/a.py", "")
        await setting.start()
        assert await answer_of(setting, text="hi") == "hi"


def test_links_are_followed_and_their_targets_noted(tmp_path: Path) -> None:
    put(tmp_path, "project/real/one.py", "1")
    put(tmp_path, "other/one.py", "2")
    root = tmp_path / "project"
    (root / "tools").symlink_to("real")
    (root / "real/up").symlink_to("..")
    (root / "real/gone").symlink_to("/nowhere")
    before = program_files([root / "tools/one.py", root / "tools"], [], root)
    assert before.digests["tools"] == "-> real" and before.digests["real/gone"] == "-> /nowhere"
    assert (
        program_files([root / "tools/one.py", root / "tools"], [], root).digests == before.digests
    )
    (root / "tools").unlink()
    (root / "tools").symlink_to(tmp_path / "other")
    assert before.may_have_changed()
    after = program_files([root / "tools/one.py", root / "tools"], [], root)
    assert after.digests != before.digests and after.texts[f"{tmp_path}/other/one.py"] == "2"


def test_links_in_a_circle_are_refused_and_a_pipe_is_never_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(SandboxUnavailable, match="cannot be read"):
        program_files([tmp_path / "a"], [], tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert program_files([tmp_path / "pipe"], [], tmp_path).digests == {"pipe": "not a file"}
    with pytest.raises(SandboxUnavailable, match="No such file"):
        program_files([tmp_path / "gone"], [], tmp_path)


def test_what_was_just_written_is_read_again_and_what_is_settled_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "a.py", "1")
    assert program_files([tmp_path / "a.py"], [], tmp_path).may_have_changed()
    monkeypatch.setattr(bounds, "_SETTLED_NS", -(10**12))
    settled = program_files([tmp_path / "a.py"], [tmp_path / "beside"], tmp_path)
    assert not settled.may_have_changed()
    put(tmp_path, "beside", "new")
    assert settled.may_have_changed()


def test_names_with_line_breaks_cannot_pass_for_other_files(tmp_path: Path) -> None:
    put(tmp_path, "p/a\nb", "1")
    assert program_files([tmp_path / "p"], [], tmp_path).manifest.count("\n") == 0


async def test_a_change_and_a_call_at_once_never_let_the_changed_program_answer(
    program: Path,
) -> None:
    async with agreed(program) as setting:
        calls = [asyncio.create_task(answer_of(setting, text="hi")) for _ in range(3)]
        await asyncio.gather(*calls)
        put(program.parent, "srv.py", "print('evil')\n")
        later = await asyncio.gather(*(answer_of(setting, text="secret") for _ in range(3)))
        assert all(answer != "secret" for answer in later)


async def test_who_names_a_file_of_the_workspace_as_if_it_started_there_reads_what_to_write(
    program: Path,
) -> None:
    command = ServerConfig("it", sys.executable, ("tools/srv.py",), where="machine")
    async with serving(program.parents[2], command) as setting:
        await setting.start()
        assert "write ${workspaceFolder}/tools/srv.py" in setting.problems and not ran(program)
