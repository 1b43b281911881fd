"""The hunks of a change: taken in any number, they give the text with exactly these."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.changes.change_set import ChangeSet
from codeagent.changes.hunks import Answered, hunks_of, is_by_hunk
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.display import landed
from codeagent.core.tool import Failed
from tests.effort import times
from tests.table import for_each

_LINES = st.lists(st.sampled_from(["", "a", "b", "}", "é", "\tx = 1"]), max_size=12)
_CODECS = st.sampled_from([("utf-8", b""), ("utf-16-le", b"\xff\xfe"), ("utf-8", b"\xef\xbb\xbf")])


@st.composite
def changes(draw: st.DrawFn) -> Change[Node]:
    (codec, mark), newline = draw(_CODECS), draw(st.sampled_from(["\n", "\r\n"]))
    texts = [newline.join(draw(_LINES)) for _ in range(2)]
    before, after = (Node("file", mark + text.encode(codec), 0o644) for text in texts)
    return Change("f", draw(st.sampled_from([before, before, None])), after)


@settings(max_examples=times(80), deadline=None)
@given(change=changes(), data=st.data())
def test_a_diff_cut_into_hunks_and_applied_is_the_change(
    change: Change[Node], data: st.DataObject
) -> None:
    hunks = hunks_of(change)
    assert bool(hunks) == is_by_hunk(change)
    if not hunks:
        return
    assert Answered.of(change, [True] * len(hunks)).took == change
    assert Answered.of(change, [False] * len(hunks)).left_out
    answers = [data.draw(st.booleans()) for _ in hunks]
    took = Answered.of(change, answers).took
    assert took.texts is not None and change.texts is not None
    assert took.texts[1] == landed(change.texts[0], hunks, answers)
    assert took.after is not None and took.after.mode == 0o644


FILE = Node("file", b"one\n", 0o644)


@for_each(
    ("before", "after", "contents", "kind"),
    [
        (None, FILE, ("absent", "text"), "added"),
        (FILE, None, ("text", "absent"), "deleted"),
        (FILE, Node("file", b"\0", 0o644), ("text", "binary"), "modified"),
        (Node("link", b"to"), FILE, ("link", "text"), "modified"),
        (Node("file", b"\0"), Node("link", b"to"), ("binary", "link"), "modified"),
        (FILE, Node("executable", b"one\n", 0o755), ("text", "text"), "modified"),
    ],
)
def test_a_change_says_what_each_side_is(
    before: Node | None, after: Node | None, contents: tuple[str, str], kind: str
) -> None:
    change = Change("f", before, after)
    assert (change.contents, change.kind) == (contents, kind)
    assert change.back.back == change


def test_what_is_not_text_cannot_be_answered_by_hunk() -> None:
    change = Change("f", FILE, Node("file", b"\0", 0o644))
    assert not is_by_hunk(change)
    with pytest.raises(Failed, match="does not fit this change"):
        Answered.of(change, [True])


def test_a_renamed_file_is_taken_back_to_its_old_name() -> None:
    renamed = ChangeSet((Change("new", FILE, Node("file", b"two\n", 0o644), "old"),))
    (back,) = renamed.back.changes
    assert (back.path, back.source, back.after) == ("old", "new", FILE)
    assert renamed.paths == ("old", "new")
