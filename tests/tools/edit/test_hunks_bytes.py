"""Whatever the file is made of and whichever hunks are taken, its bytes are those of the text with
these hunks."""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.core.display import DiffBlock, cut, landed
from codeagent.core.tool import Denied
from codeagent.tools.builtin.write import WriteArgs
from tests.effort import times
from tests.fakes import put, tool_context
from tests.toolbox import Toolbox

_CODECS = {
    "utf-8": (b"", "utf-8"),
    "utf-8-sig": (b"\xef\xbb\xbf", "utf-8"),
    "utf-16-le": (b"\xff\xfe", "utf-16-le"),
    "utf-16-be": (b"\xfe\xff", "utf-16-be"),
    "latin-1": (b"", "latin-1"),
}
_LINE = st.sampled_from(["", "a", "b", "}", "é", "x = 1"])
# What is neither UTF-8 nor marked is read as Latin-1.
_LATIN = "\xff\xe9\xe8"


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, str, str]:
    """(codec, text before, text after); the new text begins as the old one does."""
    codec, newline = draw(st.sampled_from(sorted(_CODECS))), draw(st.sampled_from(["\n", "\r\n"]))
    first = [_LATIN] if codec == "latin-1" else ["first"]
    before, after = (draw(st.lists(_LINE, min_size=1, max_size=14)) for _ in range(2))
    if draw(st.booleans()):
        place = draw(st.integers(0, len(before)))
        after = [*before[:place], *after[:2], *before[place + draw(st.integers(0, 2)) :]]
    ends = [draw(st.sampled_from(["", newline])) for _ in range(2)]
    texts = [
        newline.join([*first, *lines]) + end
        for lines, end in zip((before, after), ends, strict=True)
    ]
    return codec, texts[0], texts[1]


@settings(max_examples=times(40), deadline=None)
@given(change=changes(), data=st.data())
def test_any_subset_of_hunks_is_exactly_what_the_file_becomes(
    change: tuple[str, str, str], data: st.DataObject
) -> None:
    codec, before, after = change
    mark, name = _CODECS[codec]
    original = mark + before.encode(name)

    async def write() -> None:
        with tempfile.TemporaryDirectory() as folder:
            box = Toolbox(Path(folder))
            path = put(box.root, "f.txt", original)
            await box.call("read", path="f.txt")
            tool, args = box.tool("write"), WriteArgs(path="f.txt", content=after)
            shown = await tool.preview(args, tool_context(box.workspace))
            block = shown.blocks[0]
            assert isinstance(block, DiffBlock)
            hunks = cut(block.before, block.after)
            assert shown.by_hunk == bool(hunks) == (before != after)
            answers = tuple(
                data.draw(st.lists(st.booleans(), min_size=len(hunks), max_size=len(hunks)))
            )
            try:
                if hunks:
                    await tool.run(
                        args, replace(tool_context(box.workspace, base=shown.base), hunks=answers)
                    )
            except Denied:
                assert not any(answers)
            finally:
                box.workspace.close()
            expected = landed(before, cut(before, after), answers)
            assert path.read_bytes() == mark + expected.encode(name)
            if all(answers):
                assert expected == after

    asyncio.run(write())
