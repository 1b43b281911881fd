"""The tools json_read and json_write: one place of a document, and every other byte as it was."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.core.errors import MissingPath, WorkspaceError
from codeagent.core.json_types import JsonValue
from codeagent.core.tool import Failed, InvalidArgs, NotFound
from codeagent.extensions.file_tools.json_text import JsonText, parse_place
from tests.effort import times
from tests.extensions.file_tools.conftest import ExtraBox
from tests.fakes import put

PACKAGE = """{
  "name" : "app",
  "private": true,
  "scripts": {
    "build":"tsc"
  },
  "files": [ "a", "b" ],
  "empty": {},
  "big": 1.50e3
}
"""


async def written(box: ExtraBox, text: str, **arguments: JsonValue) -> str:
    put(box.root, "p.json", text)
    await box.call("read", path="p.json")
    await box.call("json_write", path="p.json", **arguments)
    return box.content("p.json")


@pytest.mark.parametrize(
    ("arguments", "old", "new"),
    [
        ({"set": {"/name": "ü"}}, '"app"', '"ü"'),
        ({"set": {"scripts.build": None}}, '"tsc"', "null"),
        ({"set": {"/scripts/test": "jest"}}, '"tsc"\n', '"tsc",\n    "test":"jest"\n'),
        ({"set": {"/files/-": "c"}}, '"b" ]', '"b", "c" ]'),
        ({"set": {"files[0]": {"x": 1}}}, '"a"', '{\n      "x": 1\n    }'),
        ({"set": {"/empty/a~1b": 1}}, "{}", '{\n    "a/b": 1\n  }'),
        ({"remove": ["/private"]}, '  "private": true,\n', ""),
        ({"remove": ["/big"]}, ',\n  "big": 1.50e3', ""),
        ({"remove": ["/scripts/build"]}, '{\n    "build":"tsc"\n  }', "{}"),
        ({"remove": ["/files/0"]}, '"a", ', ""),
    ],
)
async def test_only_the_place_changes(
    box: ExtraBox, arguments: dict[str, JsonValue], old: str, new: str
) -> None:
    expected = PACKAGE.replace(old, new)
    assert await written(box, PACKAGE, **arguments) == expected
    assert await written(box, PACKAGE.replace("\n", "\r\n"), **arguments) == expected.replace(
        "\n", "\r\n"
    )


async def test_several_places_change_at_once(box: ExtraBox) -> None:
    after = await written(box, PACKAGE, set={"/name": "a", "/x": [1]}, remove=["/files", "/empty"])
    assert json.loads(after) == {
        "name": "a",
        "private": True,
        "scripts": {"build": "tsc"},
        "big": 1500.0,
        "x": [1],
    }


async def test_a_document_on_one_line_stays_on_one(box: ExtraBox) -> None:
    assert await written(box, '{"a":1}', set={"/b": [1, {"c": 2}]}) == '{"a":1,"b":[1, {"c": 2}]}'
    assert await written(box, "[1]", set={"/-": 2}) == "[1, 2]"
    assert await written(box, "  [] ", set={"/-": 2}) == "  [2] "
    assert await written(box, "1\n", set={"": {"a": 1}}) == '{"a": 1}\n'


async def test_what_has_a_mark_or_only_escapes_keeps_them(box: ExtraBox) -> None:
    put(box.root, "m.json", b'\xef\xbb\xbf{"a": "\\u00e9"}')
    await box.call("read", path="m.json")
    await box.call("json_write", path="m.json", set={"/b": "ü"})
    assert (box.root / "m.json").read_bytes() == b'\xef\xbb\xbf{"a": "\\u00e9", "b": "\\u00fc"}'


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"set": {"/name/x": 1}}, '/name/x cannot be set: /name is "app"'),
        ({"remove": ["/name/x/y"]}, '/name/x does not exist: /name is "app"'),
        ({"set": {"/nope/x": 1}}, "/nope does not exist: the document has name, private, scripts"),
        ({"set": {"/files/7": 1}}, "/files/7 does not exist; /files/- adds to the end of the list"),
        ({"set": {"/name": "kept?"}, "remove": ["/nope"]}, "/nope does not exist"),
        ({"remove": [""]}, "the whole document cannot be removed"),
    ],
)
async def test_a_place_that_is_not_there_changes_nothing(
    box: ExtraBox, arguments: dict[str, JsonValue], why: str
) -> None:
    with pytest.raises(Failed, match=why):
        await written(box, PACKAGE, **arguments)
    assert box.content("p.json") == PACKAGE


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1,}', "it is not JSON: .* line 1, column"),
        ("// x\n{}", "it is not JSON"),
        ("{} {}", "not one JSON document"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ('{"a": 1, "a": 2}', "'a' is 2 times"),
    ],
)
async def test_what_is_not_strictly_json_is_not_changed(box: ExtraBox, text: str, why: str) -> None:
    with pytest.raises(Failed, match=why):
        await written(box, text, set={"/a": 1})
    assert box.content("p.json") == text


async def test_a_file_must_have_been_read_and_so_must_what_goes(box: ExtraBox) -> None:
    rows = ",\n".join(f'    "k{number}": {number}' for number in range(2000))
    put(box.root, "big.json", '{\n  "x": {\n' + rows + '\n  },\n  "y": 1\n}\n')
    with pytest.raises(Failed, match="was not read in this session"):
        await box.call("json_write", path="big.json", set={"/y": 2})
    listed = await box.text("json_read", path="big.json")
    assert listed == 'object with 2 entries\n"x": object, 35784 characters\n"y": 1'
    await box.call("json_write", path="big.json", set={"/y": 2, "/x/k7": 8})
    with pytest.raises(Failed, match=r"/x, lines 2 to 2003, was not read"):
        await box.call("json_write", path="big.json", remove=["/x"])
    put(
        box.root,
        "mid.json",
        '{\n  "x": {\n    "a": [\n      1\n    ]\n  },\n  "y": "' + "y" * 20_000 + '"\n}\n',
    )
    await box.text("json_read", path="mid.json", at="/x")
    await box.call("json_write", path="mid.json", remove=["/x"])
    with pytest.raises(MissingPath):
        await box.call("json_write", path="gone.json", set={"/y": 2})


async def test_json_read_shows_one_place_as_it_is_written(box: ExtraBox) -> None:
    put(box.root, "p.json", PACKAGE)
    assert await box.text("json_read", path="p.json", at="scripts") == '{\n    "build":"tsc"\n  }'
    assert await box.text("json_read", path="p.json", at="/files/1") == '"b"'
    assert await box.text("json_read", path="p.json") == PACKAGE.rstrip("\n")
    with pytest.raises(NotFound, match=r"p\.json: /files/2 does not exist: /files has 2 entries"):
        await box.text("json_read", path="p.json", at="files[2]")


async def test_what_is_large_is_listed_in_pages(box: ExtraBox) -> None:
    put(box.root, "l.json", json.dumps([{"text": "x" * 100}] * 300))
    page = await box.text("json_read", path="l.json", offset=251)
    lines = page.split("\n")
    assert (lines[0], lines[1], len(lines)) == (
        "list with 300 entries",
        "[250]: object, 112 characters",
        51,
    )
    first = await box.text("json_read", path="l.json", limit=2)
    assert first.endswith("[Entries 1-2 of 300. Continue with offset=3.]")
    put(box.root, "s.json", json.dumps("y" * 20_000))
    assert "more characters in this line]" in await box.text("json_read", path="s.json")


async def test_a_link_to_a_file_of_secrets_is_not_read(box: ExtraBox) -> None:
    put(box.root, "credentials.json", "{}")
    (box.root / "harmless.json").symlink_to("credentials.json")
    with pytest.raises(WorkspaceError, match=r"ask for credentials\.json by its own name"):
        await box.call("json_read", path="harmless.json")


@pytest.mark.parametrize("place", ["a..b", "a[x]", ".a", "/a~2", "a.b]", "[0]b"])
async def test_what_is_not_a_place_is_said_to_be_none(box: ExtraBox, place: str) -> None:
    with pytest.raises(InvalidArgs, match=r"is (not|neither) a JSON pointer"):
        await box.call("json_read", path="p.json", at=place)


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
_KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, JsonValue]:
    """A text and its value, in one of several styles."""
    value = draw(
        st.lists(_VALUES, min_size=1, max_size=4)
        | st.dictionaries(_KEYS, _VALUES, min_size=1, max_size=4)
    )
    indent = draw(st.sampled_from([None, 2, "\t"]))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]))
    text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return text.replace("\n", newline) + draw(st.sampled_from(["", newline])), value


def _place(data: st.DataObject, value: Any) -> tuple[tuple[str, ...], Any, Any]:
    """(place, what holds it, its key or index) of something in the value."""
    names, parent, key = list[str](), value, None
    while True:
        key = data.draw(
            st.sampled_from(sorted(parent) if isinstance(parent, dict) else range(len(parent)))
        )
        names.append(str(key))
        if not (isinstance(parent[key], dict | list) and parent[key]) or data.draw(st.booleans()):
            return tuple(names), parent, key
        parent = parent[key]


@settings(max_examples=times(150), deadline=None)
@given(document=documents(), new=_VALUES, data=st.data())
def test_a_change_does_what_it_says_and_leaves_all_else_as_it_is_written(
    document: tuple[str, JsonValue], new: JsonValue, data: st.DataObject
) -> None:
    text, value = document
    expected = copy.deepcopy(value)
    place, parent, key = _place(data, expected)
    source = JsonText.checked(text)
    match data.draw(st.sampled_from(["set", "add", "remove"])):
        case "set":
            there = source.find(place)
            splice = source.set(place, new, ascii_only=data.draw(st.booleans()))
            assert (splice.start, splice.end) == (there.start, there.end)
            parent[key] = new
        case "add":
            name = data.draw(_KEYS) if isinstance(parent, dict) else "-"
            splice = source.set((*place[:-1], name), new, ascii_only=False)
            if isinstance(parent, dict):
                parent[name] = new
            else:
                parent.append(new)
        case _:
            splice = source.remove(place)
            del parent[key]
            assert not splice.replacement
    after = text[: splice.start] + splice.replacement + text[splice.end :]
    assert json.loads(after) == expected
    assert list(json.loads(after)) == list(expected)  # type: ignore[call-overload, arg-type]  # a list or an object
    assert ("\r\n" in after) <= ("\r\n" in text)
    assert "\n" not in after.replace("\r\n", "") or "\r\n" not in text


@settings(max_examples=times(30), deadline=None)
@given(names=st.lists(st.text(max_size=5), max_size=4))
def test_every_name_can_be_pointed_at(names: list[str]) -> None:
    text = "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)
    assert parse_place(text) == tuple(names)
