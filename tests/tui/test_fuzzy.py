"""A few letters find the file that was meant."""

from hypothesis import given
from hypothesis import strategies as st

from codeagent.tui.fuzzy import PathIndex, rank

PATHS = (
    "codeagent/tui/stage.py",
    "codeagent/tui/",
    "codeagent/core/cancel.py",
    "docs/stage-and-screen.md",
    "tests/tui/test_stage.py",
    "stage/notes.txt",
    "README.md",
)


def test_a_name_that_begins_so_comes_first_and_a_shorter_path_before_a_longer_one() -> None:
    found = PathIndex(PATHS).search("stage")
    assert found == (
        "codeagent/tui/stage.py",
        "docs/stage-and-screen.md",
        "tests/tui/test_stage.py",
        "stage/notes.txt",
    )


def test_a_directory_is_found_by_its_name() -> None:
    assert PathIndex(PATHS).search("tui")[0] == "codeagent/tui/"


def test_letters_apart_match_after_everything_that_matches_whole() -> None:
    found = PathIndex(("s_x_t.py", "set.py", "xx/s/e/t.py")).search("set")
    assert found == ("set.py", "xx/s/e/t.py")


def test_a_slash_in_the_query_is_looked_for_in_the_path() -> None:
    assert PathIndex(PATHS).search("core/ca") == ("codeagent/core/cancel.py",)


def test_case_is_ignored() -> None:
    assert PathIndex(PATHS).search("readme") == ("README.md",)
    assert PathIndex(PATHS).search("ReAdMe") == ("README.md",)


def test_without_letters_the_shortest_paths_are_offered() -> None:
    assert PathIndex(PATHS).search("", limit=1) == ("README.md",)


def test_nothing_matches_nothing() -> None:
    assert PathIndex(()).search("a") == ()
    assert PathIndex(PATHS).search("qqq") == ()


letters = st.text(st.sampled_from("abcAB/._-\n(é"), max_size=8)


@given(paths=st.lists(letters.filter(bool), unique=True, max_size=30), query=letters.filter(bool))
def test_it_always_finds_exactly_the_paths_that_have_the_letters_in_order(
    paths: list[str], query: str
) -> None:
    found = PathIndex(paths).search(query)
    assert sorted(found) == sorted(path for path in paths if _in_order(query, path))
    assert len(found) == len(set(found))


def _in_order(query: str, path: str) -> bool:
    rest = iter(path.lower().replace("\n", " "))
    if len(query) == 1:
        return query.lower().replace("\n", " ") in path.lower().replace("\n", " ")
    return all(letter in rest for letter in query.lower().replace("\n", " "))


@given(texts=st.lists(letters, max_size=20), query=letters.filter(bool), limit=st.integers(1, 5))
def test_ranking_puts_whole_matches_first_and_keeps_to_the_limit(
    texts: list[str], query: str, limit: int
) -> None:
    found = rank(query, texts, limit)
    whole = [query.lower() in text.lower() for text in found]
    assert whole == sorted(whole, reverse=True)
    assert len(found) <= limit
