from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from codeagent.tui.driver import END, START, Pasted, PasteReader, TypedText

KEYS = st.text(st.sampled_from("ab\x1b[20~1;\r")).filter(lambda text: START not in text)
PASTES = st.text(st.sampled_from("xyz\x1b[20~1;\r\n")).filter(
    lambda text: END not in text and END not in text + END[:-1]
)


def read(pieces: Iterable[str]) -> list[TypedText | Pasted]:
    """Everything, neighbouring keys joined."""
    reader = PasteReader()
    found = [part for piece in pieces for part in reader.feed(piece)]
    if reader.holds:
        found.append(reader.release())
    joined: list[TypedText | Pasted] = []
    for part in found:
        match joined, part:
            case [*_, TypedText(before)], TypedText(after):
                joined[-1] = TypedText(before + after)
            case _:
                joined.append(part)
    return joined


def test_a_paste_is_one_whole_between_keys() -> None:
    assert read([f"a{START}one\rtwo{END}b"]) == [TypedText("a"), Pasted("one\rtwo"), TypedText("b")]


def test_escape_sequences_in_a_paste_stay_in_it() -> None:
    text = "\x1by\x1b[A\x1b\r[200~\x1b[200~"
    assert read([f"{START}{text}{END}"]) == [Pasted(text)]


def test_an_escape_that_nothing_follows_is_held_and_given_back() -> None:
    reader = PasteReader()
    assert list(reader.feed("\x1b")) == []
    assert reader.holds
    assert reader.release() == TypedText("\x1b")
    assert not reader.holds


def test_within_a_paste_nothing_is_released_to_the_keys() -> None:
    reader = PasteReader()
    assert list(reader.feed(f"{START}text\x1b[20")) == []
    assert not reader.holds
    assert list(reader.feed("1~")) == [Pasted("text")]


@given(st.lists(st.tuples(KEYS, PASTES), max_size=4), st.data())
def test_how_the_input_is_cut_never_matters(
    parts: list[tuple[str, str]], data: st.DataObject
) -> None:
    whole = "".join(f"{keys}{START}{paste}{END}" for keys, paste in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert read(pieces) == read([whole])
    assert [part.text for part in read(pieces) if isinstance(part, Pasted)] == [
        paste for _, paste in parts
    ]
