"""Whatever a file is made of, an edit or a patch changes the bytes of the lines it names and no
others."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from codeagent.core.json_types import JsonValue
from tests.effort import times
from tests.extensions.file_tools.conftest import ExtraBox
from tests.fakes import put

_CODECS = {
    "utf-8": (b"", "utf-8"),
    "utf-8-sig": (b"\xef\xbb\xbf", "utf-8"),
    "utf-16-le": (b"\xff\xfe", "utf-16-le"),
    "utf-16-be": (b"\xfe\xff", "utf-16-be"),
    "latin-1": (b"", "latin-1"),
}
_FIRST = {"latin-1": "\xff\xe9\xe8"}
_LINE = st.sampled_from(["", "x", "  indented", "é", "}"])


@st.composite
def files(draw: st.DrawFn) -> tuple[str, list[str], list[str]]:
    """(codec, lines, what ends each of them): no two lines are alike, and the last may have no
    newline."""
    codec = draw(st.sampled_from(sorted(_CODECS)))
    texts = [_FIRST.get(codec, "first"), *draw(st.lists(_LINE, min_size=1, max_size=8))]
    newlines = draw(st.sampled_from([("\n",), ("\r\n",), ("\n", "\r\n")]))
    ends = [draw(st.sampled_from(newlines)) for _ in texts]
    if draw(st.booleans()):
        ends[-1] = ""
    return codec, [f"{text} {number}" for number, text in enumerate(texts)], ends


def written(codec: str, lines: list[str], ends: list[str]) -> bytes:
    mark, name = _CODECS[codec]
    return mark + "".join(line + end for line, end in zip(lines, ends, strict=True)).encode(name)


def after_call(tool: str, before: bytes, **arguments: JsonValue) -> bytes:
    async def called() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            box = ExtraBox(Path(folder))
            try:
                path = put(box.root, "f.txt", before)
                await box.call("read", path="f.txt")
                await box.call(tool, **arguments)
                return path.read_bytes()
            finally:
                box.workspace.close()

    return asyncio.run(called())


@settings(max_examples=times(40), deadline=None)
@given(file=files(), data=st.data())
def test_multi_edit_changes_the_lines_it_names(
    file: tuple[str, list[str], list[str]], data: st.DataObject
) -> None:
    codec, lines, ends = file
    chosen = sorted(data.draw(st.sets(st.integers(0, len(lines) - 1), min_size=1, max_size=3)))
    edits: list[JsonValue] = [
        {"path": "f.txt", "old_string": lines[at], "new_string": f"NEW {at}"} for at in chosen
    ]
    expected = [f"NEW {at}" if at in chosen else line for at, line in enumerate(lines)]
    assert after_call("multi_edit", written(codec, lines, ends), edits=edits) == written(
        codec, expected, ends
    )


@settings(max_examples=times(60), deadline=None)
@given(file=files(), data=st.data())
def test_a_patch_replaces_and_removes_the_lines_it_names(
    file: tuple[str, list[str], list[str]], data: st.DataObject
) -> None:
    codec, lines, ends = file
    marks = data.draw(st.lists(st.sampled_from(" -~"), min_size=len(lines), max_size=len(lines)))
    changes = "".join(marks)
    # Lines that change side by side share their newlines; here each stands alone.
    assume(changes.strip() and not any(pair in changes for pair in ("-~", "~-", "~~")))
    shown: list[str] = []
    kept: list[tuple[str, str]] = []
    for at, (line, mark) in enumerate(zip(lines, marks, strict=True)):
        shown += [f"-{line}", f"+NEW {at}"] if mark == "~" else [f"{mark}{line}"]
        kept += [] if mark == "-" else [(f"NEW {at}" if mark == "~" else line, ends[at])]
    patch = "\n".join(["*** Begin Patch", "*** Update File: f.txt", "@@", *shown, "*** End Patch"])
    expected = written(codec, [line for line, _ in kept], [end for _, end in kept])
    assert after_call("apply_patch", written(codec, lines, ends), patch=patch) == expected


@settings(max_examples=times(40), deadline=None)
@given(file=files(), data=st.data())
def test_a_patch_keeps_what_is_around_the_lines_it_adds(
    file: tuple[str, list[str], list[str]], data: st.DataObject
) -> None:
    codec, lines, ends = file
    at = data.draw(st.integers(0, len(lines) - 1))
    patch = "\n".join(
        [
            "*** Begin Patch",
            "*** Update File: f.txt",
            "@@",
            f" {lines[at]}",
            "+one",
            "+two",
            "*** End Patch",
        ]
    )
    after = after_call("apply_patch", written(codec, lines, ends), patch=patch)
    mark, name = _CODECS[codec]
    head = written(codec, lines[: at + 1], ends[: at + 1])
    tail = (
        b""
        if at + 1 == len(lines)
        else written(codec, lines[at + 1 :], ends[at + 1 :])[len(mark) :]
    )
    middle = after[len(head) : len(after) - len(tail)].decode(name)
    assert after == head + middle.encode(name) + tail
    assert middle.replace("\r\n", "\n").strip("\n").split("\n") == ["one", "two"]
    assert after.decode(name).endswith("\n") == (ends[-1] != "")
    if len(set(ends)) == 1 and "\r\n" in ends:
        assert "\n" not in middle.replace("\r\n", "")
