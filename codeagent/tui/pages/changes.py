"""/diff: what changed since the session began, file by file, and how to revert a part of it."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Key, Resize

from codeagent.core.acts import RestoreFile
from codeagent.core.changes import Change
from codeagent.core.checkpoints import ChangedFile, Changes, Node
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DiffBlock, Hunk, cut, landed
from codeagent.core.errors import CheckpointError
from codeagent.tui.bindings import bindings
from codeagent.tui.keymap import keymap_of
from codeagent.tui.pages.diff_page import VIEWS, DiffPage
from codeagent.tui.parts.guard import TOO_SOON
from codeagent.tui.parts.hunk_pane import HunkRows, hunk_rows
from codeagent.tui.parts.marked_list import PickerList, PickerRow
from codeagent.tui.parts.rows import Part
from codeagent.tui.rendering.diff import counts, diff_rows, line_end_notes
from codeagent.tui.session_client import SessionClient

_LARGEST = 2 << 20
"""Bytes of the largest file whose lines are compared."""
_LEFT_OUT = "\0"
"""The key of the row about files that are not compared; it cannot be a path."""
_EDITED = "you edited it, too"
_WAIT = "the agent is working: changes can be undone when it is done, or after Esc"


@dataclass(frozen=True)
class ChangedFileView:
    """What the screen shows of a `Change`: a file then and now; a restore is refused if the file no
    longer is as it is now."""

    change: Change[Node]
    diff: DiffBlock | None
    """None if there are no lines to compare."""
    notes: tuple[str, ...]
    """Changes that no line shows, such as a new mode."""

    def without_hunk(self, at: int) -> Node | None:
        """Return the file as it is now, with one hunk of `diff` reverted. Raises IndexError."""
        assert self.diff is not None
        hunks = cut(self.diff.before, self.diff.after)
        answers = [True] * len(hunks)
        answers[at] = False
        text = landed(self.diff.before, hunks, answers)
        if text == self.diff.before or self.change.after is None:
            return self.change.before
        return replace(self.change.after, data=text.encode(errors="surrogateescape"))


def changed_file(change: Change[Node]) -> ChangedFileView:
    """Compare a file at two moments. Bytes that are not UTF-8 become lone surrogates."""
    then, now = change.before, change.after
    before, after = _text(then), _text(now)
    notes = tuple(note for note in (_kind_note(then, now),) if note)
    if before is None or after is None:
        more = tuple(what for what in (_what(then, now),) if what)
        return ChangedFileView(change, None, (*notes, *more))
    ends = () if before != after or notes else ("it is as it was",)
    diff = DiffBlock(path=change.path, before=before, after=after)
    return ChangedFileView(change, diff, (*notes, *ends))


def _text(node: Node | None) -> str | None:
    if node is None:
        return ""
    if node.kind == "link" or b"\0" in node.data or len(node.data) > _LARGEST:
        return None
    return node.data.decode(errors="surrogateescape")


def _kind_note(then: Node | None, now: Node | None) -> str:
    match then, now:
        case None, None:
            return "that file does not exist, and never did"
        case None, Node(kind="executable"):
            return "a new executable file"
        case None, Node(kind="link", data=data):
            return f"a new link to {_target(data)}"
        case None, _:
            return "a new file"
        case Node(kind="link", data=data), None:
            return f"deleted; it was a link to {_target(data)}"
        case _, None:
            return "deleted"
        case Node(kind="link", data=old), Node(kind="link", data=new):
            return f"a link: it led to {_target(old)}, and leads to {_target(new)} now"
        case Node(kind="link", data=data), _:
            return f"a file now; it was a link to {_target(data)}"
        case _, Node(kind="link", data=data):
            return f"a link to {_target(data)} now; it was a file"
        case Node(kind="file"), Node(kind="executable"):
            return "it is executable now"
        case Node(kind="executable"), Node(kind="file"):
            return "it is no longer executable"
        case _:
            return ""


def _what(then: Node | None, now: Node | None) -> str:
    """Return why there are no lines to compare; empty if that is because of a link, not a file."""
    files = [node for node in (then, now) if node is not None and node.kind != "link"]
    if any(b"\0" in node.data for node in files):
        return f"a binary file: {_sizes(then, now)}"
    if any(len(node.data) > _LARGEST for node in files):
        return f"too large to compare here: {_sizes(then, now)}"
    return ""


def _sizes(then: Node | None, now: Node | None) -> str:
    words = [
        f"{len(node.data):,} bytes {when}"
        for node, when in ((then, "before"), (now, "now"))
        if node is not None
    ]
    return ", ".join(words)


def _target(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


@dataclass(frozen=True)
class _Asked:
    """A revert that waits for a yes."""

    view: ChangedFileView
    node: Node | None
    done: str


class ChangesScreen(DiffPage[None]):
    """Compares with the earliest moment to go back to; reverts only what has not changed since
    it was shown.

    `running` says whether the agent is working.
    """

    DEFAULT_CSS = """
    ChangesScreen > Vertical {
        height: auto;
        border-bottom: solid $panel;
    }
    """
    BINDINGS = bindings("hunks", "ChangesScreen")

    def __init__(self, client: SessionClient) -> None:
        super().__init__("What changed in this session")
        self._client = client
        self._rewind = client.rewind
        self._since = ""
        self._changes = Changes(())
        self._view: ChangedFileView | None = None
        self._hunks: tuple[Hunk, ...] = ()
        self._asked: _Asked | None = None
        self._counts: dict[str, str] = {}
        """Lines added and removed, by path."""
        self._files = PickerList(())
        self._place = Vertical()

    def body(self) -> ComposeResult:
        with self._place:
            yield self._files
        yield self.pane

    def on_mount(self) -> None:
        self._place.display = False
        self._words("comparing …")
        self._load()

    def on_resize(self, event: Resize) -> None:
        self._fit()

    @property
    def count(self) -> int:
        return len(self._hunks)

    def heading(self, at: int) -> Sequence[Part]:
        return (
            Part(f"hunk {at + 1} of {self.count}", 1, "strong"),
            Part(f"line {self._hunks[at].start + 1}", 0),
        )

    def draw(self) -> None:
        paths = [file.path for file in self._changes.files]
        at = paths.index(self._marked) + 1 if self._marked in paths else 0
        self.title_row.tell(f"file {at} of {len(paths)}" if at else "")
        standing: list[Part] = []
        if self.count:
            standing.append(Part(f"hunk {self.pane.current + 1} of {self.count}", 2, "strong"))
        self.hints = (
            "{hunks.close} back",
            *(["{hunks.restore} revert hunk"] if self.count else []),
            *(["{hunks.restore_file} the file"] if self._view is not None else []),
            *(["{hunks.previous_file} {hunks.next_file} files"] if len(self._keys()) > 1 else []),
            *self.several(),
            *(VIEWS if self.count else ()),
        )
        self.show_hints(standing)
        self.pane.refresh()

    def copied(self, at: int) -> str:
        hunk = self._hunks[at]
        return "\n".join([*(f"-{line}" for line in hunk.old), *(f"+{line}" for line in hunk.new)])

    def on_key(self, event: Key) -> None:
        """Treat every key except yes as a no."""
        if self._asked is not None and event.key not in keymap_of(self).keys_of("hunks.confirm"):
            self._asked = None
            self.say("nothing was changed")
            event.stop()
            event.prevent_default()

    def action_file(self, step: int) -> None:
        self.say("")
        self._files.move(step)

    def action_restore(self) -> None:
        view, at = self._shown, self.pane.current
        if view is None or not self.count:
            self.say(f"no hunk here; {self.key('hunks.restore_file')} reverts the whole file")
            return
        what = f"hunk {at + 1} of {self.count} in {view.change.path}"
        self._ask(_Asked(view, view.without_hunk(at), what), f"revert {what}")

    def action_restore_file(self) -> None:
        view = self._shown
        if view is None:
            self.say("no file here to revert")
            return
        edited = any(file.path == view.change.path and file.edited for file in self._changes.files)
        what = f"revert all of {view.change.path}" + (f", though {_EDITED}" if edited else "")
        self._ask(_Asked(view, view.change.before, view.change.path), what)

    def action_confirm(self) -> None:
        asked = self._asked
        if asked is None:
            return
        if not self.guard.admits("y"):
            self.say(TOO_SOON)
            return
        self._asked = None
        self._put(asked)

    @on(PickerList.Marked)
    def _file_marked(self) -> None:
        self._asked = None
        self._load_file(self._marked)

    def _ask(self, asked: _Asked, what: str) -> None:
        if self._client.running:
            self.say(_WAIT)
            return
        self._asked = asked
        self.say(f"{what}? {self.key('hunks.confirm')} yes · any other key: no")

    @work(exclusive=True, group="load")
    async def _put(self, asked: _Asked) -> None:
        if self._client.running:
            self.say(_WAIT)
            return
        refused = await self._client.finish(
            RestoreFile(asked.view.change.path, asked.node, asked.view.change.after)
        )
        await self._reload()
        self.say(
            f"reverted: {asked.done} (/redo to restore)" if refused is None else refused.reason
        )

    @work(exclusive=True, group="load")
    async def _load(self) -> None:
        await self._reload()

    @work(exclusive=True, group="load")
    async def _load_file(self, key: str) -> None:
        await self._show(key)

    async def _reload(self) -> None:
        """Compare again; the marked file stays marked, or the one now in its place."""
        before, at = (
            self._marked,
            self._keys().index(self._marked) if self._marked in self._keys() else 0,
        )
        try:
            points = self._rewind.points()
            self._since = points[0].id if points else ""
            self._changes = await self._rewind.changes(self._since) if points else Changes(())
        except CheckpointError as error:
            self._changes = Changes(())
            self._list("")
            self._words(str(error))
            return
        keys = self._keys()
        key = before if before in keys else keys[min(at, len(keys) - 1)] if keys else ""
        self._list(key)
        await self._show(key)
        self._count_lines()

    @work(exclusive=True, group="count")
    async def _count_lines(self) -> None:
        """Say beside each file how many lines were added and removed."""
        for path in [file.path for file in self._changes.files]:
            with suppress(CheckpointError):
                nodes = (
                    await self._rewind.node(self._since, path),
                    await self._rewind.node(None, path),
                )
                self._counts[path] = await asyncio.to_thread(_counted, Change(path, *nodes))
        self._list(self._marked)

    def _list(self, key: str) -> None:
        self._files.show([self._row(each) for each in self._keys()], mark=key)
        self._place.display = bool(self._keys())
        self._fit()

    async def _show(self, key: str) -> None:
        """Show one file in the pane, or a text if there is no file."""
        if not key:
            self._words("no file has changed since this session began")
        elif key == _LEFT_OUT:
            self._words(
                "these are not compared and cannot be undone here:", *self._changes.left_out
            )
        else:
            try:
                then, now = (
                    await self._rewind.node(self._since, key),
                    await self._rewind.node(None, key),
                )
            except CheckpointError as error:
                self._words(str(error))
                return
            view, self._hunks = await asyncio.to_thread(_compared, Change(key, then, now))
            self._view = view
            diff = view.diff
            self.pane.show_hunks(
                key,
                self.rows(),
                line_end_notes(diff.before, diff.after) if diff else (),
                view.notes,
            )
            self.draw()

    def _words(self, *words: str) -> None:
        self._view = None
        self._hunks = ()
        self.pane.show_hunks("", (), words=words)
        self.draw()

    def rows(self) -> tuple[HunkRows, ...]:
        if self._view is None or self._view.diff is None:
            return ()
        news = [hunk.new for hunk in self._hunks]
        return hunk_rows(self._view.diff, self._hunks, news, everything=self.shows_everything)

    @property
    def _shown(self) -> ChangedFileView | None:
        """Return the marked file, once the pane shows it."""
        return (
            self._view
            if self._view is not None and self._view.change.path == self._marked
            else None
        )

    @property
    def _marked(self) -> str:
        return "" if self._files.marked is None else self._files.marked.key

    def _keys(self) -> list[str]:
        return [
            *(file.path for file in self._changes.files),
            *([_LEFT_OUT] if self._changes.left_out else []),
        ]

    def _row(self, key: str) -> PickerRow:
        if key == _LEFT_OUT:
            return PickerRow(key, "(not compared)", f"{len(self._changes.left_out)}", warn=True)
        file = next(file for file in self._changes.files if file.path == key)
        return PickerRow(key, key, _about(file) + self._counts.get(key, ""), warn=file.edited)

    def _fit(self) -> None:
        """Limit the list to a quarter of the screen."""
        self._files.styles.height = max(1, min(len(self._keys()), self.size.height // 4))


def _compared(change: Change[Node]) -> tuple[ChangedFileView, tuple[Hunk, ...]]:
    view = changed_file(change)
    return view, () if view.diff is None else cut(view.diff.before, view.diff.after)


def _counted(change: Change[Node]) -> str:
    diff = changed_file(change).diff
    if diff is None:
        return ""
    added, removed = counts(diff_rows(diff.before, diff.after, 1, 0))
    return f" · +{added} −{removed}"


def _about(file: ChangedFile) -> str:
    return file.change + (f"; {_EDITED}" if file.edited else "")
