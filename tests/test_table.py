"""A test through a table fails for every case that does, and says which they are."""

from pathlib import Path

import pytest

from tests.table import for_each


@for_each(("number", "square"), [(1, 1), (2, 5), (3, 9), (4, 17)])
def squares(folder: str, number: int, square: int) -> None:
    assert folder
    assert number**2 == square


@for_each("text", ["no", "1", "neither"])
async def numbers(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        int(text)


@for_each("left", [1, 2])
@for_each("right", [2, 3])
def equal(left: int, right: int) -> None:
    assert left == right


def notes(failures: BaseExceptionGroup[BaseException]) -> list[str]:
    return [failure.__notes__[0] for failure in failures.exceptions]


def test_every_case_that_fails_is_named() -> None:
    with pytest.raises(BaseExceptionGroup, match="2 of 4 cases fail") as caught:
        squares(folder="x")
    assert notes(caught.value) == ["with number=2, square=5", "with number=4, square=17"]


async def test_an_error_that_is_missing_is_a_failure_too_and_the_cases_behind_it_are_tried() -> (
    None
):
    with pytest.raises(BaseExceptionGroup, match="1 of 3 cases fail") as caught:
        await numbers()
    assert notes(caught.value) == ["with text='1'"]


def test_one_table_in_another_is_every_pair() -> None:
    with pytest.raises(BaseExceptionGroup, match="2 of 2 cases fail") as caught:
        equal()
    assert notes(caught.value) == ["with left=1", "with left=2"]
    assert [
        notes(failure)
        for failure in caught.value.exceptions
        if isinstance(failure, BaseExceptionGroup)
    ] == [["with right=2", "with right=3"], ["with right=3"]]


@for_each("letter", "ab")
def test_what_is_not_in_the_table_is_a_fixture(tmp_path: Path, letter: str) -> None:
    assert tmp_path.is_dir()
    assert len(letter) == 1


def test_a_table_without_cases_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no cases of text"):
        for_each("text", [])
