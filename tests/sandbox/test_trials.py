"""Commands in a view of the workspace: nothing leaks before it lands, and then it is what the same
commands do in place."""

import asyncio
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio

from codeagent.changes.layers import TooMuch
from codeagent.core.errors import ContentChanged, SandboxLost, WorkspaceError
from codeagent.core.sandbox import Command, Trial
from codeagent.sandbox.container import SessionContainer
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.workspace.checkpoints import GitCheckpoints
from tests.effort import chance, times
from tests.sandboxes import Ran, make_repository, opened, run

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module")]
NAMES = ("a", "b", "c", "d", "n" * 255, "two words", "$'new\\nline'", "$'\\377\\376'")
WRITES = (
    "echo {number} > {path}",
    "echo {number} >> {path}",
    "rm -f {path}",
    "rm -rf {path}",
    "mkdir -p {path}",
    "mv -T {path} {other}",
    "mv {path} {other}",
    "chmod {mode} {path}",
    "ln -s {other} {path}",
    "ln {path} {other}",
    "truncate -s {number} {path}",
    "dd if=/dev/zero of={path} bs=1 count=1 seek=100000 conv=notrunc status=none",
    "touch -d @{number} {path}",
    "rm -rf {path}; echo file > {path}",
    "rm -f {path}; mkdir {path}; echo in > {path}/inner",
    "cp -a {path} {other}",
    'python3 -c \'import os, sys; os.setxattr(sys.argv[1], "user.x", b"{number}")\' {path}',
    "for i in 1 2 3 4 5 6 7 8 9; do echo $i > {path}$i; done",
    "exec 3<> {path}; exec 3>&-",
    "mkdir -p {path}; (cd {path} && seq 1000 | xargs touch)",
    "mkdir -p {path}/$(printf 'deep/%.0s' $(seq 60)); echo in > {path}/deep/deep/file",
    "mkdir {path}; mv {other} {path}; mv {path} {other}",
    "mkfifo {path}; rm {path}",
    "cp {path} {other}; rm {path}; ln -s {other} {path}",
    # Folders that were there before cannot be exchanged in a view, nor renamed in one step.
    "[ -f {path} ] && [ -f {other} ] && python3 -c 'import ctypes, os, sys; "
    "ctypes.CDLL(None).renameat2(-100, os.fsencode(sys.argv[1]), -100, os.fsencode(sys.argv[2]), 2)'"
    " {path} {other}",
    'python3 -c \'import os, sys; os.setxattr(sys.argv[1], "user.overlay.{note}", b"y")\' {path}',
)
NOTES = ("opaque", "redirect", "origin", "impure", "overlay.opaque")
"""Attributes in which the kernel keeps its notes about a layer: forged ones are nothing."""
HIDING = ("metacopy", "whiteout")
"""Those that make a file of the workspace unreadable in a view."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tried(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DockerSandbox]:
    """A sandbox whose commands are tried out."""
    base = tmp_path_factory.mktemp("tried")
    (base / "project").mkdir()
    async with opened(base / "project", base / "state") as sandbox:
        await sandbox.prepare_trials()
        assert sandbox.untried == ""
        yield sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DockerSandbox]:
    """A sandbox whose commands run in place."""
    base = tmp_path_factory.mktemp("plain")
    (base / "project").mkdir()
    async with opened(base / "project", base / "state") as sandbox:
        yield sandbox


@pytest.fixture(autouse=True)
def _empty(tried: DockerSandbox, plain: DockerSandbox) -> None:
    for sandbox in (tried, plain):
        for place in root_of(sandbox).iterdir():
            shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()


def root_of(sandbox: DockerSandbox) -> Path:
    return sandbox.spec.root


async def try_out(sandbox: DockerSandbox, text: str) -> tuple[Ran, Trial]:
    ran = Ran()
    trial = await sandbox.try_out(Command(text, "call"), ran)
    ran.result = trial.result
    return ran, trial


def tree(root: Path, *, times: bool = False) -> dict[str, tuple[object, ...]]:
    """Everything below a folder: kind, mode, content, attributes, and how many names a file has."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in (*folders, *files):
            place = folder + b"/" + name
            status = os.lstat(place)
            content: object = b""
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(place)  # noqa: PTH115  # as bytes
            elif stat.S_ISREG(status.st_mode):
                content = hashlib.sha256(Path(os.fsdecode(place)).read_bytes()).digest()
            names = sorted(os.listxattr(place, follow_symlinks=False))
            names = [each for each in names if not each.startswith("user.overlay.")]
            attributes = [(each, os.getxattr(place, each, follow_symlinks=False)) for each in names]
            more = (status.st_mtime_ns, status.st_ino) if times else ()
            mode = 0 if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)
            links = status.st_nlink if stat.S_ISREG(status.st_mode) else 0
            found[os.fsdecode(place).removeprefix(f"{root}/")] = (
                stat.S_IFMT(status.st_mode),
                mode,
                content,
                attributes,
                links,
                *more,
            )
    return found


def script(random: Random, number: int) -> str:
    """So many random commands, each of which may fail."""

    def path() -> str:
        return "/".join(random.choice(NAMES) for _ in range(random.randint(1, 3)))

    lines = [
        random.choice(WRITES).format(
            path=path(),
            other=path(),
            number=random.randint(0, 9),
            mode=random.choice(("600", "644", "755", "700", "444")),
            note=random.choice(NOTES),
        )
        for _ in range(number)
    ]
    return "".join(f"{{ {line}; }} 2> /dev/null\n" for line in lines) + "true"


@pytest.mark.soak(tried=1, row="commands tried out")
@pytest.mark.parametrize("number", range(times(3)))
async def test_what_lands_is_what_the_same_commands_do_in_place_and_can_be_undone(
    tried: DockerSandbox, plain: DockerSandbox, number: int, tmp_path: Path
) -> None:
    random = chance(f"trial {number}")
    await run(plain, script(random, 40))
    copy = ["cp", "-a", f"{root_of(plain)}/.", root_of(tried)]
    await asyncio.to_thread(subprocess.run, copy, check=True)
    before = tree(root_of(tried), times=True)
    # Files that had several names already are cut apart by a view, see docs/explanation/effects.md.
    if any(entry[4] not in (0, 1) for entry in before.values()):
        pytest.skip("two names of one file to begin with")
    text = script(random, 30)
    _, trial = await try_out(tried, text)
    assert tree(root_of(tried), times=True) == before
    with closing(GitCheckpoints(tmp_path / "state", root_of(tried))) as checkpoints:
        first = await checkpoints.take()
        await trial.land(await trial.effects())
        await trial.close()
        await run(plain, text)
        assert tree(root_of(tried)) == tree(root_of(plain))
        present = await checkpoints.take()
        await checkpoints.restore(first.id, present=present.id)
        assert restorable(tree(root_of(tried))) == restorable(before)


def restorable(found: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    """What checkpoints keep: files with their executable bit, and links."""
    return {
        path: (kind, isinstance(mode, int) and mode & stat.S_IXUSR, content)
        for path, (kind, mode, content, *_) in found.items()
        if kind != stat.S_IFDIR
    }


async def test_a_command_that_changes_nothing_has_no_effects(tried: DockerSandbox) -> None:
    (root_of(tried) / "a").write_text("1")
    ran, trial = await try_out(tried, "cat a; ls -la; echo kept > /tmp/x; exit 3")
    assert (ran.stdout[:1], ran.result.exit_code) == (b"1", 3)
    assert await trial.effects() == ()
    await trial.close()


async def test_a_view_that_was_made_before_shows_what_was_written_since(
    tried: DockerSandbox,
) -> None:
    root = root_of(tried)
    (root / "folder").mkdir()
    (root / "folder" / "old").write_text("old")
    _, trial = await try_out(tried, "true")
    await trial.close()
    (root / "folder" / "old").write_text("changed")
    (root / "folder" / "new").write_text("new")
    (root / "top").write_text("top")
    ran, trial = await try_out(tried, "cat folder/old folder/new top; ls")
    assert ran.stdout == b"changednewtopfolder\ntop\n"
    await trial.close()


async def test_scratch_and_loopback_are_those_of_the_session(tried: DockerSandbox) -> None:
    serve = "python3 -m http.server 8765 --bind 127.0.0.1 > /dev/null 2>&1 &"
    await run(tried, f"cd /tmp && echo shared > scratch && echo home > ~/kept; {serve}")
    wait = "for i in $(seq 100); do curl -sf localhost:8765/scratch && break; sleep .1; done"
    ran, trial = await try_out(tried, f"{wait}; cat ~/kept; echo back > /tmp/back")
    await trial.close()
    assert ran.stdout == b"shared\nhome\n"
    assert (await run(tried, "cat /tmp/back; pkill -f http.server")).stdout == b"back\n"


async def test_commands_that_begin_at_once_have_a_view_each(tried: DockerSandbox) -> None:
    _, before = await try_out(tried, "true")  # the next view is only being made
    await before.close()
    found = await asyncio.gather(*(try_out(tried, f"echo x > {name}") for name in "abc"))
    for name, (_, trial) in zip("abc", found, strict=True):
        assert [each.path for each in await trial.effects()] == [name]
        await trial.close()


async def test_a_repository_that_the_user_makes_while_a_command_is_tried_out_stays(
    tried: DockerSandbox,
) -> None:
    root = root_of(tried)

    async def made(stream: object, data: bytes) -> None:
        (root / ".git").mkdir()

    trial = await tried.try_out(Command("echo runs", "call"), made)
    await trial.close()
    assert (root / ".git").exists() and trial.result.notices == ()


async def test_a_view_that_could_not_be_made_in_advance_is_made_again(
    tried: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, trial = await try_out(tried, "true")
    await trial.close()
    await tried.prepare_trials()
    with monkeypatch.context() as broken:
        broken.setattr("codeagent.sandbox.container.launch", lambda *given, **more: 1 / 0)
        _, trial = await try_out(tried, "true")
        await trial.close()
        await tried.prepare_trials()
    ran, trial = await try_out(tried, "echo ran")
    await trial.close()
    assert ran.stdout == b"ran\n"


async def test_commands_that_get_a_container_each_share_no_scratch_in_views(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    async with opened(tmp_path / "project", tmp_path / "state", per_command=True) as sandbox:
        await sandbox.prepare_trials()
        _, trial = await try_out(sandbox, "echo left > /tmp/x; echo left > ~/x")
        await trial.close()
        ran, trial = await try_out(sandbox, "ls /tmp ~")
        await trial.close()
        assert b"x" not in ran.stdout.splitlines()
        assert b"x" not in (await run(sandbox, "ls /tmp ~")).stdout.splitlines()


async def test_what_is_protected_or_masked_is_so_in_a_view(tried: DockerSandbox) -> None:
    make_repository(root_of(tried) / "inner")
    (root_of(tried) / ".env").write_text("KEY=canary")
    ran, trial = await try_out(
        tried, "cat .env; echo x > .env; ls /run /proc/1/root 2>&1 | tail -1"
    )
    assert b"canary" not in ran.stdout
    assert await trial.effects() == ()
    await trial.close()


async def test_no_layer_can_be_reached_from_inside(tried: DockerSandbox) -> None:
    layers = tried.spec.state_dir / "sandbox" / "layers"
    look = f"ls {layers} 2>&1; find / -path /proc -prune -o -name upper -print 2>/dev/null"
    ran, trial = await try_out(tried, f"echo secret > made; {look}")
    await trial.close()
    for each in (ran, await run(tried, look)):
        assert each.stdout.count(b"\n") == 1 and b"No such file" in each.stdout


async def test_devices_sockets_and_pipes_never_land(tried: DockerSandbox) -> None:
    make = (
        'mkfifo pipe; mknod device c 1 3; chmod u+s,g+s kept; python3 -c "import socket; '
        "socket.socket(socket.AF_UNIX).bind('socket')\"; echo file > file"
    )
    _, trial = await try_out(tried, f"echo x > kept; {make}")
    await trial.land(await trial.effects())
    await trial.close()
    found = {place.name: place.lstat().st_mode for place in root_of(tried).iterdir()}
    assert found.keys() == {"kept", "file"}
    assert not any(mode & (stat.S_ISUID | stat.S_ISGID) for mode in found.values())


async def test_forged_notes_about_a_layer_change_nothing_of_what_is_found_and_lands(
    tried: DockerSandbox,
) -> None:
    root = root_of(tried)
    for note in (*NOTES, *HIDING):
        (folder := root / note).mkdir()
        for place in (folder, folder / "full", folder / "empty"):
            if place != folder:
                place.write_text("kept\n" * (place.name == "full"))
            os.setxattr(place, f"user.overlay.{note}", b"y")
    forge = (
        "import os\nfor folder in os.listdir():\n for name in (*os.listdir(folder), '.', 'new'):\n"
        "  place = f'{folder}/{name}'\n  if name == 'new': open(place, 'w').write('new')\n"
        f"  for note in {(*NOTES, *HIDING)}:\n"
        "   try: os.setxattr(place, f'user.overlay.{note}', b'y')\n   except OSError: pass\n"
    )
    _, trial = await try_out(tried, f'python3 -c "{forge}"; rm -rf opaque/full redirect')
    effects = await trial.effects()
    gone = {f"redirect{each}" for each in ("", "/full", "/empty", "/new")} | {"opaque/full"}
    assert {each.path for each in effects if each.after is None} == gone - {"redirect/new"}
    await trial.land(effects)
    await trial.close()
    for note in {*NOTES, *HIDING} - {"redirect"}:
        assert {each.name for each in (root / note).iterdir()} | {"full"} == {
            "full",
            "empty",
            "new",
        }
        assert os.listxattr(root / note / "new") == []
        if note != "opaque":
            assert (root / note / "full").read_text() == "kept\n"


async def test_what_is_hidden_from_commands_is_hidden_in_a_view_made_before_and_does_not_land(
    tried: DockerSandbox, tmp_path: Path
) -> None:
    """Under its name, under another, and through a folder that is moved or linked."""
    root = root_of(tried)
    (root / "deploy").mkdir()
    (root / "plain").write_text("plain")
    _, trial = await try_out(tried, "true")
    await trial.close()
    for secret in (".env", "deploy/.env"):
        (root / secret).write_text("KEY=canary")
    take = (
        "ln .env hard; cp .env copy; ln -s .env soft; mv deploy moved; ln -s deploy link; "
        "cp link/.env second; cat .env */.env soft link/.env; mv .env away; ln deploy/.env hard2"
    )
    ran, trial = await try_out(tried, f"{{ {take}; }} 2>&1; grep -r canary . /proc/self/cwd")
    assert b"canary" not in ran.stdout
    await trial.land(await trial.effects())
    await trial.close()
    for place in root.rglob("*"):
        if place.name != ".env" and place.is_file() and not place.is_symlink():
            assert "canary" not in place.read_text(), place
    assert (root / ".env").read_text() == (root / "deploy/.env").read_text() == "KEY=canary"


@pytest.mark.parametrize("late", [False, True], ids=["before", "after the view was made"])
async def test_what_is_mounted_in_the_workspace_stays_as_it_is(
    tmp_path: Path, *, late: bool
) -> None:
    place = tmp_path / "project" / "nested"
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "codeagent-test", place]
    with ExitStack() as mounted:

        def begin() -> None:
            done = subprocess.run(mount, capture_output=True, check=False)
            if done.returncode:
                pytest.skip("only root may mount")
            mounted.callback(subprocess.run, ["umount", "-l", place], check=True)
            (place / "kept").write_text("kept")

        if not late:
            begin()
        async with opened(tmp_path / "project", tmp_path / "state") as sandbox:
            _, trial = await try_out(sandbox, "true")
            await trial.close()
            if late:
                assert sandbox._trials is not None and sandbox._trials._next is not None
                await sandbox._trials._next
                begin()
            write = "echo x > nested/new; echo x > nested/kept; rm -rf nested; echo y > beside"
            _, trial = await try_out(sandbox, write)
            effects = await trial.effects()
            if late:
                with pytest.raises((WorkspaceError, OSError)):
                    await trial.land(effects)
            else:
                assert [each.path for each in effects] == ["beside"]
                await trial.land(effects)
            await trial.close()
        assert [each.name for each in place.iterdir()] == ["kept"]
        assert (place / "kept").read_text() == "kept"
        assert (place.parent / "beside").exists() is not late


async def test_links_that_lead_out_land_as_links_and_are_never_followed(
    tried: DockerSandbox, tmp_path: Path
) -> None:
    (outside := tmp_path / "outside").mkdir()
    (outside / "file").write_text("untouched")
    (root_of(tried) / "folder").mkdir()
    (root_of(tried) / "folder" / "file").write_text("1")
    before = tree(tmp_path, times=True)
    _, trial = await try_out(
        tried, f"ln -s {outside}/file file; rm -r folder; ln -s {outside} folder; ln -s / top"
    )
    effects = await trial.effects()
    assert all(
        change.after is None or change.after.kind == "link"
        for change in await trial.changes(effects)
    )
    await trial.land(effects)
    await trial.close()
    links = {each.name: str(each.readlink()) for each in root_of(tried).iterdir()}
    assert links == {"file": f"{outside}/file", "folder": str(outside), "top": "/"}
    assert tree(tmp_path, times=True) == before


@pytest.mark.parametrize("depth", [150, 250, 1_500])
async def test_folders_that_are_very_deep_land_or_are_refused_and_removed(
    tried: DockerSandbox, depth: int
) -> None:
    dig = f"import os\nfor _ in range({depth}): os.mkdir('d'); os.chdir('d')\nopen('file', 'w')"
    _, trial = await try_out(tried, f'python3 -c "{dig}"')
    if depth < 200:
        await trial.land(await trial.effects())
        assert (root_of(tried) / ("d/" * depth) / "file").exists()
    else:
        with pytest.raises(TooMuch):
            await trial.effects()
    layers = tried.spec.state_dir / "sandbox" / "layers"
    before = {*layers.iterdir()}
    await trial.close()
    assert len({*layers.iterdir()} & before) == len(before) - 1


async def test_what_a_command_leaves_running_ends_with_its_view(tried: DockerSandbox) -> None:
    ran, trial = await try_out(tried, "(sleep 301.5; echo late > late) & echo begun")
    assert ran.stdout == b"begun\n"
    assert ran.result.left_running in (1, 2)  # the shell may not have started the program yet
    effects = await trial.effects()
    assert effects == ()
    assert b"sleep\x00301.5\x00" not in _command_lines()
    await trial.close()


def _command_lines() -> list[bytes]:
    """Those of all processes of this machine."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            found.append((process / "cmdline").read_bytes())
    return found


async def test_a_command_that_is_stopped_leaves_nothing(tried: DockerSandbox) -> None:
    ran = Ran()
    work = asyncio.create_task(
        tried.try_out(Command("echo x > made; echo on; sleep 300", "c"), ran)
    )
    await ran.printed(b"on")
    work.cancel()
    trial = await work
    assert trial.result.stopped
    await trial.close()
    assert [*root_of(tried).iterdir()] == []


async def test_a_change_by_somebody_else_is_seen_by_its_time(tried: DockerSandbox) -> None:
    (root_of(tried) / "a").write_text("1")
    ran = Ran()
    text = "echo mine >> a; echo on; while [ ! -e /tmp/go ]; do sleep .01; done"
    work = asyncio.create_task(tried.try_out(Command(text, "c"), ran))
    await ran.printed(b"on")
    (root_of(tried) / "a").write_text("theirs")
    await run(tried, "touch /tmp/go")
    trial = await work
    (effect,) = await trial.effects()
    assert effect.before is not None and effect.before.changed_ns > trial.began_ns
    await trial.close()
    await run(tried, "rm /tmp/go")


async def test_a_file_that_changed_since_it_was_shown_does_not_land(tried: DockerSandbox) -> None:
    (root_of(tried) / "a").write_text("1")
    _, trial = await try_out(tried, "echo mine > a")
    effects = await trial.effects()
    (root_of(tried) / "a").write_text("theirs")
    with pytest.raises(ContentChanged):
        await trial.land(effects)
    assert (root_of(tried) / "a").read_text() == "theirs"
    await trial.close()


async def test_nothing_of_a_view_is_left_when_it_is_closed(tried: DockerSandbox) -> None:
    _, trial = await try_out(tried, "mkdir -p a/b; echo 1 > a/b/c; chmod 0 a/b")
    layers = tried.spec.state_dir / "sandbox" / "layers"
    before = {*layers.iterdir()}
    await trial.close()
    assert len({*layers.iterdir()} & before) == len(before) - 1


async def test_closing_while_the_next_view_is_being_made_leaves_no_layer(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    for patience in (0.0, 0.05, 0.2, 0.4):
        async with opened(tmp_path / "project", tmp_path / "state") as sandbox:
            _, trial = await try_out(sandbox, "echo x > made")
            await trial.close()
            await asyncio.sleep(patience)
        assert [*(tmp_path / "state" / "sandbox" / "layers").iterdir()] == []


async def test_a_view_has_the_image_of_the_session_which_is_chosen_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    async with opened(tmp_path / "project", tmp_path / "state") as sandbox:
        await run(sandbox, "true")
        monkeypatch.delattr("codeagent.sandbox.launch.choose_image")
        _, trial = await try_out(sandbox, "true")
        assert trial.result.exit_code == 0
        await trial.close()


async def test_nothing_is_taken_if_it_is_unknown_whether_the_container_has_ended(
    tried: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = SessionContainer.close

    async def unsure(container: SessionContainer) -> bool:
        await close(container)
        return False

    monkeypatch.setattr(SessionContainer, "close", unsure)
    with pytest.raises(SandboxLost):
        await try_out(tried, "echo x > a")
    assert not [*root_of(tried).iterdir()]
