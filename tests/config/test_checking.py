"""Values of files, checked against the annotations of the dataclasses that they become."""

from collections.abc import Callable
from dataclasses import field
from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import TypeAdapter

from codeagent.config.checking import (
    WrongValue,
    above,
    as_given,
    at_least,
    at_most,
    checked,
    filled,
    matching,
)
from codeagent.core.dataclass import dataclass
from tests.table import for_each


def _word(text: str) -> str:
    if " " in text:
        raise ValueError("it is not one word")
    return text.lower()


@dataclass(frozen=True, kw_only=True)
class Inner:
    name: Annotated[str, filled("name"), _word]
    share: Annotated[float, at_least(0), at_most(1)] = 0.5

    def __post_init__(self) -> None:
        if self.name == "forbidden":
            raise ValueError("that name is taken")


@dataclass(frozen=True, kw_only=True)
class Outer:
    count: Annotated[int, above(0)] = 1
    on: bool = False
    level: Literal["low", "high"] | Annotated[int, above(0)] | None = None
    listed: bool | tuple[Annotated[str, _word], ...] = False
    inner: Inner = Inner(name="x")
    several: tuple[Inner, ...] = ()
    by_name: dict[Annotated[str, _word], tuple[str, ...]] = field(default_factory=dict)
    code: Annotated[str, matching("^[a-z]+$", "it should be lower case")] = "a"
    at: datetime | None = None


def test_what_is_right_is_read_and_written_back() -> None:
    given = {
        "count": 2,
        "on": True,
        "level": "low",
        "inner": {"name": "A", "share": 1},
        "several": [{"name": "b"}],
        "by_name": {"K": ["v"]},
        "at": "2026-01-02T03:04:05Z",
    }
    found = checked(Outer, given)
    assert (found.inner, found.several, found.by_name) == (
        Inner(name="a", share=1.0),
        (Inner(name="b"),),
        {"k": ("v",)},
    )
    assert checked(Outer, as_given(found)) == found
    assert as_given(found)["at"] == given["at"]
    assert checked(Outer, {}) == Outer()


BOOLEANS = (
    "on",
    "OFF",
    "t",
    "f",
    "y",
    "n",
    "yes",
    "No",
    "True",
    "0",
    "1",
    0,
    1,
    0.0,
    1.0,
    True,
    False,
)
OTHERS = (2, -1, 0.5, "", "x", " on", "o", None, [], {})


@for_each("value", [*BOOLEANS, *OTHERS])
def test_a_boolean_is_read_as_pydantic_reads_it(value: Any) -> None:
    def read(how: Callable[[Any], Any]) -> Any:
        try:
            return how(value)
        except ValueError:
            return "refused"

    assert read(lambda value: checked(Outer, {"on": value}).on) is read(
        TypeAdapter(bool).validate_python
    )


@for_each(
    ("given", "path", "said"),
    [
        ([], (), "valid dictionary"),
        ({"count": 0}, ("count",), "greater than 0"),
        ({"count": True}, ("count",), "valid integer"),
        ({"count": 1.0}, ("count",), "valid integer"),
        ({"count": "1"}, ("count",), "valid integer"),
        ({"on": 2}, ("on",), "valid boolean"),
        ({"on": "yes please"}, ("on",), "valid boolean"),
        ({"on": []}, ("on",), "valid boolean"),
        ({"level": "middle"}, ("level",), "'low' or 'high', or a valid integer"),
        ({"level": 0}, ("level",), "'low' or 'high', or greater than 0"),
        ({"listed": 5}, ("listed",), "valid boolean, or a valid list"),
        ({"listed": ["a", 5]}, ("listed", 1), "^Input should be a valid string"),
        ({"listed": ["a", "b c"]}, ("listed", 1), "^it is not one word"),
        ({"inner": "x"}, ("inner",), "valid dictionary"),
        ({"inner": {}}, ("inner", "name"), "Field required"),
        ({"inner": {"name": ""}}, ("inner", "name"), "should not be empty"),
        ({"inner": {"name": "a b"}}, ("inner", "name"), "not one word"),
        ({"inner": {"name": "forbidden"}}, ("inner",), "that name is taken"),
        ({"inner": {"name": "a", "share": 1.5}}, ("inner", "share"), "less than or equal to 1"),
        ({"inner": {"name": "a", "share": float("nan")}}, ("inner", "share"), "finite number"),
        ({"inner": {"name": "a", "share": 10**400}}, ("inner", "share"), "finite number"),
        ({"several": "ab"}, ("several",), "valid list"),
        ({"several": [{"name": "a"}, 5]}, ("several", 1), "valid dictionary"),
        ({"by_name": {"a b": []}}, ("by_name", "a b"), "not one word"),
        ({"by_name": {"a": [5]}}, ("by_name", "a", 0), "valid string"),
        ({"code": "a\n"}, ("code",), "lower case"),
        ({"at": "2026-01-02T03:04:05"}, ("at",), "timezone"),
        ({"at": 5}, ("at",), "valid datetime"),
    ],
)
def test_the_first_fault_is_named_with_its_place(
    given: Any, path: tuple[str | int, ...], said: str
) -> None:
    with pytest.raises(WrongValue, match=said) as caught:
        checked(Outer, given)
    assert (caught.value.path, caught.value.unknown) == (path, False)


def test_an_unknown_key_is_told_apart() -> None:
    with pytest.raises(WrongValue) as caught:
        checked(Outer, {"inner": {"name": "a", "nam": "b"}})
    assert (caught.value.path, caught.value.unknown) == (("inner", "nam"), True)
