"""Two codeagents in one folder: going back takes back what this one changed, and loses nothing of
the other."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.core.errors import CheckpointError
from tests.agent.sharing import Sharer
from tests.effort import up_to

TEN = "".join(f"line {number}\n" for number in range(10))


class Elsewhere:
    """A sharer in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def call(self, name: str, *arguments: object, **options: object) -> object:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, arguments, options]).encode() + b"\n")
        await self._process.stdin.drain()
        answer: object = json.loads(await self._process.stdout.readline())
        return answer


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "work" / name).write_text(TEN)
    return tmp_path


@pytest.fixture
def root(base: Path) -> Path:
    return base / "work"


@pytest.fixture
def pair(base: Path) -> Iterator[tuple[Sharer, Sharer]]:
    one, two = Sharer(base), Sharer(base)
    yield one, two
    one.close()
    two.close()


@pytest.fixture
async def elsewhere(base: Path) -> AsyncIterator[Elsewhere]:
    arguments = (sys.executable, "-m", "tests.agent.sharing", str(base))
    process = await asyncio.create_subprocess_exec(
        *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    yield Elsewhere(process)
    assert process.stdin is not None
    process.stdin.close()
    assert await process.wait() == 0


def with_line(number: int, text: str, whole: str = TEN) -> str:
    lines = whole.splitlines(keepends=True)
    lines[number] = f"{text}\n"
    return "".join(lines)


async def test_undo_leaves_a_file_that_another_process_wrote_during_the_batch(
    base: Path, root: Path, elsewhere: Elsewhere
) -> None:
    mine = Sharer(base)
    await mine.begin(commands=True)
    (root / "a.txt").write_text("mine\n")
    await elsewhere.call("edit", "b.txt", "theirs\n")
    await elsewhere.call("edit", "new.txt", "theirs, new\n")
    await mine.end()
    assert await mine.shown() == ["a.txt"]
    assert await mine.undo() == ""
    assert (root / "a.txt").read_text() == TEN
    assert (root / "b.txt").read_text() == "theirs\n"
    assert (root / "new.txt").read_text() == "theirs, new\n"
    mine.close()


async def test_undo_takes_its_hunks_out_of_a_file_that_both_processes_changed(
    base: Path, root: Path, elsewhere: Elsewhere
) -> None:
    mine = Sharer(base)
    await mine.edit("a.txt", with_line(1, "mine"))
    await elsewhere.call("edit", "a.txt", with_line(8, "theirs", with_line(1, "mine")))
    assert await mine.undo() == ""
    assert (root / "a.txt").read_text() == with_line(8, "theirs")
    assert await mine.redo() == ""
    assert (root / "a.txt").read_text() == with_line(8, "theirs", with_line(1, "mine"))
    assert await elsewhere.call("undo") == ""
    assert (root / "a.txt").read_text() == with_line(1, "mine")
    mine.close()


async def test_undo_refuses_a_file_of_which_both_processes_changed_the_same_lines(
    base: Path, root: Path, elsewhere: Elsewhere
) -> None:
    mine = Sharer(base)
    await mine.begin()
    await mine.write("a.txt", with_line(4, "mine"))
    await mine.write("b.txt", with_line(1, "mine"))
    await mine.end()
    await elsewhere.call("edit", "a.txt", with_line(4, "mine and theirs"))
    assert await mine.undo() == "left as it is: a.txt: both changed the same lines"
    assert (root / "a.txt").read_text() == with_line(4, "mine and theirs")
    assert (root / "b.txt").read_text() == TEN
    mine.close()


async def test_undo_that_could_take_back_nothing_says_so_and_changes_nothing(
    root: Path, pair: tuple[Sharer, Sharer]
) -> None:
    mine, other = pair
    await mine.edit("new.txt", "mine\n")
    await other.edit("new.txt", "mine\ntheirs\n")
    assert (
        await mine.undo()
        == "nothing was taken back: new.txt: both changed it, and it cannot be merged line by line"
    )
    assert (root / "new.txt").read_text() == "mine\ntheirs\n"
    assert (await mine.rewind.undo_target()).id


async def test_what_changed_while_commands_of_both_ran_is_refused(
    root: Path, pair: tuple[Sharer, Sharer]
) -> None:
    mine, other = pair
    await mine.begin(commands=True)
    (root / "a.txt").write_text("before the other\n")
    await other.begin(commands=True)
    (root / "b.txt").write_text("whose?\n")
    await mine.end()
    await other.end()
    assert (
        await mine.undo() == "left as it is: b.txt: it changed while commands of both were running"
    )
    assert (root / "a.txt").read_text() == TEN
    assert (root / "b.txt").read_text() == "whose?\n"
    assert (await other.undo()).startswith("nothing was taken back: b.txt")


async def test_a_file_that_the_other_wrote_itself_is_its_own_while_commands_of_both_run(
    root: Path, pair: tuple[Sharer, Sharer]
) -> None:
    mine, other = pair
    await mine.begin(commands=True)
    await other.begin(commands=True)
    await other.write("b.txt", "theirs\n")
    await mine.end()
    await other.end()
    assert await mine.shown() == [
        "only another codeagent has changed files since; /undo 2 also takes back the batch before"
    ]
    await mine.undo()
    assert (root / "b.txt").read_text() == "theirs\n"
    assert await other.undo() == ""
    assert (root / "b.txt").read_text() == TEN


async def test_a_command_keeps_its_changes_to_itself_while_the_other_only_writes_files(
    root: Path, pair: tuple[Sharer, Sharer]
) -> None:
    mine, other = pair
    await other.begin()
    await mine.begin(commands=True)
    (root / "a.txt").write_text("mine\n")
    await other.write("b.txt", "theirs\n")
    await mine.end()
    await other.end()
    assert await mine.undo() == ""
    assert ((root / "a.txt").read_text(), (root / "b.txt").read_text()) == (TEN, "theirs\n")


async def test_two_undos_one_after_the_other_go_round_what_the_other_did_between(
    root: Path, pair: tuple[Sharer, Sharer]
) -> None:
    mine, other = pair
    await mine.edit("a.txt", with_line(0, "first"))
    await other.edit("a.txt", with_line(9, "theirs", with_line(0, "first")))
    await mine.edit("a.txt", with_line(4, "second", with_line(9, "theirs", with_line(0, "first"))))
    assert await mine.undo() == ""
    assert (root / "a.txt").read_text() == with_line(9, "theirs", with_line(0, "first"))
    assert await mine.undo() == ""
    assert (root / "a.txt").read_text() == with_line(9, "theirs")


async def test_a_conversation_that_continues_in_another_process_knows_its_own_changes(
    base: Path, root: Path, pair: tuple[Sharer, Sharer]
) -> None:
    mine, other = pair
    await mine.edit("a.txt", with_line(1, "mine"))
    await other.edit("a.txt", with_line(8, "theirs", with_line(1, "mine")))
    mine.close()
    again = Sharer(base, mine.journal.events)
    assert await again.undo() == ""
    assert (root / "a.txt").read_text() == with_line(8, "theirs")
    again.close()


async def test_without_the_record_nothing_goes_back(
    base: Path, root: Path, pair: tuple[Sharer, Sharer]
) -> None:
    mine, _ = pair
    await mine.edit("a.txt", "mine\n")
    mine.store.close()
    forget_who_changed_what(base)
    assert "the record of who changed what since then is gone" in await mine.undo()
    assert (root / "a.txt").read_text() == "mine\n"


def forget_who_changed_what(base: Path) -> None:
    for file in base.glob("state/checkpoints/*/moments.sqlite*"):
        file.unlink()


Step = tuple[int, str, int, str]
"""Who, what they do, at which line, and of which file."""
STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["write", "command", "begin", "run", "end", "undo", "redo", "take out"]),
        st.integers(0, 9),
        st.sampled_from(["a.txt", "b.txt"]),
    ),
    min_size=4,
    max_size=12,
)


class Interleaved:
    """Two sharers that add lines of their own to the same files, take them out, and go back."""

    def __init__(self, base: Path) -> None:
        self.root = base / "work"
        self.sharers = (Sharer(base), Sharer(base))
        self._batch: list[str] = ["", ""]
        self._lines = 0

    async def step(self, who: int, what: str, at: int, path: str) -> None:
        sharer, batch = self.sharers[who], self._batch[who]
        match what:
            case "begin" | "run" if not batch:
                await sharer.begin(commands=what == "run")
                self._batch[who] = what
            case "end" if batch:
                await sharer.end()
                self._batch[who] = ""
            case "write" | "take out" if batch:
                await sharer.write(path, self._changed(who, what, at, path))
            case "command" if batch == "run":
                (self.root / path).write_text(self._changed(who, what, at, path))
            case "undo" | "redo" if not batch:
                others = self.lines_of(1 - who)
                with suppress(CheckpointError):  # there is nothing to take back or to bring back
                    await (sharer.undo() if what == "undo" else sharer.redo())
                assert self.lines_of(1 - who) == others
            case _:
                pass  # it makes no sense now

    def lines_of(self, who: int) -> list[str]:
        texts = [path.read_text() for path in sorted(self.root.iterdir())]
        return sorted(
            line for text in texts for line in text.splitlines() if line.startswith(f"of {who}")
        )

    def _changed(self, who: int, what: str, at: int, path: str) -> str:
        lines = (self.root / path).read_text().splitlines(keepends=True)
        own = [number for number, line in enumerate(lines) if line.startswith(f"of {who}")]
        if what == "take out" and own:
            del lines[own[at % len(own)]]
        else:
            self._lines += 1
            lines.insert(at, f"of {who}: {self._lines}\n")
        return "".join(lines)


@settings(max_examples=up_to(12, 400), deadline=None)
@given(steps=STEPS)
def test_going_back_never_loses_or_revives_a_line_of_the_other(steps: list[Step]) -> None:
    async def run(base: Path) -> None:
        both = Interleaved(base)
        try:
            for step in steps:
                await both.step(*step)
        finally:
            for sharer in both.sharers:
                sharer.close()

    with TemporaryDirectory() as folder:
        (Path(folder) / "work").mkdir()
        for name in ("a.txt", "b.txt"):
            (Path(folder) / "work" / name).write_text(TEN)
        asyncio.run(run(Path(folder)))
