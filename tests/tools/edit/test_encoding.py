"""An edit changes no byte outside its span, whatever the file is made of."""

import asyncio
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from codeagent.core.text_files import NotEncodable, NotText, Splice, read_text
from codeagent.core.tool import ToolError
from codeagent.tools.edit.match import NoMatch, find
from tests.effort import times, up_to
from tests.fakes import put
from tests.table import for_each
from tests.toolbox import Toolbox

_CODECS = {
    "utf-8": ("", "utf-8"),
    "utf-8-sig": ("\ufeff", "utf-8"),
    "utf-16-le": ("\ufeff", "utf-16-le"),
    "utf-16-be": ("\ufeff", "utf-16-be"),
    "latin-1": ("", "latin-1"),
}
_LINE = st.text(alphabet="ab cdé ü{}=;\t\"'ß", max_size=12)
_NEWLINES = {
    "lf": st.just("\n"),
    "crlf": st.just("\r\n"),
    "mixed": st.sampled_from(["\n", "\r\n", "\r"]),
}


@st.composite
def files(draw: st.DrawFn) -> tuple[str, str]:
    """(text, codec): lines with one style of newline or several, with or without a last one."""
    codec = draw(st.sampled_from(sorted(_CODECS)))
    newline = _NEWLINES[draw(st.sampled_from(sorted(_NEWLINES)))]
    lines = draw(st.lists(_LINE, min_size=1, max_size=12))
    text = "".join(line + draw(newline) for line in lines[:-1]) + lines[-1]
    text += draw(st.sampled_from(["", "\n", "\r\n"]))
    # What is neither UTF-8 nor marked is read as Latin-1.
    return (text + "\xff\xe9\xe8" if codec == "latin-1" else text), codec


def encoded(text: str, codec: str) -> bytes:
    mark, name = _CODECS[codec]
    return (mark + text).encode(name)


@pytest.mark.soak(row="edited files")
@settings(max_examples=up_to(100, 19_700), deadline=None)
@given(file=files(), data=st.data())
def test_bytes_outside_the_span_are_identical(file: tuple[str, str], data: st.DataObject) -> None:
    text, codec = file
    assume("\0" not in text)
    original = encoded(text, codec)
    parsed = read_text(original)
    assert parsed.spliced([]).data == original
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    assume(end > start)
    old = text[start:end]
    assume(
        parsed.text.count(old) == 1 and "\r" not in (text[start - 1 : start], text[end - 1 : end])
    )
    new = data.draw(_LINE) + data.draw(st.sampled_from(["", "\n", "\r\nx", "\ny\n"]))
    assume(new != old)
    # Where it begins within a line's leading blanks, indentation is read, not copied:
    # test_edit_slips.
    assume(re.search(r"(^|[\r\n])[ \t]+$", text[:start]) is None)
    try:
        matches = find(parsed.text, old, new, replace_all=False)
    except NoMatch:
        # The same text is there twice, overlapping, or but for its newlines.
        plain = re.escape(old.replace("\r\n", "\n"))
        assert len(re.findall(f"(?={plain})", text.replace("\r\n", "\n"))) > 1
        return
    assert [(span.start, span.end) for span in matches.spans] == [(start, end)]
    result = parsed.spliced(matches.spans).data
    head, tail = encoded(text[:start], codec), len(original) - len(encoded(text[:end], codec))
    assert result.startswith(head)
    assert result.endswith(original[len(original) - tail :] if tail else b"")
    middle = result[len(head) : len(result) - tail].decode(_CODECS[codec][1])
    assert middle.replace("\r\n", "\n") == new.replace("\r\n", "\n")


@pytest.mark.soak(row="edited files")
@settings(max_examples=times(20), deadline=None)
@given(file=files(), data=st.data())
def test_the_whole_tool_keeps_the_bytes_too(file: tuple[str, str], data: st.DataObject) -> None:
    text, codec = file
    words = [
        word
        for word in text.replace("\r", "\n").split("\n")
        if word.strip() and text.count(word) == 1
    ]
    assume(words)
    word = data.draw(st.sampled_from(words))
    original = encoded(text, codec)

    async def edit() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            box = Toolbox(Path(folder))
            path = put(box.root, "f.txt", original)
            path.chmod(0o640)
            await box.call("read", path="f.txt")
            try:
                await box.call("edit", path="f.txt", old_string=word, new_string="REPLACED")
            finally:
                box.workspace.close()
            assert path.stat().st_mode & 0o777 == 0o640
            return path.read_bytes()

    start = text.index(word)
    expected = original[: len(encoded(text[:start], codec))] + "REPLACED".encode(_CODECS[codec][1])
    expected += original[len(encoded(text[: start + len(word)], codec)) :]
    assert asyncio.run(edit()) == expected


@settings(max_examples=times(80), deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_back_as_they_are_or_refused_as_no_text(data: bytes) -> None:
    try:
        file = read_text(data)
    except NotText:
        return
    assert file.spliced([]).data == data
    assert file.spliced([Splice(0, 0, ""), Splice(len(file.text), len(file.text), "")]).data == data
    assert file.bom + file.encode(file.text) == data


@for_each(
    ("data", "what"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "binary"),
        (b"a\0b", "binary"),
        (b"\x01\x02\x03\x04abc", "binary"),
        ("\ufeffhi".encode("utf-32-le"), "UTF-32"),
        (b"\xff\xfea", "not valid utf-16-le"),
        (b"\xef\xbb\xbf\xff", "not valid utf-8"),
    ],
)
def test_what_is_no_text_is_refused_with_a_name(data: bytes, what: str) -> None:
    with pytest.raises(NotText, match=what):
        read_text(data)


def test_a_character_the_encoding_lacks_is_refused_by_name() -> None:
    with pytest.raises(NotEncodable, match=r"latin-1, which has no '→' \(U\+2192\)"):
        read_text(b"caf\xe9").encode("→")


def test_a_few_stray_bytes_do_not_make_a_utf8_file_latin1() -> None:
    file = read_text("é ü ß".encode() + b" \xff")
    assert file.encoding == "utf-8"
    assert file.spliced([Splice(0, 1, "è")]).data == "è ü ß".encode() + b" \xff"


async def test_a_file_in_latin1_refuses_what_it_cannot_hold_and_stays(box: Toolbox) -> None:
    path = put(box.root, "f.txt", b"caf\xe9\n")
    await box.call("read", path="f.txt")
    with pytest.raises(ToolError, match="latin-1"):
        await box.call("edit", path="f.txt", old_string="café", new_string="→")
    assert path.read_bytes() == b"caf\xe9\n"
