"""Models that pydantic builds when one is first used: declaring them loads nothing, and using them
is no different."""

import subprocess
import sys
import time
from pathlib import Path
from threading import Barrier, Thread
from typing import Annotated, Any, Self

import pydantic
import pytest

from codeagent.core import deferred
from codeagent.core.deferred import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    field_validator,
    model_validator,
)

ROOT = Path(__file__).parents[2]


def _lower(text: str) -> str:
    return text.lower()


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    word: Annotated[str, AfterValidator(_lower)]
    count: Annotated[int, Field(ge=1)] = 1


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid")

    first: Part
    rest: tuple[Part, ...] = ()
    last: Part | None = None
    anything: dict[str, JsonValue] = Field(default_factory=dict)
    name: str = Field(default="n", min_length=1)

    @field_validator("name")
    @classmethod
    def _is_a_word(cls, text: str) -> str:
        if " " in text:
            raise ValueError("it is not one word")
        return text

    @model_validator(mode="after")
    def _has_no_double(self) -> Self:
        if self.last == self.first:
            raise ValueError("the last is the first")
        return self

    @property
    def parts(self) -> int:
        return 1 + len(self.rest)


class Wider(Whole):
    more: int = 0


class Louder(Whole):
    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)


def test_declaring_a_model_loads_no_pydantic() -> None:
    code = "import sys, codeagent.tools.builtin.bash, codeagent.tools.builtin.edit; print('pydantic' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "False"


def test_a_used_model_validates_converts_and_writes_as_pydantics_own() -> None:
    whole = Whole.model_validate_json(
        '{"first": {"word": "A"}, "rest": [{"word": "B", "count": 2}], "anything": {"k": [1]}}'
    )
    assert isinstance(whole, Whole)
    assert isinstance(whole, pydantic.BaseModel)
    assert (whole.first, whole.rest, whole.parts) == (Part(word="a"), (Part(word="b", count=2),), 2)
    assert whole.model_dump()["anything"] == {"k": [1]}
    assert Whole.model_json_schema()["required"] == ["first"]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"first": {"word": "a", "count": 0}},
        {"first": {"word": "a"}, "name": ""},
        {"first": {"word": "a"}, "name": "two words"},
        {"first": {"word": "a"}, "last": {"word": "A"}},
        {"first": {"word": "a"}, "other": 1},
    ],
)
def test_every_kind_of_check_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError):
        Whole.model_validate(wrong)


def test_classes_derive_from_each_other_even_where_one_calls_super() -> None:
    assert Wider(first=Part(word="a"), more=2).more == 2
    assert isinstance(Wider(first=Part(word="a")), Whole)
    assert not isinstance(Whole(first=Part(word="a")), Wider)
    assert issubclass(Wider, Whole)
    assert Louder(first=Part(word="X")).first.word == "x"


def test_threads_that_use_a_model_at_once_get_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shared(Whole):
        more: int = 0

    make = deferred._make  # type: ignore[attr-defined]  # the type checker sees pydantic's names only

    def slowly(*declared: Any) -> type:
        time.sleep(0.01)  # for the others to come as far
        return make(*declared)  # type: ignore[no-any-return]  # as above

    monkeypatch.setattr(deferred, "_make", slowly)

    together = Barrier(8)
    made: list[Any] = []

    def use() -> None:
        together.wait()
        made.append(Shared(first=Part(word="a")))

    threads = [Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({type(one) for one in made}) == 1
    assert all(isinstance(one, Shared) for one in made)


def test_a_model_of_pydantics_own_can_use_one() -> None:
    class Own(pydantic.BaseModel):
        part: Part

    assert Own.model_validate({"part": {"word": "Q"}}).part == Part(word="q")
    assert (
        pydantic.create_model("Made", __base__=Whole, extra=(int, 0))(first=Part(word="a")).extra
        == 0
    )
