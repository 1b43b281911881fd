"""What a layer changes is read, lands all or none, and is finished after a crash."""

import os
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.changes import layer_landing, layers
from codeagent.changes.layer_copy import LayerCopy
from codeagent.core.checkpoints import Node
from codeagent.core.errors import ContentChanged, PartlyChanged, WorkspaceError
from codeagent.disk import opens
from codeagent.sandbox.layers import Layer, remove_layer
from tests.effort import times
from tests.layers import Layered, Tree, make_tree, tree_of

PATHS = ("a", "b.txt", "d", "d/one", "d/two", "d/e/three", "d/e/f/four", "a/below", "g/h")
_TEXTS = st.sampled_from(["", "old\n", "one\ntwo\n", "-> b.txt", "-> nowhere", None])
_TREES = st.dictionaries(st.sampled_from(PATHS), _TEXTS, max_size=6).map(
    lambda wanted: {
        path: text
        for path, text in wanted.items()
        if not any(other.startswith(f"{path}/") for other in wanted)
    }
)
Rename = Callable[[str, str, int, int], None]
CASES = st.tuples(
    _TREES, _TREES, st.frozensets(st.sampled_from(["d", "d/e", "g", "a"])), st.booleans()
)
Case = tuple[Tree, Tree, frozenset[str], bool]
"""Before, after, the opaque folders, and whether the layer is on another file system."""


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def layered(
    before: Tree,
    after: Tree,
    opaque: frozenset[str] = frozenset(),
    apart: bool = False,  # as in CASES
) -> Iterator[Layered]:
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere,
    ):
        made = Layered.make(Path(folder), before, Path(elsewhere) if apart else None)
        made.becomes(after, opaque=opaque)
        yield made


@contextmanager
def interrupted(at: int, error: BaseException) -> Iterator[list[int]]:
    """Raise before the rename with this number, from 0; yields how many were tried."""
    tried = [0]

    def counted(original: Rename) -> Rename:
        def rename(name: str, new: str, source: int, target: int) -> None:
            tried[0] += 1
            if tried[0] == at + 1:
                raise error
            original(name, new, source, target)

        return rename

    with (
        patch.object(layer_landing, "rename_new", counted(opens.rename_new)),
        patch.object(layer_landing, "exchange", counted(opens.exchange)),
    ):
        yield tried


@pytest.mark.soak
@settings(max_examples=times(60), deadline=None)
@given(CASES)
def test_landing_makes_of_the_workspace_what_the_view_showed(case: Case) -> None:
    before, after, *how = case
    with layered(before, after, *how) as view:
        view.land()
        assert tree_of(view.root) == _seen(after)


@pytest.mark.soak
@settings(max_examples=times(60), deadline=None)
@given(CASES, st.integers(0, 8))
def test_a_step_that_fails_leaves_everything_as_it_was(case: Case, at: int) -> None:
    before, after, *how = case
    with layered(before, after, *how) as view, interrupted(at, OSError(28, "full")) as tried:
        try:
            view.land()
        except WorkspaceError:
            assert tree_of(view.root) == _seen(before)
            assert view.finish() is None
        else:
            assert tried[0] <= at
            assert tree_of(view.root) == _seen(after)


@pytest.mark.soak
@settings(max_examples=times(60), deadline=None)
@given(CASES, st.integers(0, 8), st.integers(0, 8))
def test_a_landing_that_was_killed_is_finished_however_often_it_is_killed(
    case: Case, at: int, again: int
) -> None:
    before, after, *how = case
    with layered(before, after, *how) as view:
        try:
            with interrupted(at, Killed()):
                view.land()
        except Killed:
            try:
                with interrupted(again, Killed()):
                    view.finish()
            except Killed:
                view.finish()
        assert tree_of(view.root) == _seen(after)


@pytest.mark.soak
@settings(max_examples=times(60), deadline=None)
@given(CASES, st.integers(0, 8), st.integers(0, 8))
def test_taking_back_that_was_killed_is_finished(case: Case, at: int, again: int) -> None:
    before, after, *how = case
    with layered(before, after, *how) as view:
        back = layer_landing.LayerLanding._take_back

        def killed(*arguments: Any) -> None:
            with interrupted(again, Killed()):
                back(*arguments)

        try:
            with (
                patch.object(layer_landing.LayerLanding, "_take_back", killed),
                interrupted(at, OSError(28, "full")),
            ):
                view.land()
        except WorkspaceError:
            assert tree_of(view.root) == _seen(before)
        except Killed:
            view.finish()
            assert tree_of(view.root) == _seen(before)


@pytest.mark.parametrize("at", range(4))
def test_a_landing_that_was_killed_while_it_copied_leaves_everything_as_it_was(at: int) -> None:
    before, after = {"a": "1", "d/x": "2"}, {"a": "new", "d/x": "new", "e/f/g": "3", "e/h": "-> g"}
    added = LayerCopy.add
    left = [at]

    def killed(*arguments: Any) -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1
        added(*arguments)

    with layered(before, after, apart=True) as view:
        with patch.object(LayerCopy, "add", killed), pytest.raises(Killed):
            view.land()
        assert view.finish() == ()
        assert tree_of(view.root) == _seen(before)
        assert view.finish() is None


@pytest.mark.parametrize("apart", [False, True], ids=["renamed", "copied"])
def test_what_is_left_out_stays_as_it_is(*, apart: bool) -> None:
    before = {"kept/a": "1", "kept/b": "2", "gone/c": "3", "gone/d": "4"}
    after = {"kept/a": "new", "kept/b": "new", "fresh/e": "5", "fresh/f": "6"}
    with layered(before, after, apart=apart) as view:
        view.land(frozenset({"kept/b", "gone/d", "fresh/f"}))
        assert tree_of(view.root) == {"kept/a": "new", "kept/b": "2", "gone/d": "4", "fresh/e": "5"}


def test_what_is_neither_file_folder_nor_link_never_lands() -> None:
    with layered({"a": "1"}, {"a": "1", "new/b": "2"}) as view:
        os.mkfifo(view.upper / "new" / "pipe")
        for name, bits in (("new/user", 0o4755), ("group", 0o2755)):
            (view.upper / name).write_text("runs as somebody else")
            (view.upper / name).chmod(bits)
        view.land()
        assert tree_of(view.root) == {"a": "1", "new/b": "2"}


@pytest.mark.parametrize("apart", [False, True], ids=["renamed", "copied"])
def test_what_lands_keeps_all_that_the_command_gave_it(*, apart: bool) -> None:
    """Mode, times, names, attributes and holes."""
    with layered({"a": "1"}, {"a": "2", "b": "3", "d/e": "4"}, apart=apart) as view:
        made = view.upper / "b"
        made.chmod(0o751)
        (view.upper / "d").chmod(0o1770)
        os.setxattr(made, "user.note", b"kept")
        os.setxattr(view.upper / "a", "user.overlay.origin", b"the kernel's")
        os.link(made, view.upper / "c")
        os.link(made, view.upper / "d" / "c")
        with (view.upper / "d" / "sparse").open("wb") as sparse:
            sparse.truncate(1 << 30)
            sparse.seek(1 << 29)
            sparse.write(b"in the middle")
        (view.upper / "link").symlink_to("nowhere")
        for name in ("b", "d", "link"):
            os.utime(view.upper / name, ns=(5, 5), follow_symlinks=False)
        view.land()
        landed = (view.root / "b").stat()
        assert (landed.st_mode & 0o7777, landed.st_mtime_ns, landed.st_nlink) == (0o751, 5, 3)
        folder = (view.root / "d").stat()
        assert (folder.st_mode & 0o7777, folder.st_mtime_ns) == (0o1770, 5)
        assert (view.root / "link").lstat().st_mtime_ns == 5
        assert (view.root / "d" / "c").samefile(view.root / "b")
        assert os.getxattr(view.root / "c", "user.note") == b"kept"
        assert os.listxattr(view.root / "a") == []
        sparse_file = (view.root / "d" / "sparse").stat()
        assert sparse_file.st_size == 1 << 30 and sparse_file.st_blocks < 100
        assert [*view.root.glob(".codeagent*")] == []


def test_a_file_that_only_got_another_time_is_not_an_ordinary_effect() -> None:
    with layered({"a": "1"}, {"a": "1"}) as view:
        (view.upper / "a").write_text("1")
        os.utime(view.upper / "a", ns=(7, 7))
        assert [(effect.path, effect.only_times) for effect in view.effects()] == [("a", True)]
        view.land()
        assert (view.root / "a").stat().st_mtime_ns == 7


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "d" / "one").write_text("theirs"),
        lambda root: (root / "d" / "one").unlink(),
        lambda root: (root / "new").write_text("theirs"),
        lambda root: (root / "gone" / "theirs").write_text("theirs"),
        lambda root: (root / "d").rename(root / "moved"),
        lambda root: (root / "d" / "one").chmod(0o600),
        lambda root: rewrite_unseen(root / "d" / "one", "8"),
    ],
    ids=[
        "changed",
        "removed",
        "created",
        "put into a folder that goes",
        "moved",
        "mode changed",
        "changed with its time and size kept",
    ],
)
def test_what_somebody_else_did_since_the_layer_was_read_keeps_it_from_landing(
    change: Callable[[Path], object],
) -> None:
    def state() -> list[object]:
        return [
            tree_of(view.root),
            *(each.lstat().st_mode for each in sorted(view.root.rglob("*"))),
        ]

    before = {"d/one": "1", "gone/x": "2", "z": "3"}
    with layered(before, {"d/one": "new", "new": "4", "z": "5"}) as view:
        steps = layer_landing.plan(view.effects())
        change(view.root)
        theirs = state()
        with view.landing() as landing, pytest.raises(ContentChanged):
            landing.land(steps)
        assert state() == theirs


def test_a_change_in_the_instant_of_the_landing_is_not_lost() -> None:
    """It is seen in the file that was replaced, and everything is taken back."""

    def late(name: str, other: str, source: int, target: int) -> None:
        if name == "b":
            (view.root / "b").write_text("theirs, at the last moment")
            patched.stop()
        opens.exchange(name, other, source, target)

    with layered({"a": "1", "b": "2"}, {"a": "new", "b": "new"}) as view:
        patched = patch.object(layer_landing, "exchange", late)
        patched.start()
        with pytest.raises(ContentChanged):
            view.land()
        assert tree_of(view.root) == {"a": "1", "b": "theirs, at the last moment"}


def test_after_a_crash_a_file_that_somebody_else_changed_meanwhile_stays_theirs() -> None:
    with layered({"a": "1", "b": "2"}, {"a": "new", "b": "new"}) as view:
        with pytest.raises(Killed), interrupted(1, Killed()):
            view.land()
        (view.root / "b").write_text("theirs")
        said = view.finish()
        assert said is not None and any("b changed meanwhile" in line for line in said)
        assert tree_of(view.root) == {"a": "new", "b": "theirs"}


def test_a_change_in_the_instant_in_which_the_process_was_killed_is_not_lost() -> None:
    def late(name: str, other: str, source: int, target: int) -> None:
        patched.stop()
        (view.root / "a").write_text("theirs, at the last moment")
        opens.exchange(name, other, source, target)
        raise Killed

    with layered({"a": "1", "b": "2"}, {"a": "new", "b": "new"}) as view:
        patched = patch.object(layer_landing, "exchange", late)
        patched.start()
        with pytest.raises(Killed):
            view.land()
        said = view.finish()
        assert said is not None and any("a changed meanwhile" in line for line in said)
        assert tree_of(view.root) == {"a": "theirs, at the last moment", "b": "new"}


def test_what_somebody_else_changed_in_the_new_file_stays_when_the_rest_is_taken_back() -> None:
    def late(name: str, other: str, source: int, target: int) -> None:
        if name == "c":
            (view.root / "a").write_text("theirs, after mine")
            raise OSError(28, "full")
        opens.exchange(name, other, source, target)

    before = {"a": "1", "b": "2", "c": "3"}
    with layered(before, dict.fromkeys(before, "new")) as view:
        with (
            patch.object(layer_landing, "exchange", late),
            pytest.raises(PartlyChanged, match="not all was taken back: a changed meanwhile"),
        ):
            view.land()
        assert tree_of(view.root) == before | {"a": "theirs, after mine"}


def test_a_layer_of_which_not_all_was_taken_back_is_kept_until_it_is() -> None:
    def fails(name: str, other: str, source: int, target: int) -> None:
        tried.append(name)
        if len(tried) > 1:
            raise OSError(5, "broken")
        opens.exchange(name, other, source, target)

    tried: list[str] = []
    with layered({"a": "1", "b": "2"}, {"a": "new", "b": "new"}) as view:
        with patch.object(layer_landing, "exchange", fails), pytest.raises(PartlyChanged):
            view.land()
        assert tried == ["a", "b", "a"]
        remove_layer(Layer(view.layer))
        assert view.finish() == ("an interrupted landing was taken back: 2 changes",)
        assert tree_of(view.root) == {"a": "1", "b": "2"}
        remove_layer(Layer(view.layer))
        assert not (view.layer).exists()


@pytest.mark.parametrize("error", [OSError(28, "full"), Killed()], ids=["fails", "is killed"])
def test_a_file_that_was_taken_by_hunk_is_taken_back_and_finished_like_any_other(
    error: BaseException,
) -> None:
    with layered({"a": "1", "b": "2"}, {"a": "new", "b": "new"}) as view:
        effects = view.effects()
        change, _ = view.changes(effects)
        view.replace(replace(change, after=Node("file", b"a part of it")))
        with interrupted(1, error), pytest.raises((WorkspaceError, Killed)):
            view.land(effects=effects)
        said, wanted = None, {"a": "1", "b": "2"}
        if isinstance(error, Killed):
            said = ("an interrupted landing was finished: 2 changes",)
            wanted = {"a": "a part of it", "b": "new"}
        assert view.finish() == said
        assert tree_of(view.root) == wanted


def test_two_names_of_one_file_are_removed() -> None:
    with layered({"a": "1", "z": "3"}, {"z": "3"}) as view:
        os.link(view.root / "a", view.root / "b")
        view.whiteout("b")
        view.land()
        assert tree_of(view.root) == {"z": "3"}


def test_what_lands_is_what_the_layer_was_when_it_was_read() -> None:
    with layered({"a": "1", "b": "2"}, {"a": "new", "b": "new"}) as view:
        effects = view.effects()
        (view.upper / "b").write_text("what nobody was shown")
        with pytest.raises(ContentChanged):
            view.land(effects=effects)
        assert tree_of(view.root) == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    "late",
    [lambda root: (root / "new").write_text("theirs"), lambda root: (root / "z").unlink()],
    ids=["created", "removed"],
)
def test_what_appears_or_goes_in_the_instant_of_the_landing_is_asked_about_again(
    late: Callable[[Path], object],
) -> None:
    def hurried(rename: Rename) -> Rename:
        def renamed(name: str, new: str, source: int, target: int) -> None:
            if name in ("new", "z"):
                patched.close()
                late(view.root)
            rename(name, new, source, target)

        return renamed

    with layered({"a": "1", "z": "2"}, {"a": "2", "new": "3", "z": "4"}) as view:
        with ExitStack() as patched:
            for name in ("exchange", "rename_new"):
                original = hurried(getattr(opens, name))
                patched.enter_context(patch.object(layer_landing, name, original))
            with pytest.raises(ContentChanged):
                view.land()
        assert (view.root / "a").read_text() == "1"


def test_what_only_may_be_read_lands_for_an_ordinary_user() -> None:
    def work() -> None:
        view = Layered.make(Path(folder), {"a": "1", "d/e": "2"})
        view.becomes({"a": "new", "d/e": "new"})
        for name, mode in (("a", 0o444), ("d/e", 0o400)):
            os.setxattr(view.upper / name, "user.overlay.origin", b"the kernel's")
            (view.upper / name).chmod(mode)
        view.land()
        modes = [(view.root / name).stat().st_mode & 0o777 for name in ("a", "d/e")]
        assert modes == [0o444, 0o400]
        assert os.listxattr(view.root / "a") == []

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        as_an_ordinary_user(Path(folder), work)


def as_an_ordinary_user(folder: Path, work: Callable[[], None]) -> None:
    """Do the work in a process of a user to whom the folder belongs; it imports nothing."""
    if (child := os.fork()) == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                os.chown(folder, 65534, 65534)
                os.setgid(65534)
                os.setuid(65534)
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_link_that_took_the_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    make_tree(tmp_path / "outside", {"one": "1"})
    with layered({"d/one": "1"}, {"d/one": "new"}) as view:
        steps = layer_landing.plan(view.effects())
        (view.root / "d").rename(view.root / "elsewhere")
        (view.root / "d").symlink_to(tmp_path / "outside")
        with view.landing() as landing, pytest.raises(ContentChanged):
            landing.land(steps)
        assert (tmp_path / "outside" / "one").read_text() == "1"


def test_more_than_can_be_looked_through_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "MOST_EFFECTS", 2)
    with layered({}, {"a": "", "b": "", "c": ""}) as view, pytest.raises(layers.TooMuch):
        view.effects()


def rewrite_unseen(place: Path, text: str) -> None:
    status = place.stat()
    place.write_text(text)
    os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))


def _seen(tree: Tree) -> dict[str, str | None]:
    with tempfile.TemporaryDirectory() as folder:
        make_tree(Path(folder), tree)
        return tree_of(Path(folder))


def test_a_file_of_the_layer_that_changed_since_it_was_shown_does_not_land(tmp_path: Path) -> None:
    view = Layered.make(tmp_path, {"a": "old\n"})
    view.becomes({"a": "seen\n"})
    effects = view.effects()
    place = view.upper / "a"
    times = place.stat()
    place.write_text("sly!\n")
    os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(ContentChanged):
        view.land(effects=effects)
    assert tree_of(view.root) == {"a": "old\n"}
