"""One file as a session found it and as it is now: lines to compare, or words where there are none."""

from dataclasses import dataclass, replace

from codeagent.core.checkpoints import Node
from codeagent.core.display import DiffBlock
from codeagent.core.hunks import cut, landed

_LARGEST = 2 << 20
"""Bytes of a file up to which its lines are compared."""


@dataclass(frozen=True)
class ChangedFileView:
    """`then` and `now` are what comparing was about; a restore is refused where `now` no longer holds."""

    path: str
    then: Node | None
    now: Node | None
    diff: DiffBlock | None
    """None where there are no lines to compare."""
    notes: tuple[str, ...]
    """What happened to it that no line shows."""

    def without_hunk(self, at: int) -> Node | None:
        """The file as it is now, but for one hunk of `diff`, which is as it was. Raises IndexError."""
        assert self.diff is not None
        hunks = cut(self.diff.before, self.diff.after)
        answers = [True] * len(hunks)
        answers[at] = False
        text = landed(self.diff.before, hunks, answers)
        if text == self.diff.before or self.now is None:
            return self.then
        return replace(self.now, data=text.encode(errors="surrogateescape"))


def changed_file(path: str, then: Node | None, now: Node | None) -> ChangedFileView:
    """None: there was, or is, no such file. Bytes that are no UTF-8 are lone surrogates in the texts."""
    before, after = _text(then), _text(now)
    notes = tuple(note for note in (_kind_note(then, now),) if note)
    if before is not None and after is not None:
        ends = () if before != after or notes else ("it is as it was",)
        return ChangedFileView(path, then, now, DiffBlock(path=path, before=before, after=after), (*notes, *ends))
    return ChangedFileView(path, then, now, None, (*notes, *(what for what in (_what(then, now),) if what)))


def _text(node: Node | None) -> str | None:
    if node is None:
        return ""
    if node.kind == "link" or b"\0" in node.data or len(node.data) > _LARGEST:
        return None
    return node.data.decode(errors="surrogateescape")


def _kind_note(then: Node | None, now: Node | None) -> str:
    match then, now:
        case None, None:
            return "there is no such file, and there was none"
        case None, Node(kind="executable"):
            return "a new file, which may be run"
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
            return "it may be run now"
        case Node(kind="executable"), Node(kind="file"):
            return "it may no longer be run"
        case _:
            return ""


def _what(then: Node | None, now: Node | None) -> str:
    """Why there are no lines, where a file and not a link is the reason."""
    files = [node for node in (then, now) if node is not None and node.kind != "link"]
    if any(b"\0" in node.data for node in files):
        return f"a binary file: {_sizes(then, now)}"
    if any(len(node.data) > _LARGEST for node in files):
        return f"too large to compare here: {_sizes(then, now)}"
    return ""


def _sizes(then: Node | None, now: Node | None) -> str:
    words = [f"{len(node.data):,} bytes {when}" for node, when in ((then, "before"), (now, "now")) if node is not None]
    return ", ".join(words)


def _target(data: bytes) -> str:
    return data.decode(errors="surrogateescape")
